// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "communicate/gpu/failed.hpp"
#include "communicate/gpu/mapped_memory.hpp"
#include "gpu/select.hpp"
#include "gpu/stream.hpp"
#include "tessera/communicate/peer_group.hpp"
#include "tessera/ranks/descriptors.hpp"

namespace tessera {

using communicate::guarded;
using communicate::MappedMemory;
using gpu::ok;
using gpu::Select;

struct PeerMemory::Mapped {
  std::vector<MappedMemory> all;  ///< by rank
};

PeerMemory::PeerMemory() = default;
PeerMemory::PeerMemory(PeerMemory&& other) noexcept = default;

namespace {

/// Closes what was handed over.
struct HandedOver {
  std::vector<int> descriptors;
  ~HandedOver() {
    for (int const one : descriptors)
      if (one >= 0) close(one);
  }
};

/// What one rank could not, no rank has.
Expected<void> nobody_failed(Expected<std::vector<std::string>> const& told, std::string const& what) {
  if (!told) return tl::make_unexpected(told.error());
  for (std::size_t rank = 0; rank < told->size(); ++rank) {
    if ((*told)[rank].empty()) continue;
    Diagnostic one;
    one.code = "E0511";
    one.message = "rank " + std::to_string(rank) + ", " + what + ": " + (*told)[rank];
    one.suggestion = "see whether its GPU has that much memory free (nvidia-smi)";
    return refuse(std::move(one));
  }
  return {};
}

}  // namespace

Expected<PeerMemory> PeerMemory::make(std::shared_ptr<PeerGroup const> group, std::size_t bytes,
                                      Reached reached) {
  if (reached == Reached::by_all && group->descriptors() != nullptr && group->apart().empty())
    return make_mapped(std::move(group), bytes);
  return guarded([&]() -> Expected<PeerMemory> {
    PeerMemory result;
    result.group_ = std::move(group);
    result.bytes_ = bytes;
    result.memory_.resize(static_cast<std::size_t>(result.group_->size()), nullptr);
    for (int const rank : result.group_->here()) {
      Select const current(result.group_->device(rank));
      ok(cudaMalloc(&result.memory_[static_cast<std::size_t>(rank)], bytes > 0 ? bytes : 1));
    }
    if (auto cleared = result.clear(); !cleared) return tl::make_unexpected(cleared.error());
    return result;
  });
}

Expected<PeerMemory> PeerMemory::make_mapped(std::shared_ptr<PeerGroup const> group, std::size_t bytes) {
  PeerMemory result;
  auto const own = static_cast<std::size_t>(group->here().front());
  int const device = group->device(static_cast<int>(own));
  auto const what = "memory of " + std::to_string(bytes) + " bytes";
  result.bytes_ = bytes;
  result.memory_.resize(static_cast<std::size_t>(group->size()), nullptr);
  result.mapped_ = std::make_unique<Mapped>();
  result.mapped_->all.resize(result.memory_.size());
  result.group_ = std::move(group);
  auto& all = result.mapped_->all;
  HandedOver mine;
  auto const made = guarded([&]() -> Expected<void> {
    Select const current(device);
    all[own] = MappedMemory::make(device, bytes);
    result.memory_[own] = all[own].get();
    mine.descriptors.push_back(all[own].descriptor());
    return result.clear();
  });
  auto const told = result.group_->exchange(what, made ? "" : made.error().front().message);
  if (auto fine = nobody_failed(told, what); !fine) return tl::make_unexpected(fine.error());
  HandedOver theirs;
  auto passed = result.group_->descriptors()->pass(mine.descriptors.front());
  if (!passed) return tl::make_unexpected(passed.error());
  theirs.descriptors = std::move(*passed);
  auto const mapped = guarded([&]() -> Expected<void> {
    Select const current(device);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (rank == own) continue;
      all[rank] = MappedMemory::import(theirs.descriptors[rank], device, bytes);
      result.memory_[rank] = all[rank].get();
    }
    return {};
  });
  auto const all_mapped =
      result.group_->exchange(what + ", mapped", mapped ? "" : mapped.error().front().message);
  if (auto fine = nobody_failed(all_mapped, what); !fine) return tl::make_unexpected(fine.error());
  return result;
}

PeerMemory::~PeerMemory() {
  if (mapped_) return;
  for (void* memory : memory_)
    if (memory != nullptr) cudaFree(memory);
}

Expected<void> PeerMemory::clear() const {
  return guarded([&]() -> Expected<void> {
    for (int const rank : group_->here()) {
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
