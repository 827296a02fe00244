// SPDX-License-Identifier: Apache-2.0
// Block level: __syncthreads, cooperative groups, a named barrier and an mbarrier, for 32 to 1024 threads.
#include <cooperative_groups.h>

#include <algorithm>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/chain.cuh"
#include "measure/gpu/methods/figures.hpp"

namespace tessera::probe {
namespace {

struct SyncThreads {
  __device__ unsigned operator()(unsigned value) {
    __syncthreads();
    return value;
  }
};

struct GroupSync {
  __device__ unsigned operator()(unsigned value) {
    cooperative_groups::this_thread_block().sync();
    return value;
  }
};

struct NamedBarrier {
  unsigned threads = blockDim.x;
  __device__ unsigned operator()(unsigned value) {
    asm volatile("barrier.sync 1, %0;" ::"r"(threads) : "memory");
    return value;
  }
};

struct Mbarrier {
  unsigned word;
  __device__ Mbarrier() {
    __shared__ alignas(8) unsigned long long state;
    word = static_cast<unsigned>(__cvta_generic_to_shared(&state));
    if (threadIdx.x == 0)
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(word), "r"(blockDim.x) : "memory");
    __syncthreads();
  }
  __device__ unsigned operator()(unsigned value) {
    unsigned long long phase;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(phase) : "r"(word) : "memory");
    // Each try may sleep in hardware for a while; so many are seconds.
    for (int tries = 0; tries < 1 << 22; ++tries) {
      unsigned done;
      asm volatile("{ .reg .pred p; mbarrier.try_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                   : "=r"(done)
                   : "r"(word), "l"(phase)
                   : "memory");
      if (done != 0) break;
    }
    return value;
  }
};

/// Each thread writes, the block syncs, each reads another warp's: how many were wrong.
template <class Step>
__global__ void check_block(int rounds, int* wrong) {
  __shared__ int volatile box[1024];
  Step step;
  int const thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int r = 0; r < rounds; ++r) {
    if (thread / 32 % 5 == r % 5) spin_cycles(100);
    box[thread] = r * 2048 + thread;
    step(0);
    int const from = (thread + 33 * (r + 1)) % threads;
    if (box[from] != r * 2048 + from) atomicAdd(wrong, 1);
    step(0);
  }
}

template <class Step>
bool ordered(Context const& context) {
  DeviceBuffer<int> wrong(1);
  for (int threads : {32, 256, 1024}) {
    check_block<Step><<<4, threads, 0, context.stream>>>(1000, wrong.get());
    launched();
  }
  return wrong.download().front() == 0;
}

template <class Step>
void measure_barrier(Context const& context, Probe& probe, std::string const& id, std::string const& what) {
  bool const verified = ordered<Step>(context);
  auto const add = [&](Figure figure) {
    figure.verified = verified;
    probe.figures.push_back(std::move(figure));
  };
  for (int threads : {32, 64, 128, 256, 512, 1024}) {
    auto const cost = chain_cycles<Step>(context, 1, threads, 256, 2816, context.quick ? 5 : 25);
    add(figure_of({id,
                   what,
                   "cycle",
                   "dependent chain",
                   {{"threads", threads}},
                   "one block on an SM, all warps arriving together"},
                  cost));
  }
  // By active warps of an SM: blocks of 256 threads up to a full SM, and full SMs of blocks of every size.
  auto const loaded = [&](int threads, int per_sm) {
    auto const cost = chain_cycles<Step>(context, per_sm * context.device.multiProcessorCount, threads, 256,
                                         1280, context.quick ? 3 : 9);
    double const warps = per_sm * threads / 32.0;
    add(rate_of({id + ".throughput",
                 what + ": warps synchronized per cycle of an SM",
                 "1/cycle",
                 "dependent chain",
                 {{"threads", threads}, {"blocks_per_sm", per_sm}, {"warps_per_sm", warps}},
                 "the same on every SM"},
                cost, warps));
  };
  for (int threads : {32, 64, 128, 256, 512, 1024}) {
    int const most = chain_blocks_per_sm<Step>(threads);
    if (threads == 256)
      for (int per_sm = 1; per_sm < most; per_sm *= 2) loaded(threads, per_sm);
    loaded(threads, most);
  }
}

}  // namespace

void measure_block(Context const& context, Probe& probe) {
  measure_barrier<SyncThreads>(context, probe, "block.syncthreads", "__syncthreads");
  measure_barrier<GroupSync>(context, probe, "block.group", "sync of a cooperative thread block");
  measure_barrier<NamedBarrier>(context, probe, "block.named", "named barrier of all threads of a block");
  measure_barrier<Mbarrier>(context, probe, "block.mbarrier", "arrive at and wait for an mbarrier");
}

}  // namespace tessera::probe
