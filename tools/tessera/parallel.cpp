// SPDX-License-Identifier: Apache-2.0
#include "parallel.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace tessera::cli {

void in_threads(unsigned threads, std::size_t count, std::function<void(std::size_t)> const& job) {
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  std::atomic<std::size_t> next{0};
  auto const work = [&] {
    for (auto i = next++; i < count; i = next++) job(i);
  };
  std::vector<std::jthread> others;
  for (unsigned i = 1; i < threads && i < count; ++i) others.emplace_back(work);
  work();
}

}  // namespace tessera::cli
