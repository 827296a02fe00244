// SPDX-License-Identifier: Apache-2.0
// Do all dependences go from later stages to earlier ones (E0104)?
#pragma once

#include "tessera/describe/pipeline.hpp"

namespace tessera::check_detail {

/// Every circle is reported once, with its stages; every other dependence on a later stage by itself.
void check_launch_order(Pipeline const& pipeline, Diagnostics& found);

}  // namespace tessera::check_detail
