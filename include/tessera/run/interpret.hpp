// SPDX-License-Identifier: Apache-2.0
// Runs a plan for real on CPU threads, with the same policy code as on the GPU and std::atomic semaphores:
// results can be compared with a reference, and ThreadSanitizer checks the ordering.
#pragma once

#include <functional>
#include <vector>

#include "../plan/plan.hpp"

namespace tessera {

/// Computes one split of one tile of one stage; reads what its dependences name, writes its own tile.
using TileFunction = std::function<void(std::int64_t tile, int split)>;

struct InterpretOptions {
  int workers = 4;               ///< threads; each stands for a block slot
  int launches = 1;              ///< repeats with the same semaphores (epochs), no reset in between
  double deadline_seconds = 10;  ///< no progress for so long: stop and report
  unsigned seed = 0;             ///< shuffles yields between steps, to vary interleavings
};

/// One function per stage. Refuses (E0502) a run that stalls, naming tile, semaphore, seen and expected
/// count; all threads are joined before it returns.
Expected<void> interpret(Plan const& plan, std::vector<TileFunction> const& functions,
                         InterpretOptions const& options = {});

}  // namespace tessera
