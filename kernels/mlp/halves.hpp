// SPDX-License-Identifier: Apache-2.0
// One of an MLP's two GEMMs, by any of the libraries that can do it.
#pragma once

#include <optional>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "candidate.hpp"
#include "kernels/gemm_sm90/pair.hpp"

namespace tessera::mlp {

enum class Which {
  first,   ///< with the activation: x, w1 -> h
  second,  ///< h, w2 -> y
};

/// A value, as a Candidate is. In stream order.
struct Half {
  std::string name;
  bool needs_gate_up = false;
  bool rounds_gate_up = false;
  long long counter_words = 0;  ///< as a Candidate's
  gemm_sm90::Half tiles;        ///< without a kernel: cuBLASLt
  std::function<cudaError_t(Buffers const&, Workspace const&, cudaStream_t)> launch;

  bool is_cublaslt() const { return tiles.kernel == nullptr; }
};

/// All that cuBLASLt offers, its best guess first. E0533.
Expected<std::vector<Half>> cublaslt_halves(Shape const& shape, Which which);

/// Tile shapes of gemm_sm90 that may be fast for this shape, in several orders of tiles, one block a tile and
/// persistent; the most promising first. None for forms and types that it has not.
std::vector<Half> gemm_sm90_halves(Shape const& shape, Which which);

/// One of gemm_sm90's kernels; nothing if it cannot do this shape. `early`: it may start when the kernel
/// before it has (as far as that allows it), loads its weights and waits for that kernel as a whole.
std::optional<Half> tiled_half(Shape const& shape, Which which, gemm_sm90::Half const& tiles,
                               bool early = false);

/// By name; nothing if there is no such half or it cannot do this shape.
std::optional<Half> find_half(Shape const& shape, Which which, std::string const& name);

int multiprocessors();  ///< of the current device

/// What gemm_sm90 calls these operands.
gemm_sm90::PairBuffers pair_buffers(Shape const& shape, Buffers const& buffers, Workspace const& workspace);

}  // namespace tessera::mlp
