// SPDX-License-Identifier: Apache-2.0
// What stages read, and whether what they say of themselves can be (E0137).
#pragma once

#include "tessera/describe/pipeline.hpp"

namespace tessera {

/// Names the operand that each dependence brings: the one that reads the producer's buffer, or a new one.
/// Reports an operand that reads another buffer.
void connect_operands(Pipeline& pipeline, Diagnostics& problems);

/// Reports names of operands, sizes, costs and resources that no kernel can have.
void check_stages(Pipeline const& pipeline, Diagnostics& problems);

}  // namespace tessera
