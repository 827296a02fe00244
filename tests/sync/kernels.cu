// SPDX-License-Identifier: Apache-2.0
// Every call of the device library in kernels: compiled by nvcc for sm_80, 90a, 100 and 120, by NVRTC for
// these and without options, and by clang.
#include "tessera/sync.cuh"
#include "tessera/sync/data_token.cuh"
#include "tessera/sync/persistent_stage.cuh"

#include "golden/attention.cuh"
#include "golden/convolution.cuh"
#include "golden/fused.cuh"
#include "golden/fused_in_order.cuh"
#include "golden/mlp_pdl.cuh"
#include "golden/mlp_row_sync.cuh"
#include "golden/mlp_stream_order.cuh"

namespace kernels {

using namespace tessera;

static_assert(__is_trivially_copyable(StageView<attention::scores>), "views are kernel arguments");
static_assert(__is_trivially_copyable(StageView<attention::scores, DeadlineWatch<>>),
              "views are kernel arguments");

/// The paper's way, unchanged for stages with and without producers.
template <class Stage>
__global__ void gemm(Stage stage, float const* in, float* out) {
  Tile const tile = stage.start();
  float sum = 0;
  for (int k = 0; k < 8; ++k) {
    Tile const producer{{k, tile.at[1]}};
    if (!stage.wait(operand_a, producer)) return;
    stage.wait(operand_b, producer);
    sum += in[k * 128 + threadIdx.x];
  }
  if (!stage.wait_before_store()) return;
  out[(tile.at[0] + stage.split()) * 128 + threadIdx.x] = sum;
  stage.post();
}

/// A warp that loads for the others, by TMA; the rest computes and posts.
template <class Stage>
__global__ void specialized(Stage stage, float* out) {
  Tile const tile = stage.start();
  if (threadIdx.x / 32 == 1) {
    if (threadIdx.x % 32 == 0) stage.wait_for_tma(operand_a, tile);
    stage.template wait<Group::warp>(operand_b, tile);
  }
  __syncthreads();
  out[threadIdx.x] = 1;
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) stage.template post<Group::thread>();
}

/// The other kind of token, four items in flight for each thread.
template <class Item, class Watch>
__global__ void through_data(Item const* in, Item* out, unsigned* numbers, Watch watch) {
  LaunchNumber const number{numbers + blockIdx.x};
  unsigned const epoch = number.read();
  Item items[4];
  bool const ok = take(in + threadIdx.x, blockDim.x, epoch, items, watch, WaitPlace{});
  for (int i = 0; i < 4; ++i) put(out + threadIdx.x + i * blockDim.x, items[i], epoch);
  __syncthreads();
  if (ok && threadIdx.x == 0) number.finish(epoch);
}
#define INSTANTIATE_DATA(item)                                                   \
  template __global__ void through_data(item const*, item*, unsigned*, NoWatch); \
  template __global__ void through_data(item const*, item*, unsigned*, DeadlineWatch<>);
INSTANTIATE_DATA(Packet<1>)
INSTANTIATE_DATA(Packet<3>)
INSTANTIATE_DATA(MarkedWords)

template <class Chain, class First, class Second>
__global__ void persistent(ChainMemory memory, float* out) {
  Worker<Chain> worker(memory);
  while (worker.next()) {
    if (worker.template is<First>()) {
      auto stage = worker.template as<First>();
      out[stage.tile().at[0]] = 1;
      stage.post();
    } else if (worker.template is<Second>()) {
      auto stage = worker.template as<Second>();
      stage.wait_all(operand_a);
      out[stage.tile().at[0]] += 1;
      stage.post();
    }
  }
}

/// Many tiles a block, whose plan comes at run time: one warp waits, another posts.
struct ManyTiles {
  RuntimeStage stage;
  ChainMemory memory;
  int tiles;
};
template <class Watch, Scope S>
__global__ void many_tiles(__grid_constant__ ManyTiles const args, Watch watch, float* out) {
  PersistentStageView<Watch, S> stage(args.stage, args.memory, launched_blocks(), watch);
  unsigned const warp = threadIdx.x / 32;
  for (int i = static_cast<int>(blockIdx.x); i < args.tiles; i += static_cast<int>(gridDim.x)) {
    Tile const tile = tile_of(args.stage.grid, i);
    if (warp == 0) {
      stage.take(tile);
      if (!stage.test_all(operand_b)) stage.wait_all_for_tma(operand_b);
      if (!stage.test(operand_c, tile)) stage.wait_for_tma(operand_c, tile);
      TileBox box;
      box.end[0] = 32;
      for (int at = stage.template ready<0>(operand_a, box, 0); at < 32;)
        at = stage.template wait_beyond_for_tma<0>(operand_a, box, at);
    } else if (warp == 1) {
      out[i] = 1;
      stage.post_after_tma_store(tile);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0 && !stage.stopped()) stage.leave();
}
template __global__ void many_tiles<NoWatch, Scope::device>(__grid_constant__ ManyTiles const, NoWatch,
                                                            float*);
template __global__ void many_tiles<DeadlineWatch<>, Scope::system>(__grid_constant__ ManyTiles const,
                                                                    DeadlineWatch<>, float*);

template <class Stage, class Watch, Scope S>
using View = StageView<Stage, Watch, S>;

#define INSTANTIATE(stage)                                                                          \
  template __global__ void gemm(View<stage, NoWatch, Scope::device>, float const*, float*);         \
  template __global__ void gemm(View<stage, NoWatch, Scope::system>, float const*, float*);         \
  template __global__ void gemm(View<stage, DeadlineWatch<>, Scope::device>, float const*, float*); \
  template __global__ void specialized(View<stage, NoWatch, Scope::device>, float*);
INSTANTIATE(attention::qkv)
INSTANTIATE(attention::scores)
INSTANTIATE(attention::softmax)
INSTANTIATE(plan_3x3_convolutions::conv1)
INSTANTIATE(plan_3x3_convolutions::conv2)
INSTANTIATE(gpt_3_mlp_PDL::gemm2)
INSTANTIATE(gpt_3_mlp_RowSync::gemm2)
INSTANTIATE(gpt_3_mlp_stream_order::gemm2)

template __global__ void persistent<fused_swiglu::chain, fused_swiglu::gate_up, fused_swiglu::down>(
    ChainMemory, float*);
template __global__ void persistent<fused_in_order::chain, fused_in_order::gate_up, fused_in_order::down>(
    ChainMemory, float*);

}  // namespace kernels

template __global__ void tessera::wait_kernel<plan_3x3_convolutions::conv2, plan_3x3_convolutions::conv1>(
    tessera::ChainMemory);
