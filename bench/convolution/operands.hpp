// SPDX-License-Identifier: Apache-2.0
// A chain's memory, in sets that take turns, and its work of all sets: as chains, and each layer as a launch
// of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/convolution/chain_plan.hpp"
#include "kernels/convolution/conv_chain.hpp"
#include "kernels/cudnn/convolution.hpp"
#include "src/bench/operand_sets.hpp"

namespace tessera::bench_convolution {

using namespace convolution;

/// A chain's memory, in sets.
struct Operands {
  LayerChain chain;
  std::vector<ImageSize> sizes;
  bench::OperandSets sets;
  cudaStream_t stream;

  Operands(LayerChain const& of, cudaStream_t on);

  void const* at(char const* name, std::size_t number, int set) const {
    return sets.at(name + std::to_string(number), set);
  }
  ConvBuffers buffers(int set) const;
  cudnn::Buffers layer(std::size_t l, int set) const;
  std::size_t results() const { return static_cast<std::size_t>(activation_elements(chain, sizes.back())); }
  void const* result(int set) const { return at("x", chain.layers.size(), set); }
  void poison() const;  ///< everything that a layer writes
};

/// Chains of all sets, cut alike. Empty where there are none; says why.
std::vector<ConvChain> chains_of(Operands const& operands, ConvOptions const& options, int sets);
/// Of all sets, every layer as a launch of its own, cut as `planned` has it: the same kernels, without waits
/// from tile to tile. `early`: launches load filters while the one before still runs.
std::vector<std::vector<ConvChain>> launches_of(Operands const& operands,
                                                std::vector<ChainPart> const& planned, bool early,
                                                bool by_layer);

/// One layer of a chain by itself. An older activation that it adds is given.
LayerChain alone(Operands const& operands, std::size_t l);
/// Of all sets, one layer as a launch of its own.
std::vector<ConvChain> layer_alone(Operands const& operands, std::size_t l, ConvOptions const& options,
                                   int sets);

/// What enqueues a set's chain, or its launches; `chains` must outlive it.
std::function<cudaError_t(cudaStream_t, int)> work_of(std::vector<ConvChain>& chains);
std::function<cudaError_t(cudaStream_t, int)> work_of(std::vector<std::vector<ConvChain>>& sets);

}  // namespace tessera::bench_convolution
