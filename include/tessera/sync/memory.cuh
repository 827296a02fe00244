// SPDX-License-Identifier: Apache-2.0
// The memory operations that everything else is made of, for one calling thread each. On the GPU they
// are single PTX instructions (sm_70 and later); on the host they are the same operations of the C++
// memory model, so that ThreadSanitizer sees what the GPU does. All addresses are naturally aligned and in
// global memory: this GPU's, a peer's or the host's.
#pragma once

#include "config.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#error "tessera/sync.cuh needs scoped memory operations: compile for sm_70 or later"
#endif

namespace tessera {

/// Who must see a write. `device` covers all threads of one GPU in the same memory synchronization
/// domain; `system` also other GPUs, the host, and kernels launched into another domain.
enum class Scope { block, device, system };

#if defined(__CUDA_ARCH__)
namespace detail {

/// For instructions that name the state space. Of an address that may be in any, an add without an answer
/// becomes an atomic with one, a 64-bit add a page of code that first looks where the address is.
__device__ inline unsigned long long global_address(void const* pointer) {
  return __cvta_generic_to_global(pointer);
}

}  // namespace detail
#endif

/// Load; later reads and writes of this thread are not moved before it (acquire).
template <Scope S>
TESSERA_HOST_DEVICE inline unsigned load_acquire(unsigned const* address) {
#if defined(__CUDA_ARCH__)
  unsigned value;
  if constexpr (S == Scope::block)
    asm volatile("ld.acquire.cta.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"(detail::global_address(address))
                 : "memory");
  else if constexpr (S == Scope::device)
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"(detail::global_address(address))
                 : "memory");
  else
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"(detail::global_address(address))
                 : "memory");
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
    asm volatile("st.release.cta.global.u32 [%0], %1;" ::"l"(detail::global_address(address)), "r"(value)
                 : "memory");
  else if constexpr (S == Scope::device)
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(detail::global_address(address)), "r"(value)
                 : "memory");
  else
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(detail::global_address(address)), "r"(value)
                 : "memory");
#else
  __atomic_store_n(address, value, __ATOMIC_RELEASE);
#endif
}

/// Add without an answer; release, as store_release.
template <Scope S>
TESSERA_HOST_DEVICE inline void add_release(unsigned* address, unsigned amount) {
#if defined(__CUDA_ARCH__)
  if constexpr (S == Scope::block)
    asm volatile("red.release.cta.global.add.u32 [%0], %1;" ::"l"(detail::global_address(address)),
                 "r"(amount)
                 : "memory");
  else if constexpr (S == Scope::device)
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(detail::global_address(address)),
                 "r"(amount)
                 : "memory");
  else
    asm volatile("red.release.sys.global.add.u32 [%0], %1;" ::"l"(detail::global_address(address)),
                 "r"(amount)
                 : "memory");
#else
  __atomic_fetch_add(address, amount, __ATOMIC_RELEASE);
#endif
}

/// Makes releases of the relaxed operations behind it: earlier reads and writes of this thread, and of
/// threads that it synchronized with at a block barrier, are visible in the scope before what
/// add_after_fence() and store_after_fence() write. For several semaphores at once: a release waits until
/// earlier stores have arrived, each time, even when there are none. On the host the operations themselves
/// are the releases, because ThreadSanitizer knows no fences.
template <Scope S>
TESSERA_HOST_DEVICE inline void fence_release() {
#if defined(__CUDA_ARCH__)
  // PTX ISA 8.6 (CUDA 12.7), sm_90: without the other direction, which empties the SM's L1.
#if __CUDA_ARCH__ >= 900 && defined(__CUDACC_VER_MAJOR__) && \
    (__CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 7))
  if constexpr (S == Scope::block)
    asm volatile("fence.release.cta;" ::: "memory");
  else if constexpr (S == Scope::device)
    asm volatile("fence.release.gpu;" ::: "memory");
  else
    asm volatile("fence.release.sys;" ::: "memory");
#else
  if constexpr (S == Scope::block)
    asm volatile("fence.acq_rel.cta;" ::: "memory");
  else if constexpr (S == Scope::device)
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
  else
    asm volatile("fence.acq_rel.sys;" ::: "memory");
#endif
#endif
}

/// Add without an answer, behind fence_release().
template <Scope S>
TESSERA_HOST_DEVICE inline void add_after_fence(unsigned* address, unsigned amount) {
#if defined(__CUDA_ARCH__)
  if constexpr (S == Scope::block)
    asm volatile("red.relaxed.cta.global.add.u32 [%0], %1;" ::"l"(detail::global_address(address)),
                 "r"(amount)
                 : "memory");
  else if constexpr (S == Scope::device)
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(detail::global_address(address)),
                 "r"(amount)
                 : "memory");
  else
    asm volatile("red.relaxed.sys.global.add.u32 [%0], %1;" ::"l"(detail::global_address(address)),
                 "r"(amount)
                 : "memory");
#else
  __atomic_fetch_add(address, amount, __ATOMIC_RELEASE);
#endif
}

/// Store behind fence_release().
template <Scope S>
TESSERA_HOST_DEVICE inline void store_after_fence(unsigned* address, unsigned value) {
#if defined(__CUDA_ARCH__)
  if constexpr (S == Scope::block)
    asm volatile("st.relaxed.cta.global.u32 [%0], %1;" ::"l"(detail::global_address(address)), "r"(value)
                 : "memory");
  else if constexpr (S == Scope::device)
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(detail::global_address(address)), "r"(value)
                 : "memory");
  else
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(detail::global_address(address)), "r"(value)
                 : "memory");
#else
  __atomic_store_n(address, value, __ATOMIC_RELEASE);
#endif
}

/// Adds one and returns the value before: a ticket. Relaxed, device scope: orders nothing else.
TESSERA_HOST_DEVICE inline unsigned long long draw_ticket(unsigned long long* counter) {
#if defined(__CUDA_ARCH__)
  unsigned long long ticket;
  asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], 1;"
               : "=l"(ticket)
               : "l"(detail::global_address(counter))
               : "memory");
  return ticket;
#else
  return __atomic_fetch_add(counter, 1ULL, __ATOMIC_RELAXED);
#endif
}

/// Adds one without an answer. Relaxed, device scope.
TESSERA_HOST_DEVICE inline void count_one(unsigned long long* counter) {
#if defined(__CUDA_ARCH__)
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], 1;" ::"l"(detail::global_address(counter)) : "memory");
#else
  __atomic_fetch_add(counter, 1ULL, __ATOMIC_RELAXED);
#endif
}

/// Value of a counter. Relaxed, device scope.
TESSERA_HOST_DEVICE inline unsigned long long load_counter(unsigned long long const* counter) {
#if defined(__CUDA_ARCH__)
  unsigned long long value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];"
               : "=l"(value)
               : "l"(detail::global_address(counter))
               : "memory");
  return value;
#else
  return __atomic_load_n(counter, __ATOMIC_RELAXED);
#endif
}

/// Writes `desired` if the word holds `expected`; true if it did. Relaxed, device scope.
TESSERA_HOST_DEVICE inline bool claim(unsigned* address, unsigned expected, unsigned desired) {
#if defined(__CUDA_ARCH__)
  unsigned old;
  asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3;"
               : "=r"(old)
               : "l"(detail::global_address(address)), "r"(expected), "r"(desired)
               : "memory");
  return old == expected;
#else
  return __atomic_compare_exchange_n(address, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
#endif
}

}  // namespace tessera
