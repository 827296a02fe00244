// SPDX-License-Identifier: Apache-2.0
// Reads of tiles that are overwritten meanwhile, whichever way the stages are launched.
#pragma once

#include "tessera/describe/pipeline.hpp"

namespace tessera::check_detail {

/// E0117. A stage that works in place may read only what its own tile stores: other tiles of the stage
/// overwrite the rest at the same time. A stage that reads tiles of an older writer awaits those of the last
/// writer that overwrite them.
///
/// Buffers have names, not addresses. Writers whose grids have the same rank are taken to cover their buffer
/// evenly; of others nothing is known. Where that leaves open whether a tile reads more than it stores, it is
/// a warning.
///
/// Precondition: nothing else is wrong with the pipeline.
void check_overwritten(Pipeline const& pipeline, Diagnostics& errors, Diagnostics& warnings);

/// Its warning of a stage that reads, through an operand without a dependence, what it overwrites.
Diagnostic undescribed(Pipeline const& pipeline, Stage const& stage, Operand const& operand);

}  // namespace tessera::check_detail
