// SPDX-License-Identifier: Apache-2.0
#include "kernels/few_tokens/chain_price.hpp"

#include <algorithm>

namespace tessera::few_tokens {
namespace {

constexpr double k_element_bytes = 2;
/// What the ring of weights holds beside activations, about: slots of 28 KB fill it.
constexpr double k_ring_bytes = 172 * 1024;

}  // namespace

ExchangeChoice chain_exchange(mlp::Shape const& shape, MlpChainConfig const& config,
                              MachineProfile const& machine) {
  int const blocks = config.workers > 0 ? config.workers : machine.sms;
  auto const edge = [&](int elements) {
    return ExchangedEdge{k_element_bytes * elements * shape.tokens, blocks, blocks};
  };
  double in_flight = k_ring_bytes;
  if (config.in_flight > 0 && config.slot_bytes > 0)
    in_flight = std::min(in_flight, static_cast<double>(config.in_flight) * config.slot_bytes);
  return choose_exchange(machine, {edge(shape.model), edge(shape.hidden)},
                         {in_flight, k_ring_bytes - in_flight}, {shape.tokens <= 2, 0});
}

std::vector<MlpChainConfig> chain_configs(mlp::Shape const& shape, MachineProfile const& machine) {
  std::vector<MlpChainConfig> result;
  for (auto config : chain_configs(shape.tokens)) {
    if (config.tokens_in_data) continue;
    config.tokens_in_data = chain_exchange(shape, config, machine).way == Exchange::words;
    result.push_back(config);
  }
  return result;
}

}  // namespace tessera::few_tokens
