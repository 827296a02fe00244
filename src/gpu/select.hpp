// SPDX-License-Identifier: Apache-2.0
// Another current device for a while.
#pragma once

#include "check.hpp"

namespace tessera::gpu {

/// Makes a device the calling thread's current one, and the one before again at its end.
class Select {
 public:
  explicit Select(int device) {
    ok(cudaGetDevice(&before_));
    if (device != before_) ok(cudaSetDevice(device));
  }
  ~Select() { cudaSetDevice(before_); }
  Select(Select const&) = delete;
  Select& operator=(Select const&) = delete;

 private:
  int before_ = 0;
};

}  // namespace tessera::gpu
