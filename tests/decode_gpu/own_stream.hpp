// SPDX-License-Identifier: Apache-2.0
// A stream that waits for no other.
#pragma once

#include "gpu/device_buffer.hpp"

namespace tessera::decode {

struct OwnStream {
  OwnStream() { gpu::ok(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking)); }
  OwnStream(OwnStream const&) = delete;
  OwnStream& operator=(OwnStream const&) = delete;
  ~OwnStream() { cudaStreamDestroy(own); }
  cudaStream_t own = nullptr;
  operator cudaStream_t() const { return own; }
};

}  // namespace tessera::decode
