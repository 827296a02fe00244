// SPDX-License-Identifier: Apache-2.0
// A host thread for each GPU, which act in step.
#pragma once

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "host_timer.hpp"
#include "meeting.hpp"
#include "team.hpp"

namespace tessera::probe {

/// Starts a thread for each rank, with its GPU current, and waits for all. `act(rank, meet)` is the thread's
/// work; `meet()` is a barrier of the threads. Returns the ns from their common start to the last one's end.
/// An exception of one of them is thrown here.
template <class Act>
double gang_ns(Team const& team, Act act) {
  Meeting meeting(team.size());
  auto const meet = [&] { meeting.meet(); };
  double begin = 0, end = 0;
  std::mutex guard;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < team.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        team.select(rank);
        meet();
        double const now = host_now_ns();
        act(rank, meet);
        std::scoped_lock const lock(guard);
        begin = begin == 0 ? now : std::min(begin, now);
        end = std::max(end, host_now_ns());
      } catch (...) {
        std::scoped_lock const lock(guard);
        failure = std::current_exception();
        meeting.leave();
      }
    });
  for (auto& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  return end - begin;
}

}  // namespace tessera::probe
