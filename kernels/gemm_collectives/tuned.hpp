// SPDX-License-Identifier: Apache-2.0
// Products with their collective and the tuning cache: what is kept of them, and what is taken from there.
#pragma once

#include <optional>
#include <string>
#include <tessera/tune/cache.hpp>

#include "kernels/gemm_collectives/gemm_collective.hpp"

namespace tessera::gemm_collectives {

/// As the cache names kernels: cuBLASLt's own name, "128x256x64_2x1 band 8", "few rows 2"; nothing for
/// cuBLASLt's first guess.
std::string to_text(PieceKernel const& kernel);
std::optional<PieceKernel> piece_kernel(std::string const& text);

/// What a measurement on this process's GPUs is valid for. E0511, and E0581 where they are not all alike.
Expected<ProductKey> product_key(PeerGroup const& group, Problem const& problem);

/// What an entry says, where its way and its kernel are known here.
std::optional<Options> options_of(ProductEntry const& entry);

/// One-call functions of the group take from now on what the cache has for its GPUs. How many sizes these
/// are. E0511, and as remember().
Expected<int> remember_tuned(std::shared_ptr<PeerGroup> const& group, TuneCache const& cache);

}  // namespace tessera::gemm_collectives
