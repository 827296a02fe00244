// SPDX-License-Identifier: Apache-2.0
// How large a pipeline may be. Everything is counted exactly, tile by tile, so size costs time and
// memory; the limits keep the largest accepted pipeline at seconds and a few hundred MiB, and every
// product of two counts inside 64 bits.
#pragma once

#include <cstdint>

namespace tessera::check_detail {

constexpr std::int64_t k_max_tiles = std::int64_t{1} << 24;        ///< of one stage
constexpr std::int64_t k_max_total_tiles = std::int64_t{1} << 26;  ///< of all stages together
constexpr std::int64_t k_max_stages = std::int64_t{1} << 14;       ///< 40 000 take 4 s: names, buffers, order
constexpr std::int64_t k_max_blocks = (std::int64_t{1} << 31) - 1;  ///< CUDA's limit for one grid
/// (tile, access) pairs looked at. Accesses with mod() take 45 ns each: two seconds. A stage of the most
/// tiles that reads one of the most by one access has 38 million.
constexpr std::int64_t k_max_evaluations = 50'000'000;
constexpr std::int64_t k_max_reuses = std::int64_t{1} << 21;  ///< 64 bytes each
constexpr std::int64_t k_max_expression_value = std::int64_t{1} << 61;
constexpr int k_max_expression_depth = 100;
constexpr int k_max_expression_nodes = 10'000;

}  // namespace tessera::check_detail
