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
      : command_of_(static_cast<std::size_t>(configuration.tiles * wavefronts), -1) {
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
          command_of_[static_cast<std::size_t>(command.regions.back())] = open;
        }
    }
  }

  /// A wavefront tile is complete; the command that is now ready, or null.
  CopyCommand const* complete(std::int64_t region) {
    auto const index = command_of_[static_cast<std::size_t>(region)];
    if (index < 0) return nullptr;
    auto& command = commands_[static_cast<std::size_t>(index)];
    return --command.missing == 0 ? &command : nullptr;
  }

  std::int64_t waiting() const {
    std::int64_t count = 0;
    for (auto const& command : commands_) count += command.missing > 0;
    return count;
  }
  std::size_t commands() const { return commands_.size(); }

 private:
  std::vector<CopyCommand> commands_;
  std::vector<std::int32_t> command_of_;
};

}  // namespace tessera::overlap
