// SPDX-License-Identifier: Apache-2.0
// A word of pinned host memory that the GPU raises (StallRecord::told) and the host looks at without a call
// of CUDA: a load, which is in the cache until the GPU writes. All words of the process lie side by side, so
// that one look sees whether anything has stalled.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace tessera::gpu {

class ToldFlag {
 public:
  /// Something else that has stalled.
  struct Heard {
    std::string name;  ///< empty: there is none, or another was faster
    /// It has launches in a graph whose replays are not seen: all of them are wrong until it has been asked
    /// itself, so that others go on hearing of it.
    bool until_asked = false;

    char const* how_often() const {
      return until_asked ? "said by every call of the thread that launched both until its own finish() was "
                           "called: it is in a graph, whose replays are not seen"
                         : "said once, by the first call of the thread that launched both";
    }
    char const* way_out() const {
      return until_asked ? "call its own finish(), which names the tile that waited and makes replays work, "
                           "and compute again from the launch that gave up"
                         : "compute again from the launch that gave up; its own finish() names the tile that "
                           "waited";
    }
  };

  ToldFlag() = default;
  ToldFlag(ToldFlag const&) = delete;
  ToldFlag& operator=(ToldFlag const&) = delete;
  /// Whoever may raise it has ended, or it is leaked. What it tells is not lost: a word that nobody has heard
  /// of stays on the board until then.
  ~ToldFlag() {
    if (page_ == nullptr || leaked_) return;
    std::lock_guard const lock(board().mutex);
    page_->owned[at_] = false;
    if (load(page_->words + at_) != k_raised) give_back(*page_, at_);
  }

  /// Once, before the rest. May allocate.
  cudaError_t make(std::string name = "") {
    auto& shared = board();
    std::lock_guard const lock(shared.mutex);
    if (shared.free.empty())
      if (auto const error = add_page(); error != cudaSuccess) return error;
    page_ = shared.free.back().page;
    at_ = shared.free.back().at;
    shared.free.pop_back();
    page_->names[at_] = std::move(name);
    page_->owned[at_] = true;
    page_->launched_by[at_].store(0, std::memory_order_relaxed);
    page_->replayed[at_].store(false, std::memory_order_relaxed);
    auto const used = page_->used.load(std::memory_order_relaxed);
    if (at_ >= used) page_->used.store(at_ + 1, std::memory_order_release);
    return cudaSuccess;
  }
  /// For messages to others.
  void called(std::string name) {
    std::lock_guard const lock(board().mutex);
    page_->names[at_] = std::move(name);
  }

  /// What was stored before it was raised is visible.
  bool raised() const { return load(page_->words + at_) != 0; }
  void lower() { __atomic_store_n(page_->words + at_, 0u, __ATOMIC_RELEASE); }
  /// As the GPU sees it: with unified addresses, the same.
  unsigned* address() const { return page_->words + at_; }
  /// A kernel that never ends may still raise it: nobody gets it again.
  void leak() { leaked_ = true; }

  /// This thread has launched what may raise it. `captured`: into a graph of the caller's.
  void launched(bool captured = false) {
    if (captured) page_->replayed[at_].store(true, std::memory_order_relaxed);
    auto& by = page_->launched_by[at_];
    // Threads that launch others have the line, too: it is left alone where nothing changes.
    if (by.load(std::memory_order_relaxed) != this_thread())
      by.store(this_thread(), std::memory_order_relaxed);
  }
  /// Has something else stalled that this thread launched last, and nobody has heard of it? A look at half a
  /// cache line for eight flags of the process.
  bool another_raised() const {
    return look([](Page&, std::uint32_t) { return true; });
  }
  /// Nobody is told again, but by its owner, and of what is in a graph. Others of its name are heard of with
  /// it: what runs on several GPUs has a flag for each.
  Heard hear_of_another() const {
    Heard heard;
    look([&](Page& page, std::uint32_t at) {
      std::lock_guard const lock(board().mutex);
      auto& name = heard.name;
      if (!name.empty() && page.names[at] != name) return false;
      if (page.owned[at] && page.replayed[at].load(std::memory_order_relaxed)) {
        heard = {page.names[at], true};
        return heard.name.empty();
      }
      auto expected = k_raised;
      if (!__atomic_compare_exchange_n(page.words + at, &expected, k_heard, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED))
        return false;
      name = page.names[at];
      if (!page.owned[at]) give_back(page, at);
      return name.empty();
    });
    return heard;
  }

 private:
  static constexpr unsigned k_raised = 1;  // as the GPU does it
  static constexpr unsigned k_heard = 2;   // raised still
  static constexpr std::uint32_t k_words = 1024;

  using Pair __attribute__((may_alias)) = std::uint64_t;

  struct Page {
    unsigned* words = nullptr;
    std::atomic<std::uint32_t> used{0};
    std::array<std::atomic<std::uint32_t>, k_words> launched_by{};
    std::array<std::atomic<bool>, k_words> replayed{};
    std::array<std::string, k_words> names;
    std::array<bool, k_words> owned{};
    Page* before = nullptr;
  };
  struct Word {
    Page* page;
    std::uint32_t at;
  };
  struct Board {
    std::mutex mutex;
    std::vector<Word> free;
    std::atomic<Page*> pages{nullptr};
  };
  /// Never given back: when statics are destroyed, the driver may be gone.
  static Board& board() {
    static auto& shared = *new Board;
    return shared;
  }
  static unsigned load(unsigned const* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
  /// From 1, and never used again.
  static std::uint32_t this_thread() {
    static std::atomic<std::uint32_t> threads{0};
    thread_local std::uint32_t const mine = ++threads;
    return mine;
  }

  /// With the lock.
  static cudaError_t add_page() {
    void* memory = nullptr;
    auto const error =
        cudaHostAlloc(&memory, k_words * sizeof(unsigned), cudaHostAllocPortable | cudaHostAllocMapped);
    if (error != cudaSuccess) return error;
    auto& shared = board();
    auto* const page = new Page;
    page->words = static_cast<unsigned*>(memory);
    for (std::uint32_t i = 0; i < k_words; ++i) page->words[i] = 0;
    // The first words come first: a look goes no further than the last one in use.
    for (std::uint32_t i = k_words; i-- > 0;) shared.free.push_back({page, i});
    page->before = shared.pages.load(std::memory_order_relaxed);
    shared.pages.store(page, std::memory_order_release);
    return cudaSuccess;
  }
  static void give_back(Page& page, std::uint32_t at) {
    __atomic_store_n(page.words + at, 0u, __ATOMIC_RELEASE);
    board().free.push_back({&page, at});
  }

  /// Until `found(page, at)`, for raised words of other flags that this thread has launched.
  template <class Found>
  bool look(Found const& found) const {
    for (auto* page = board().pages.load(std::memory_order_acquire); page != nullptr; page = page->before) {
      auto const used = page->used.load(std::memory_order_acquire);
      for (std::uint32_t i = 0; i < used; i += 2) {
        // Two words at a time.
        auto const* const pair = reinterpret_cast<Pair const*>(page->words + i);
        if (__atomic_load_n(pair, __ATOMIC_RELAXED) == 0) continue;
        for (auto at = i; at < i + 2; ++at)
          if (load(page->words + at) == k_raised && !(page == page_ && at == at_) &&
              page->launched_by[at].load(std::memory_order_relaxed) == this_thread() && found(*page, at))
            return true;
      }
    }
    return false;
  }

  Page* page_ = nullptr;
  std::uint32_t at_ = 0;
  bool leaked_ = false;
};

}  // namespace tessera::gpu
