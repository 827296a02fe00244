// SPDX-License-Identifier: Apache-2.0
// Which way the results of a chain of MLPs go from block to block, by price instead of by trying.
#pragma once

#include <tessera/plan/exchange.hpp>
#include <vector>

#include "kernels/few_tokens/chain_plan.hpp"

namespace tessera::few_tokens {

/// Of x and h, which go the same way (MlpChainConfig::tokens_in_data), for a chain with the rings of
/// `config`. Words are offered for 1 and 2 tokens. By the machine's figures of exchanges; without them
/// semaphores, and the reason says so. Blocks: one on each of its SMs, or config.workers.
ExchangeChoice chain_exchange(mlp::Shape const& shape, MlpChainConfig const& config,
                              MachineProfile const& machine);

/// What a tuner may try: the rings of chain_configs(), each once, with the cheaper exchange.
std::vector<MlpChainConfig> chain_configs(mlp::Shape const& shape, MachineProfile const& machine);

}  // namespace tessera::few_tokens
