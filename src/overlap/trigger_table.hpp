// SPDX-License-Identifier: Apache-2.0
// T3's table of copy commands (section 4.2.2): written before the kernel starts, each marked ready by the
// Tracker when the last of its wavefront tiles is complete.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/overlap/configure.hpp"

namespace tessera::overlap {

struct CopyCommand {
  int peer = 0;
  bool update = false;
  std::int32_t missing = 0;           ///< wavefront tiles that are not complete
  std::vector<std::int64_t> regions;  ///< wavefront tiles
};

/// Commands of the maps' tiles, `granularity` neighbouring wavefront tiles each.
class TriggerTable {
 public:
  TriggerTable(OutputConfiguration const& configuration, int wavefronts)
      : of_region_(static_cast<std::size_t>(configuration.tiles * wavefronts)) {
    for (auto const& map : configuration.dma) {
      std::int32_t open = -1;
      for (auto const tile : map.tiles)
        for (int w = 0; w < wavefronts; ++w) {
          if (open < 0 || commands_[static_cast<std::size_t>(open)].missing == map.granularity) {
            open = static_cast<std::int32_t>(commands_.size());
            commands_.push_back({map.peer, map.operation == MemoryOperation::update, 0, {}});
          }
          auto& command = commands_[static_cast<std::size_t>(open)];
          ++command.missing;
          command.regions.push_back(tile * wavefronts + w);
          of_region_[static_cast<std::size_t>(command.regions.back())].push_back({map.phase, open});
        }
    }
  }

  /// A wavefront tile is complete for a phase; calls ready(command) for each command that now is.
  template <class Ready>
  void complete(std::int64_t region, int phase, Ready&& ready) {
    for (auto const& entry : of_region_[static_cast<std::size_t>(region)]) {
      if (entry.phase != phase) continue;
      auto& command = commands_[static_cast<std::size_t>(entry.command)];
      if (--command.missing == 0) ready(command);
    }
  }

  std::int32_t index(CopyCommand const& command) const {
    return static_cast<std::int32_t>(&command - commands_.data());
  }
  CopyCommand const& command(std::int32_t index) const { return commands_[static_cast<std::size_t>(index)]; }

  std::int64_t waiting() const {
    std::int64_t count = 0;
    for (auto const& command : commands_) count += command.missing > 0;
    return count;
  }

 private:
  struct Entry {
    std::int32_t phase, command;
  };
  std::vector<CopyCommand> commands_;
  std::vector<std::vector<Entry>> of_region_;
};

}  // namespace tessera::overlap
