// SPDX-License-Identifier: Apache-2.0
// Walks over all tiles of a dependence's consumer once, and keeps what the checks ask for.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/check/check.hpp"

namespace tessera::check_detail {

/// The first pair in launch order whose producer tile does not exist.
struct OutsideRead {
  std::size_t access = 0;
  std::int64_t consumer_tile = 0;
  std::array<std::int64_t, k_max_rank> producer{};

  bool operator==(OutsideRead const&) const = default;
};

/// One access over all consumer tiles.
struct AccessUse {
  bool reads_something = false;  ///< for some consumer tile
  bool runs_backwards = false;   ///< some range has end < begin for every consumer tile
  int backward_dimension = 0;    ///< which, if so
};

struct DependenceCount {
  DependenceFacts facts;  ///< of the tiles that exist
  std::optional<OutsideRead> first_outside;
  std::int64_t idle_consumers = 0;       ///< consumer tiles that read no tile at all
  std::int64_t first_idle_consumer = 0;  ///< if there are any
  std::vector<AccessUse> accesses;
};

/// `steps` counts the work so far of the whole pipeline; nullopt once it passes k_max_evaluations.
/// `read` has a flag for each producer tile; those that are read are set.
/// Precondition: check_dependences found nothing wrong with the dependence.
std::optional<DependenceCount> count_dependence(Pipeline const& pipeline, Dependence const& dependence,
                                                std::int64_t& steps, std::vector<bool>& read);

}  // namespace tessera::check_detail
