// SPDX-License-Identifier: Apache-2.0
// How long the lists of awaited tiles would be, before one is made.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/check/check.hpp"

namespace tessera {

/// A search with 8 million pairs was seen to take 3 s and 470 MiB: at the limit, half of that.
constexpr std::int64_t k_most_awaited_pairs = 4'000'000;

/// Of each dependence: pairs of tiles of which one waits for the other, equal lists once; 0 where a tile
/// waits for one other at most.
std::vector<std::int64_t> awaited_pairs(CheckedPipeline const& checked);

/// E0504: waiting for tiles would take lists of too many (consumer tile, producer tile) pairs. Consumer tiles
/// that read the same tiles, such as a row of a GEMM, share a list. Counts without making the lists, in time
/// proportional to the consumers' tiles.
std::optional<Diagnostic> too_many_awaited_pairs(CheckedPipeline const& checked);

/// Lists of awaited tiles that a plan with tile waits has at most: one for each tile of a consumer, but for
/// those that differ only in coordinates which no dependence looks at.
std::int64_t awaited_lists(Pipeline const& pipeline);

/// Steps to find once what every tile waits for: a step for each operation of a tile's expressions, some more
/// for each access and each tile that it names. Dependences of more pairs than are planned count none. Takes
/// time proportional to the lists and their accesses.
std::int64_t awaited_steps(Pipeline const& pipeline);

}  // namespace tessera
