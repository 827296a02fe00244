// SPDX-License-Identifier: Apache-2.0
// A 3x3 convolution as one writes it by hand: an implicit GEMM of NHWC images, fp16, with ReLU; tiles of 64
// pixels by 64 channels, four warps, tensor cores through wmma.
#pragma once

#include <cuda_fp16.h>
#include <mma.h>

#include <tessera/sync.cuh>

constexpr int k_pixels = 64;  // of a tile; they run on over rows and images
constexpr int k_outputs = 64;
constexpr int k_depth_slice = 32;
constexpr int k_conv_threads = 128;

/// out[pixel][to] = relu(sum of in[neighbour][from] * filter[to][3 x 3][from]), with zeros around each image.
struct ConvolutionArguments {
  half const* in;
  half const* filter;
  half* out;
  int height;
  int width;
  int from;  // channels, multiples of 64
  int to;
  int pixels;  // of all images
};

/// Eight channels of a pixel's neighbour, or zeros where the image ends.
__device__ uint4 neighbour(ConvolutionArguments const& args, int pixel, int down, int right, int channel) {
  int const y = pixel / args.width % args.height + down;
  int const x = pixel % args.width + right;
  if (pixel >= args.pixels || y < 0 || y >= args.height || x < 0 || x >= args.width) return {};
  return *reinterpret_cast<uint4 const*>(args.in + 1LL * (pixel + down * args.width + right) * args.from +
                                         channel);
}

/// `LoadsEarly`: filters are on their way before the wait for pixels (R).
template <class Stage, bool LoadsEarly = true>
__global__ void __launch_bounds__(k_conv_threads) convolution(ConvolutionArguments const args, Stage stage) {
  using namespace nvcuda;
  __shared__ __align__(32) half a[k_pixels][k_depth_slice + 8];
  __shared__ __align__(32) half b[k_outputs][k_depth_slice + 8];
  __shared__ __align__(32) float result[k_pixels][k_outputs + 8];
  tessera::Tile const tile = stage.start();
  int const column = tile.at[0];
  int const row = tile.at[1];
  int const begin = row * k_pixels;
  int const warp = threadIdx.x / 32;
  int const warp_row = warp / 2 * 32;
  int const warp_column = warp % 2 * 32;
  int const depth = 9 * args.from;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2][2];
  for (auto& line : sum)
    for (auto& part : line) wmma::fill_fragment(part, 0.0f);

  for (int k = 0; k < depth; k += k_depth_slice) {
    int const down = k / args.from / 3 - 1;
    int const right = k / args.from % 3 - 1;
    int const channel = k % args.from;
    // Neighbours of 64 pixels in a run are such a run, in one tile or in two.
    auto const wait_for = [&](int pixel) {
      int const at = min(max(pixel + down * args.width + right, 0), args.pixels - 1);
      return stage.wait(tessera::operand_a, {{channel / k_outputs, at / k_pixels}});
    };
    if (!LoadsEarly && !(wait_for(begin) && wait_for(begin + k_pixels - 1))) return;
    __syncthreads();
    for (int i = threadIdx.x; i < k_outputs * k_depth_slice / 8; i += k_conv_threads) {
      int const line = i / (k_depth_slice / 8);
      int const at = i % (k_depth_slice / 8) * 8;
      *reinterpret_cast<uint4*>(&b[line][at]) =
          *reinterpret_cast<uint4 const*>(args.filter + 1LL * (column * k_outputs + line) * depth + k + at);
    }
    if (LoadsEarly && !(wait_for(begin) && wait_for(begin + k_pixels - 1))) return;
    for (int i = threadIdx.x; i < k_pixels * k_depth_slice / 8; i += k_conv_threads) {
      int const line = i / (k_depth_slice / 8);
      int const at = i % (k_depth_slice / 8) * 8;
      *reinterpret_cast<uint4*>(&a[line][at]) = neighbour(args, begin + line, down, right, channel + at);
    }
    __syncthreads();
    for (int step = 0; step < k_depth_slice; step += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> top[2];
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(left[i], &a[warp_row + 16 * i][step], k_depth_slice + 8);
        wmma::load_matrix_sync(top[i], &b[warp_column + 16 * i][step], k_depth_slice + 8);
      }
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) wmma::mma_sync(sum[i][j], left[i], top[j], sum[i][j]);
    }
  }

  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      wmma::store_matrix_sync(&result[warp_row + 16 * i][warp_column + 16 * j], sum[i][j], k_outputs + 8,
                              wmma::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < k_pixels * k_outputs / 2; i += k_conv_threads) {
    int const line = i / (k_outputs / 2);
    int const at = i % (k_outputs / 2) * 2;
    if (begin + line >= args.pixels) continue;
    half* const out = args.out + 1LL * (begin + line) * args.to + column * k_outputs + at;
    *reinterpret_cast<half2*>(out) =
        __floats2half2_rn(fmaxf(result[line][at], 0.0f), fmaxf(result[line][at + 1], 0.0f));
  }
  stage.post();
}
