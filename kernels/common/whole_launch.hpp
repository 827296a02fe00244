// SPDX-License-Identifier: Apache-2.0
// Abilities of a kernel that is launched as a whole: it waits for all launches before it and posts no tiles.
#pragma once

#include "tessera/describe/pipeline.hpp"

namespace tessera::kernels {

/// It may be launched early (PDL), and then waits.
inline Abilities whole_launch() {
  Abilities can;
  can.wait = can.post = can.run_beside = can.persist = false;
  can.bands = can.any_order = can.load_early = can.fuse = false;
  return can;
}

}  // namespace tessera::kernels
