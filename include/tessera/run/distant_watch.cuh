// SPDX-License-Identifier: Apache-2.0
// A deadline whose looks at the clock are one function that is called. A kernel with roles waits at some 40
// places. In line, each look and its report would stand between the instructions of every tile.
#pragma once

#include "../sync/wait.cuh"

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

namespace tessera::detail {

/// DeadlineWatch::go_on() at a poll that looks: since when it has waited, or 0: give up.
template <class Watch>
__device__ __noinline__ unsigned long long look(StallRecord* record, unsigned long long nanoseconds,
                                                unsigned long long since, WaitPlace place, unsigned seen,
                                                unsigned expected) {
  Watch const watch{record, nanoseconds};
  typename Watch::Patience patience{since | 7};
  return watch.go_on(patience, place, seen, expected) ? patience.since_and_polls : 0;
}

/// As the watch. `Called` only if it may stop; else it is the watch itself.
template <class Watch, bool Called>
struct DistantWatch {
  StallRecord* record;
  unsigned long long nanoseconds;

  using Patience = typename Watch::Patience;
  static constexpr bool may_stop = true;

  __device__ explicit DistantWatch(Watch const& watch)
      : record(watch.record), nanoseconds(watch.nanoseconds) {}
  __device__ Patience begin() const { return {}; }
  template <class Place>
  __device__ bool go_on(Patience& patience, Place const& place, unsigned seen, unsigned expected) const {
    if ((patience.since_and_polls & 7) != 7) {
      ++patience.since_and_polls;
      return true;
    }
    patience.since_and_polls =
        look<Watch>(record, nanoseconds, patience.since_and_polls & ~7ull, place, seen, expected);
    return patience.since_and_polls != 0;
  }
};
template <class Watch>
struct DistantWatch<Watch, false> : Watch {
  __device__ explicit DistantWatch(Watch const& watch) : Watch(watch) {}
};

}  // namespace tessera::detail

#endif
