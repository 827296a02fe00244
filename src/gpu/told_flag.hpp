// SPDX-License-Identifier: Apache-2.0
// A word of pinned host memory that the GPU raises (StallRecord::told) and the host looks at without a call
// of CUDA: a load, which is in the cache until the GPU writes.
#pragma once

#include <cuda_runtime_api.h>

#include <mutex>
#include <vector>

namespace tessera::gpu {

class ToldFlag {
 public:
  ToldFlag() = default;
  ToldFlag(ToldFlag const&) = delete;
  ToldFlag& operator=(ToldFlag const&) = delete;
  /// Whoever may raise it has ended, or it is leaked.
  ~ToldFlag() {
    if (word_ == nullptr || leaked_) return;
    lower();
    auto& shared = pool();
    std::lock_guard const lock(shared.mutex);
    shared.free.push_back(word_);
  }

  /// Once, before the rest. May allocate.
  cudaError_t make() {
    auto& shared = pool();
    std::lock_guard const lock(shared.mutex);
    if (shared.free.empty()) {
      void* memory = nullptr;
      auto const error = cudaHostAlloc(&memory, k_page_bytes, cudaHostAllocPortable | cudaHostAllocMapped);
      if (error != cudaSuccess) return error;
      auto* const page = static_cast<unsigned*>(memory);
      constexpr auto step = k_line_bytes / sizeof(unsigned);
      for (std::size_t at = 0; at < k_page_bytes / sizeof(unsigned); at += step) {
        page[at] = 0;
        shared.free.push_back(page + at);
      }
    }
    word_ = shared.free.back();
    shared.free.pop_back();
    return cudaSuccess;
  }

  /// What was stored before it was raised is visible.
  bool raised() const { return __atomic_load_n(word_, __ATOMIC_ACQUIRE) != 0; }
  void lower() { __atomic_store_n(word_, 0u, __ATOMIC_RELEASE); }
  /// As the GPU sees it: with unified addresses, the same.
  unsigned* address() const { return word_; }
  /// A kernel that never ends may still raise it: nobody gets it again.
  void leak() { leaked_ = true; }

 private:
  static constexpr std::size_t k_page_bytes = 4096;
  static constexpr std::size_t k_line_bytes = 64;  // a flag has a cache line of its own
  struct Pool {
    std::mutex mutex;
    std::vector<unsigned*> free;
  };
  /// Never given back: when statics are destroyed, the driver may be gone.
  static Pool& pool() {
    static auto& shared = *new Pool;
    return shared;
  }

  unsigned* word_ = nullptr;
  bool leaked_ = false;
};

}  // namespace tessera::gpu
