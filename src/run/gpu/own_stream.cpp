// SPDX-License-Identifier: Apache-2.0
#include "run/gpu/own_stream.hpp"

#include <map>
#include <utility>

#include "gpu/context_sms.hpp"

namespace tessera::run {
namespace {

struct Streams {
  /// A green context is another one on the same device.
  std::map<std::pair<int, void*>, cudaStream_t> of_context;
  ~Streams() {
    for (auto const& [context, stream] : of_context) (void)cudaStreamDestroy(stream);
  }
};

}  // namespace

Expected<cudaStream_t> own_stream() {
  thread_local Streams streams;
  int device = 0;
  if (auto ok = check_call(cudaGetDevice(&device), "cudaGetDevice"); !ok)
    return tl::make_unexpected(ok.error());
  auto& stream = streams.of_context[{device, gpu::current_context()}];
  if (stream == nullptr)
    if (auto ok = check_call(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                             "cudaStreamCreateWithFlags");
        !ok)
      return tl::make_unexpected(ok.error());
  return stream;
}

}  // namespace tessera::run
