// SPDX-License-Identifier: Apache-2.0
#include "measure/gpu/methods/team.hpp"

#include <algorithm>
#include <utility>

#include "measure/gpu/methods/peer_pointers.cuh"

namespace tessera::probe {

std::vector<int> reachable_gpus() {
  int count = 0;
  ok(cudaGetDeviceCount(&count));
  std::vector<int> found = {0};
  for (int device = 1; device < count && static_cast<int>(found.size()) < k_most_gpus; ++device) {
    bool const all = std::all_of(found.begin(), found.end(), [&](int other) {
      int there = 0, back = 0;
      ok(cudaDeviceCanAccessPeer(&there, device, other));
      ok(cudaDeviceCanAccessPeer(&back, other, device));
      return there != 0 && back != 0;
    });
    if (all) found.push_back(device);
  }
  return found;
}

Team::Team(std::vector<int> devices) : devices_(std::move(devices)) {
  each([&](int rank) {
    cudaStream_t stream = nullptr;
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    streams_.push_back(stream);
    for (int other : devices_) {
      if (other == device(rank)) continue;
      auto const status = cudaDeviceEnablePeerAccess(other, 0);
      if (status == cudaErrorPeerAccessAlreadyEnabled)
        cudaGetLastError();  // from an experiment before: not an error, and not to be found by the next check
      else
        ok(status);
    }
  });
}

Team::~Team() {
  for (auto stream : streams_) cudaStreamDestroy(stream);
}

}  // namespace tessera::probe
