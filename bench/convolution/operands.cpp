// SPDX-License-Identifier: Apache-2.0
#include "bench/convolution/operands.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/common/program.hpp"

namespace tessera::bench_convolution {

using bench::check;

namespace {
constexpr std::size_t k_rotated = 80u << 20;  // bytes of all sets: more than the L2 holds
}

Operands::Operands(LayerChain const& of, cudaStream_t on) : chain(of), sizes(sizes_of(of)), stream(on) {
  std::vector<bench::Operand> all;
  std::size_t bytes = 0;
  auto const add = [&](std::string name, long long elements, double deviation, unsigned seed) {
    auto const size = 2 * static_cast<std::size_t>(elements);
    bytes += size;
    all.push_back({std::move(name), size,
                   deviation > 0 ? bench::random_numbers(chain.type, seed, deviation) : bench::Fill{}});
  };
  add("x0", activation_elements(chain, sizes[0]), 1, 1);
  for (std::size_t l = 0; l < chain.layers.size(); ++l) {
    auto const number = std::to_string(l);
    auto const filter = filter_elements(sizes[l], chain.layers[l]);
    double const depth = static_cast<double>(filter) / chain.layers[l].channels;
    add("filter" + number, filter, std::sqrt(2.0 / depth), 10 * static_cast<unsigned>(l) + 100);
    add("bias" + number, chain.layers[l].channels, 0.3, 10 * static_cast<unsigned>(l) + 101);
    add("x" + std::to_string(l + 1), activation_elements(chain, sizes[l + 1]), 0, 0);
  }
  int const count = std::clamp(static_cast<int>((k_rotated + bytes - 1) / bytes), 2, 32);
  check(sets.make(all, count, stream), "memory");
}

ConvBuffers Operands::buffers(int set) const {
  ConvBuffers result{at("x", 0, set), {}};
  for (std::size_t l = 0; l < chain.layers.size(); ++l)
    result.layers.push_back(
        {at("filter", l, set), at("bias", l, set), const_cast<void*>(at("x", l + 1, set))});
  return result;
}
cudnn::Buffers Operands::layer(std::size_t l, int set) const {
  int const residual = chain.layers[l].residual;
  return {at("x", l, set), at("filter", l, set), at("bias", l, set),
          residual < 0 ? nullptr : at("x", static_cast<std::size_t>(residual), set),
          const_cast<void*>(at("x", l + 1, set))};
}
void Operands::poison() const {
  for (int set = 0; set < sets.count(); ++set)
    for (std::size_t l = 1; l < sizes.size(); ++l)
      bench::poison(const_cast<void*>(at("x", l, set)),
                    static_cast<std::size_t>(activation_elements(chain, sizes[l])), stream);
}

std::vector<ConvChain> chains_of(Operands const& operands, ConvOptions const& options, int sets) {
  std::vector<ConvChain> result;
  for (int set = 0; set < sets; ++set) {
    auto made = ConvChain::make(operands.chain, operands.buffers(set), options);
    if (!made) {
      std::printf("  not here: %s\n", to_text(made.error()).c_str());
      return {};
    }
    result.push_back(std::move(*made));
  }
  return result;
}

std::function<cudaError_t(cudaStream_t, int)> work_of(std::vector<ConvChain>& chains) {
  return [&chains](cudaStream_t stream, int set) {
    auto const done = chains[static_cast<std::size_t>(set) % chains.size()].run(stream);
    if (!done) std::printf("  %s\n", to_text(done.error()).c_str());
    return done ? cudaSuccess : cudaErrorLaunchFailure;
  };
}

LayerChain alone(Operands const& operands, std::size_t l) {
  auto const& [height, width, channels] = operands.sizes[l];
  LayerChain result{operands.chain.images, height, width, channels, {operands.chain.layers[l]}};
  result.type = operands.chain.type;
  if (auto& residual = result.layers[0].residual; residual >= 0) residual = k_given_residual;
  return result;
}

std::vector<std::vector<ConvChain>> launches_of(Operands const& operands,
                                                std::vector<ChainPart> const& planned, bool early,
                                                bool by_layer) {
  std::vector<std::vector<ConvChain>> result;
  for (int set = 0; set < operands.sets.count(); ++set) {
    auto& layers = result.emplace_back();
    auto const all = operands.buffers(set);
    for (auto const& part : planned)
      for (std::size_t i = 0; i < part.cut.stages.size(); ++i) {
        auto const l = part.first + i;
        ConvOptions options;
        options.by_layer = by_layer;
        options.cuts = {part.cut.stages[i].cut};
        options.starts_early = early && l > 0;
        auto const from = operands.layer(l, set);
        ConvBuffers buffers{from.input, {all.layers[l]}};
        buffers.layers[0].residual = from.residual;
        auto made = ConvChain::make(alone(operands, l), buffers, options);
        if (!made) {
          std::printf("  not here: %s\n", to_text(made.error()).c_str());
          return {};
        }
        layers.push_back(std::move(*made));
      }
  }
  return result;
}

std::function<cudaError_t(cudaStream_t, int)> work_of(std::vector<std::vector<ConvChain>>& sets) {
  return [&sets](cudaStream_t stream, int set) {
    for (auto& one : sets[static_cast<std::size_t>(set) % sets.size()])
      if (auto const done = one.run(stream); !done) {
        std::printf("  %s\n", to_text(done.error()).c_str());
        return cudaErrorLaunchFailure;
      }
    return cudaSuccess;
  };
}

std::vector<ConvChain> layer_alone(Operands const& operands, std::size_t l, ConvOptions const& options,
                                   int sets) {
  std::vector<ConvChain> result;
  for (int set = 0; set < sets; ++set) {
    auto const from = operands.layer(l, set);
    ConvBuffers buffers{from.input, {operands.buffers(set).layers[l]}};
    buffers.layers[0].residual = from.residual;
    auto made = ConvChain::make(alone(operands, l), buffers, options);
    if (!made) {
      std::printf("  not here: %s\n", to_text(made.error()).c_str());
      return {};
    }
    result.push_back(std::move(*made));
  }
  return result;
}

}  // namespace tessera::bench_convolution
