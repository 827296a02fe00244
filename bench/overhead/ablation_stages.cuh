// SPDX-License-Identifier: Apache-2.0
// Two GEMMs as stages, described as a generated header describes them, with every optimization a switch of
// its own; and the kernel of examples/05_existing_kernels with its loads in either order.
#pragma once

#include "examples/05_existing_kernels/original/gemm.cuh"
#include "tessera/sync.cuh"

namespace tessera::bench {

constexpr int k_gemm_depth = 512, k_gemm_columns = 1024;
constexpr int k_tiles_wide = k_gemm_columns / k_tile;

enum class How { stream_order, pdl, pdl_tiles, wait_kernel };

template <int High, class APolicy>
struct GemmSet {
  using Policy = APolicy;
  TESSERA_HOST_DEVICE static constexpr TileGrid grid() { return {2, {k_tiles_wide, High, 1, 1}}; }
  static constexpr int splits = 1;
  static constexpr long long first = 0;
  static constexpr long long count = Policy{}.count(TileGrid{2, {k_tiles_wide, High, 1, 1}});
};

template <How H, class ASet>
struct GemmDependence {
  static constexpr bool tiles = H == How::pdl_tiles || H == How::wait_kernel;
  using Set = std::conditional_t<tiles, ASet, std::conditional_t<H == How::pdl, WholeGrid, NoSet>>;
  static constexpr int accesses = 1;
  TESSERA_HOST_DEVICE static constexpr TileBox box(int, Tile const& tile) {
    return cut_box(ASet::grid(), {0, k_tiles_wide}, {tile.at[1], tile.at[1] + 1});
  }
};

/// W: no wait kernel. R: loads without a producer before the wait. T: no tickets. S: a plain store where one
/// post makes the value.
template <int Index, class GemmSet, How H, bool W, bool R, bool T, bool S>
struct GemmStage {
  static constexpr bool tiles = H == How::pdl_tiles || H == How::wait_kernel;
  static constexpr int index = Index;
  TESSERA_HOST_DEVICE static constexpr TileGrid grid() { return GemmSet::grid(); }
  static constexpr int splits = 1;
  static constexpr int threads = k_gemm_threads;
  using Order = RowMajor;
  static constexpr Start start = T ? Start::block_index : Start::ticket;
  static constexpr bool custom_order = !T;
  static constexpr bool plain_store = S;
  static constexpr bool reorder_loads = R;
  static constexpr bool wait_kernel = H == How::wait_kernel && !W && Index == 1;
  static constexpr bool triggers_at_start = (H == How::pdl || H == How::pdl_tiles) && Index == 0;
  static constexpr bool completes_after_previous = (H == How::pdl || H == How::pdl_tiles) && Index == 1;
  static constexpr bool announces_start = H == How::wait_kernel && !W && Index == 0;
  using Operands =
      std::conditional_t<Index == 1, tessera::Operands<After<GemmDependence<H, GemmSet>>, External>,
                         tessera::Operands<External, External>>;
  using Posts = std::conditional_t<Index == 0 && tiles, Sets<GemmSet>, Sets<>>;
  using BeforeStore = Sets<>;
};

template <class Stage>
__global__ void __launch_bounds__(k_gemm_threads) switched_gemm(GemmArguments const args, Stage stage) {
  using namespace nvcuda;
  __shared__ __align__(32) half a[k_tile][k_slice + 8];
  __shared__ __align__(32) half b[k_slice][k_tile + 8];
  __shared__ __align__(32) float result[k_tile][k_tile + 8];
  Tile const tile = stage.start();
  int const column = tile.at[0];
  int const row = tile.at[1];
  int const warp_row = static_cast<int>(threadIdx.x) / 64 * 32;
  int const warp_column = static_cast<int>(threadIdx.x) / 32 % 2 * 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2][2];
  for (auto& line : sum)
    for (auto& part : line) wmma::fill_fragment(part, 0.0f);
  auto load_weights = [&](int k) {
    load_box<k_slice, k_tile>(b, args.b + 1LL * k * args.columns + column * k_tile, args.columns);
  };
  for (int k = 0; k < args.depth; k += k_slice) {
    __syncthreads();
    if constexpr (Stage::reorder_loads) load_weights(k);
    if (!stage.wait(operand_a, {{k / k_tile, row}})) return;
    load_box<k_tile, k_slice>(a, args.a + 1LL * row * k_tile * args.depth + k, args.depth);
    if constexpr (!Stage::reorder_loads) load_weights(k);
    __syncthreads();
    for (int step = 0; step < k_slice; step += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right[2];
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(left[i], &a[warp_row + 16 * i][step], k_slice + 8);
        wmma::load_matrix_sync(right[i], &b[step][warp_column + 16 * i], k_tile + 8);
      }
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) wmma::mma_sync(sum[i][j], left[i], right[j], sum[i][j]);
    }
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      wmma::store_matrix_sync(&result[warp_row + 16 * i][warp_column + 16 * j], sum[i][j], k_tile + 8,
                              wmma::mem_row_major);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < k_tile * k_tile / 2; i += k_gemm_threads) {
    int const line = i / (k_tile / 2);
    int const at = i % (k_tile / 2) * 2;
    half* const out = args.out + (1LL * row * k_tile + line) * args.columns + column * k_tile + at;
    *reinterpret_cast<half2*>(out) = __floats2half2_rn(result[line][at], result[line][at + 1]);
  }
  stage.post();
}

}  // namespace tessera::bench
