// SPDX-License-Identifier: Apache-2.0
#include "run/gpu/own_stream.hpp"

#include <map>

namespace tessera::run {
namespace {

struct Streams {
  std::map<int, cudaStream_t> of_device;
  ~Streams() {
    for (auto const& [device, stream] : of_device) (void)cudaStreamDestroy(stream);
  }
};

}  // namespace

Expected<cudaStream_t> own_stream() {
  thread_local Streams streams;
  int device = 0;
  if (auto ok = check_call(cudaGetDevice(&device), "cudaGetDevice"); !ok)
    return tl::make_unexpected(ok.error());
  auto& stream = streams.of_device[device];
  if (stream == nullptr)
    if (auto ok = check_call(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                             "cudaStreamCreateWithFlags");
        !ok)
      return tl::make_unexpected(ok.error());
  return stream;
}

}  // namespace tessera::run
