// SPDX-License-Identifier: Apache-2.0
// Who touches a buffer.
#pragma once

#include <algorithm>

#include "tessera/describe/pipeline.hpp"

namespace tessera {

/// Some stage reads or writes the buffer.
inline bool uses(Pipeline const& pipeline, std::string const& buffer) {
  return std::any_of(pipeline.stages.begin(), pipeline.stages.end(), [&](Stage const& stage) {
    return stage.output == buffer || std::any_of(stage.operands.begin(), stage.operands.end(),
                                                 [&](Operand const& o) { return o.buffer == buffer; });
  });
}

}  // namespace tessera
