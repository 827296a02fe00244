// SPDX-License-Identifier: Apache-2.0
// SMs that other launches do not get, from one event to another: no guess of how long a launch takes to
// begin.
#pragma once

#include <cuda_runtime_api.h>

namespace tessera::gpu {

/// Blocks that compute nothing, each with all threads' registers and all shared memory of an SM: nothing fits
/// beside them. They have their SMs when the constructor returns.
class HeldSms {
 public:
  /// Until release(), and no longer than `most_seconds` of the GPU's clock: a deadline, or what is tested.
  /// All SMs where there are fewer. Throws where they are not held within a minute, or CUDA fails.
  explicit HeldSms(int sms, double most_seconds = 10);
  /// As release().
  ~HeldSms();
  HeldSms(HeldSms const&) = delete;
  HeldSms& operator=(HeldSms const&) = delete;

  /// Loads the kernel, which could not be done behind one that never ends. CUDA's error. The constructor does
  /// it, too.
  static cudaError_t load();
  int sms() const { return sms_; }
  /// They are free when this returns.
  void release();

 private:
  struct Words;
  Words* words_ = nullptr;
  cudaStream_t stream_ = nullptr;
  int sms_ = 0;
};

/// SMs of the current device. Throws.
int sms_of_device();

}  // namespace tessera::gpu
