// SPDX-License-Identifier: Apache-2.0
// The memory operations that everything else is made of, for one calling thread each. On the GPU they
// are single PTX instructions (sm_70 and later); on the host they are the same operations of the C++
// memory model, so that ThreadSanitizer sees what the GPU does. All addresses are naturally aligned.
#pragma once

#include "config.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#error "tessera/sync.cuh needs scoped memory operations: compile for sm_70 or later"
#endif

namespace tessera {

/// Who must see a write. `device` covers all threads of one GPU in the same memory synchronization
/// domain; `system` also other GPUs, the host, and kernels launched into another domain.
enum class Scope { block, device, system };

/// Load; later reads and writes of this thread are not moved before it (acquire).
template <Scope S>
TESSERA_HOST_DEVICE inline unsigned load_acquire(unsigned const* address) {
#if defined(__CUDA_ARCH__)
  unsigned value;
  if constexpr (S == Scope::block)
    asm volatile("ld.acquire.cta.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  else if constexpr (S == Scope::device)
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  else
    asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
#else
  return __atomic_load_n(address, __ATOMIC_ACQUIRE);
#endif
}

/// Store; earlier reads and writes of this thread, and of threads that it synchronized with at a block
/// barrier, are visible in the scope before it (release).
template <Scope S>
TESSERA_HOST_DEVICE inline void store_release(unsigned* address, unsigned value) {
#if defined(__CUDA_ARCH__)
  if constexpr (S == Scope::block)
    asm volatile("st.release.cta.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
  else if constexpr (S == Scope::device)
    asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
  else
    asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
#else
  __atomic_store_n(address, value, __ATOMIC_RELEASE);
#endif
}

/// Add without an answer; release, as store_release.
template <Scope S>
TESSERA_HOST_DEVICE inline void add_release(unsigned* address, unsigned amount) {
#if defined(__CUDA_ARCH__)
  if constexpr (S == Scope::block)
    asm volatile("red.release.cta.add.u32 [%0], %1;" ::"l"(address), "r"(amount) : "memory");
  else if constexpr (S == Scope::device)
    asm volatile("red.release.gpu.add.u32 [%0], %1;" ::"l"(address), "r"(amount) : "memory");
  else
    asm volatile("red.release.sys.add.u32 [%0], %1;" ::"l"(address), "r"(amount) : "memory");
#else
  __atomic_fetch_add(address, amount, __ATOMIC_RELEASE);
#endif
}

/// Adds one and returns the value before: a ticket. Relaxed, device scope: orders nothing else.
TESSERA_HOST_DEVICE inline unsigned long long draw_ticket(unsigned long long* counter) {
#if defined(__CUDA_ARCH__)
  unsigned long long ticket;
  asm volatile("atom.relaxed.gpu.add.u64 %0, [%1], 1;" : "=l"(ticket) : "l"(counter) : "memory");
  return ticket;
#else
  return __atomic_fetch_add(counter, 1ULL, __ATOMIC_RELAXED);
#endif
}

/// Adds one without an answer. Relaxed, device scope.
TESSERA_HOST_DEVICE inline void count_one(unsigned long long* counter) {
#if defined(__CUDA_ARCH__)
  asm volatile("red.relaxed.gpu.add.u64 [%0], 1;" ::"l"(counter) : "memory");
#else
  __atomic_fetch_add(counter, 1ULL, __ATOMIC_RELAXED);
#endif
}

/// Value of a counter. Relaxed, device scope.
TESSERA_HOST_DEVICE inline unsigned long long load_counter(unsigned long long const* counter) {
#if defined(__CUDA_ARCH__)
  unsigned long long value;
  asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(counter) : "memory");
  return value;
#else
  return __atomic_load_n(counter, __ATOMIC_RELAXED);
#endif
}

/// Writes `desired` if the word holds `expected`; true if it did. Relaxed, device scope.
TESSERA_HOST_DEVICE inline bool claim(unsigned* address, unsigned expected, unsigned desired) {
#if defined(__CUDA_ARCH__)
  unsigned old;
  asm volatile("atom.relaxed.gpu.cas.b32 %0, [%1], %2, %3;"
               : "=r"(old)
               : "l"(address), "r"(expected), "r"(desired)
               : "memory");
  return old == expected;
#else
  return __atomic_compare_exchange_n(address, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
#endif
}

}  // namespace tessera
