// SPDX-License-Identifier: Apache-2.0
// Matrix instructions of a warp: d[16 x 8] += a[16 x 16] * b[8 x 16]^T, fp32 sums. The instructions of a
// warpgroup take some 46 cycles for each 64 x 16 of a, used or not; these take what is used.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

namespace tessera::few_tokens {

/// Lane l gives the address of 16 bytes of a row: matrix l / 8, row l % 8. Result i holds of matrix i row
/// l / 4, columns 2 * (l % 4) and the next.
__device__ inline void load_matrices(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/// d[0], d[1]: row l / 4, columns 2 * (l % 4) and the next; d[2], d[3]: 8 rows below.
template <class Element>
__device__ inline void multiply_warp(float (&d)[4], unsigned const (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Of the two elements of 16 bits in `pair`.
template <class Element>
__device__ inline float squares_of(unsigned pair) {
  auto const low = static_cast<float>(__builtin_bit_cast(Element, static_cast<unsigned short>(pair)));
  auto const high = static_cast<float>(__builtin_bit_cast(Element, static_cast<unsigned short>(pair >> 16)));
  return low * low + high * high;
}

}  // namespace tessera::few_tokens
