// SPDX-License-Identifier: Apache-2.0
// Constant tables that host and device code can both index at run time.
#pragma once

#include "config.cuh"

namespace tessera {

/// N integers as a plain value.
template <int N>
struct IntTable {
  static constexpr int size = N;
  int values[N];
};

namespace detail {

// A constexpr array has no address in device code, and a constexpr local one would be copied to the stack
// of every thread. A variable template per side puts the same value into global memory once.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
template <class Source>
__device__ constexpr auto device_table = Source::table();
#endif
#if !defined(__CUDACC_RTC__)
template <class Source>
constexpr auto host_table = Source::table();
#endif

}  // namespace detail

/// Element of `Source::table()`, which is a static constexpr function that returns an IntTable.
/// Called by any thread. Precondition: 0 <= index < size.
template <class Source>
TESSERA_HOST_DEVICE constexpr int table_at(long long index) {
#if defined(__CUDA_ARCH__)
  return detail::device_table<Source>.values[index];
#else
  return detail::host_table<Source>.values[index];
#endif
}

}  // namespace tessera
