// SPDX-License-Identifier: Apache-2.0
// Threads that take turns.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera::soak {

/// Calls body(i, thread) for i = 0, 1, ... below `count`, one after the other, each from the next of so many
/// threads, until it returns false. Throws what it throws. One thread: the caller's.
inline void in_turns(int count, int threads, std::function<bool(int i, int thread)> const& body) {
  if (threads <= 1) {
    for (int i = 0; i < count && body(i, 0); ++i) {
    }
    return;
  }
  std::mutex mutex;
  std::condition_variable turn;
  int next = 0;
  std::exception_ptr thrown;
  auto const take = [&](int thread) {
    std::unique_lock lock(mutex);
    for (;;) {
      turn.wait(lock, [&] { return next >= count || next % threads == thread; });
      if (next >= count) return;
      bool go_on = false;
      try {
        go_on = body(next, thread);
      } catch (...) {
        thrown = std::current_exception();
      }
      next = go_on ? next + 1 : count;
      turn.notify_all();
    }
  };
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread) all.emplace_back(take, thread);
  for (auto& thread : all) thread.join();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace tessera::soak
