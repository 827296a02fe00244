// SPDX-License-Identifier: Apache-2.0
// wgmma: d[64 x N] += a[64 x 16] * b[N x 16]^T, both operands in shared memory, fp32 sums. Thread t of the
// warpgroup holds of row 16 * (t / 32) + (t % 32) / 4 (and 8 rows below it) the columns 8 * j + 2 * (t % 4)
// and the next: d[4 * j], d[4 * j + 1] (and d[4 * j + 2], d[4 * j + 3]).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

namespace tessera::skinny_sm90 {

/// What the instruction calls the type of its operands.
template <class Element>
struct OperandType;
template <>
struct OperandType<__nv_bfloat16> {
  static constexpr char name[] = "bf16";
};
template <>
struct OperandType<__half> {
  static constexpr char name[] = "f16";
};

template <class Element, int N>
struct Multiply;

/// Both types in full: with the type as an operand nvcc 13.0 lays the code of kernels with this one out anew,
/// and the recorded times are of the layout as it is.
template <class Element>
struct Multiply<Element, 8> {
  __device__ static void run(float (&d)[4], unsigned long long a, unsigned long long b) {
    if constexpr (std::is_same_v<Element, __nv_bfloat16>)
      asm volatile(
          "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {"
          "%0, %1, %2, %3"
          "}, %4, %5, 1, 1, 1, 0, 0;"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "l"(a), "l"(b));
    else
      asm volatile(
          "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {"
          "%0, %1, %2, %3"
          "}, %4, %5, 1, 1, 1, 0, 0;"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "l"(a), "l"(b));
  }
};

template <class Element>
struct Multiply<Element, 16> {
  __device__ static void run(float (&d)[8], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.%10.%10 {"
        "%0, %1, %2, %3, %4, %5, %6, %7"
        "}, %8, %9, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "l"(a), "l"(b), "C"(OperandType<Element>::name));
  }
};

template <class Element>
struct Multiply<Element, 32> {
  __device__ static void run(float (&d)[16], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.%18.%18 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
        "}, %16, %17, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "l"(a), "l"(b), "C"(OperandType<Element>::name));
  }
};

template <class Element>
struct Multiply<Element, 64> {
  __device__ static void run(float (&d)[32], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.%34.%34 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, %32, %33, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
          "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
          "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),
          "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b), "C"(OperandType<Element>::name));
  }
};

template <class Element>
struct Multiply<Element, 96> {
  __device__ static void run(float (&d)[48], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n96k16.f32.%50.%50 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
        "}, %48, %49, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
          "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
          "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),
          "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
          "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),
          "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
        : "l"(a), "l"(b), "C"(OperandType<Element>::name));
  }
};

}  // namespace tessera::skinny_sm90
