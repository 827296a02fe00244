// SPDX-License-Identifier: Apache-2.0
// Another current device for a while, in functions that throw nothing.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/context_sms.hpp"

namespace tessera::run {

/// Makes a device the calling thread's current one, and the context before again at its end, which may be a
/// green one. Nothing happens where the device is current; what fails is said by the calls that follow.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    int current = device;
    if (cudaGetDevice(&current) != cudaSuccess || current == device) return;
    before_ = gpu::current_context();
    changed_ = cudaSetDevice(device) == cudaSuccess;
  }
  ~OnDevice() {
    if (changed_) make_current(before_);
  }
  OnDevice(OnDevice const&) = delete;
  OnDevice& operator=(OnDevice const&) = delete;

 private:
  static void make_current(CUcontext context) {
    static auto const set = gpu::driver_function<decltype(&cuCtxSetCurrent)>("cuCtxSetCurrent", 4000);
    if (set != nullptr) (void)set(context);
  }

  CUcontext before_ = nullptr;
  bool changed_ = false;
};

}  // namespace tessera::run
