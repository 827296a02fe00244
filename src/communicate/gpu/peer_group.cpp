// SPDX-License-Identifier: Apache-2.0
#include "tessera/communicate/peer_group.hpp"

#include <mutex>

#include "communicate/gpu/failed.hpp"
#include "gpu/nccl.hpp"
#include "gpu/peer_order.hpp"
#include "gpu/select.hpp"
#include "gpu/stream.hpp"
#include "tessera/communicate/reach.hpp"

namespace tessera {

using communicate::guarded;
using gpu::ok;
using gpu::Select;

struct PeerGroup::Library {
  std::mutex mutex;
  bool asked = false;
  std::unique_ptr<gpu::Nccl> nccl;
  std::string why;
};

PeerGroup::PeerGroup(std::vector<int> devices)
    : devices_(std::move(devices)),
      library_(std::make_unique<Library>()),
      order_(std::make_unique<gpu::PeerOrder>(devices_)) {}
PeerGroup::~PeerGroup() = default;

Expected<std::shared_ptr<PeerGroup>> PeerGroup::make(std::vector<int> devices) {
  return guarded([&]() -> Expected<std::shared_ptr<PeerGroup>> {
    int present = 0;
    if (cudaGetDeviceCount(&present) != cudaSuccess) {
      (void)cudaGetLastError();
      present = 0;
    }
    auto const reaches = [](int from, int to) {
      int can = 0;
      ok(cudaDeviceCanAccessPeer(&can, from, to));
      return can != 0;
    };
    if (auto fine = check_reach(devices, present, reaches); !fine) return tl::make_unexpected(fine.error());
    for (int const from : devices) {
      Select const current(from);
      for (int const to : devices) {
        if (from == to) continue;
        auto const status = cudaDeviceEnablePeerAccess(to, 0);
        // By somebody else before: not an error, and not to be found by the next check.
        if (status == cudaErrorPeerAccessAlreadyEnabled)
          (void)cudaGetLastError();
        else
          ok(status);
      }
    }
    return std::shared_ptr<PeerGroup>(new PeerGroup(std::move(devices)));
  });
}

Expected<void> PeerGroup::wait() const {
  return guarded([&]() -> Expected<void> {
    for (int const device : devices_) {
      Select const current(device);
      ok(cudaDeviceSynchronize());
    }
    return {};
  });
}

gpu::Nccl const* PeerGroup::nccl(std::string& why) const {
  std::lock_guard const lock(library_->mutex);
  if (!library_->asked) {
    library_->asked = true;
    try {
      Select const current(devices_.front());
      library_->nccl = gpu::Nccl::open(devices_, library_->why);
    } catch (std::exception const& error) {
      library_->why = error.what();
    }
  }
  why = library_->why;
  return library_->nccl.get();
}

Expected<PeerMemory> PeerMemory::make(std::shared_ptr<PeerGroup const> group, std::size_t bytes) {
  return guarded([&]() -> Expected<PeerMemory> {
    PeerMemory result;
    result.group_ = std::move(group);
    result.bytes_ = bytes;
    for (int rank = 0; rank < result.group_->size(); ++rank) {
      Select const current(result.group_->device(rank));
      void* memory = nullptr;
      ok(cudaMalloc(&memory, bytes > 0 ? bytes : 1));
      result.memory_.push_back(memory);
    }
    if (auto cleared = result.clear(); !cleared) return tl::make_unexpected(cleared.error());
    return result;
  });
}

PeerMemory::~PeerMemory() {
  for (void* memory : memory_) cudaFree(memory);
}

Expected<void> PeerMemory::clear() const {
  return guarded([&]() -> Expected<void> {
    for (int rank = 0; rank < group_->size(); ++rank) {
      Select const current(group_->device(rank));
      // In a stream of its own: CUDA refuses the others' while something is captured.
      gpu::Stream const stream;
      ok(cudaMemsetAsync(at(rank), 0, bytes_, stream.get()));
      ok(cudaStreamSynchronize(stream.get()));
    }
    return {};
  });
}

}  // namespace tessera
