// SPDX-License-Identifier: Apache-2.0
// Another process that uses the GPU.
#pragma once

#include <sys/types.h>

#include <string>

namespace tessera::soak {

/// Holds a few SMs for a millisecond at a time, until its parent is gone or ends it. Made before this process
/// uses CUDA.
class Neighbour {
 public:
  Neighbour();
  ~Neighbour();
  Neighbour(Neighbour const&) = delete;
  Neighbour& operator=(Neighbour const&) = delete;

  /// Empty: it is there. Else how it ended: what this process did has spoilt it.
  std::string gone();
  /// Ends it; how it ended, if not by that.
  std::string end();

 private:
  pid_t child_ = -1;
};

}  // namespace tessera::soak
