// SPDX-License-Identifier: Apache-2.0
// How a launch begins.
#pragma once

namespace tessera::kernels {

struct Start {
  bool programmatic = true;  ///< when the kernel before has triggered, or else when it is complete
  int shared_percent = -1;   ///< of an SM's memory that the launch wants as shared (gpu::Shape)
};

}  // namespace tessera::kernels
