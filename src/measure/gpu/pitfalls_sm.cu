// SPDX-License-Identifier: Apache-2.0
// Barriers of warps, blocks and clusters that not everybody reaches, or that are reached in different places.
#include <cooperative_groups.h>

#include <algorithm>

#include "measure/gpu/methods/deadline.cuh"
#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/pitfalls.hpp"
#include "tessera/sync/memory.cuh"

namespace tessera::probe {
namespace {

namespace cg = cooperative_groups;
constexpr unsigned long long k_deadline_ns = 100'000'000;

/// Who comes counts itself, and counts the others once it is through. Not by stamps: nothing keeps the
/// compiler from reading a clock before a barrier instead of behind it.
struct Passage {
  unsigned volatile* come;
  unsigned* seen;

  __device__ void before() const { atomicAdd(const_cast<unsigned*>(come), 1u); }
  __device__ void after() const { *seen = *come; }
};
__device__ Passage passage(unsigned* seen) {
  __shared__ unsigned come;
  if (threadIdx.x == 0) come = 0;
  __syncthreads();
  return {&come, seen + threadIdx.x};
}

struct FullWarp {
  __device__ static void sync() { __syncwarp(); }
};
struct WholeBlock {
  __device__ static void sync() { __syncthreads(); }
};
struct WarpTile {
  __device__ static void sync() { cg::tiled_partition<32>(cg::this_thread_block()).sync(); }
};
struct Coalesced {
  __device__ static void sync() { cg::coalesced_threads().sync(); }
};

/// Each lane takes a branch of its own, later ones come later.
template <class Barrier, int Lane>
__device__ void in_branch(Passage passage) {
  if constexpr (Lane < 32) {
    if (threadIdx.x == Lane) {
      spin_cycles(Lane * 500);
      passage.before();
      Barrier::sync();
      passage.after();
    } else {
      in_branch<Barrier, Lane + 1>(passage);
    }
  }
}
template <class Barrier>
__global__ void in_branches(unsigned* seen) {
  in_branch<Barrier, 0>(passage(seen));
}

/// Half of the threads in each branch of an if.
template <class Barrier>
__global__ void in_two_branches(unsigned* seen) {
  auto const mine = passage(seen);
  if (threadIdx.x < blockDim.x / 2) {
    mine.before();
    Barrier::sync();
    mine.after();
  } else {
    spin_cycles(20'000);
    mine.before();
    Barrier::sync();
    mine.after();
  }
}

/// Did anybody pass before the last one came?
template <class Kernel>
Outcome passes(Kernel* kernel, unsigned threads) {
  DeviceBuffer<unsigned> seen(threads);
  launch({1, threads}, nullptr, kernel, seen.get());
  auto const all = seen.download();
  auto const early = std::count_if(all.begin(), all.end(), [&](unsigned come) { return come < threads; });
  return {early == 0 ? "held" : "did not hold", std::to_string(early) + " of " + std::to_string(threads) +
                                                    " threads passed before the last one came"};
}

enum class Others { exit, wait };

/// Some threads reach the barrier; the others leave, or wait for what comes behind it.
struct Report {
  unsigned passed;   ///< threads that came through the barrier
  unsigned flag;     ///< raised behind it
  unsigned gave_up;  ///< threads that waited for the flag until their deadline
};

__device__ void other(Others others, Report* report) {
  if (others == Others::exit) return;
  if (!wait_until([&] { return load_acquire<Scope::device>(&report->flag) != 0; }, k_deadline_ns))
    atomicAdd(&report->gave_up, 1u);
}
__device__ void behind(Report* report) {
  if (atomicAdd(&report->passed, 1u) == 0) store_release<Scope::device>(&report->flag, 1u);
}

__global__ void part_of_warp(Others others, Report* report) {
  if (threadIdx.x >= 16) return other(others, report);
  __syncwarp();
  behind(report);
}
__global__ void part_of_block(Others others, Report* report) {
  if (threadIdx.x >= blockDim.x / 2) return other(others, report);
  __syncthreads();
  behind(report);
}
__global__ void lanes_of_block(Others others, Report* report) {
  if (threadIdx.x % 2 == 1) return other(others, report);
  __syncthreads();
  behind(report);
}
__global__ void part_of_cluster(Others others, Report* report) {
  if (cg::this_cluster().block_rank() == 1) return other(others, report);
  cg::this_cluster().sync();
  behind(report);
}

template <class Kernel>
Outcome with_part(Kernel* kernel, Others others, Shape const& shape) {
  DeviceBuffer<Report> report(1);
  launch(shape, nullptr, kernel, others, report.get());
  auto const seen = report.download().front();
  auto const passed = std::to_string(seen.passed) + " threads passed";
  if (seen.gave_up == 0) return {"completed", passed};
  return {"hung", "until the other " + std::to_string(seen.gave_up) +
                      " threads gave up after 100 ms and left; " + "then " + passed};
}

}  // namespace

std::vector<Pitfall> inside_an_sm() {
  return {
      {"warp.two_branches", "__syncwarp() of all lanes in both branches of an if, sixteen lanes each",
       [] { return passes(in_two_branches<FullWarp>, 32); }},
      {"warp.branches", "__syncwarp() of all lanes in 32 branches, a lane each",
       [] { return passes(in_branches<FullWarp>, 32); }},
      {"warp.branches.tile", "sync() of a cooperative-groups tile of 32 in 32 branches, a lane each",
       [] { return passes(in_branches<WarpTile>, 32); }},
      {"warp.branches.coalesced",
       "sync() of the coalesced group in 32 branches, a lane each: the group is who is there",
       [] { return passes(in_branches<Coalesced>, 32); }},
      {"warp.exited", "__syncwarp() of all lanes by half of a warp, the other half has left",
       [] {
         return with_part(part_of_warp, Others::exit, {1, 32});
       }},
      {"warp.subset",
       "__syncwarp() of all lanes by half of a warp, the other half waits for what comes behind it",
       [] {
         return with_part(part_of_warp, Others::wait, {1, 32});
       }},
      {"block.two_branches", "two __syncthreads(), each reached by half of a block's warps",
       [] { return passes(in_two_branches<WholeBlock>, 256); }},
      {"block.branches", "32 __syncthreads() in 32 branches, each reached by one lane of a block of 32",
       [] { return passes(in_branches<WholeBlock>, 32); }, false},
      {"block.exited", "__syncthreads() by half of a block's warps, the others have left",
       [] {
         return with_part(part_of_block, Others::exit, {1, 256});
       }},
      {"block.subset", "__syncthreads() by half of a block's warps, the others wait for what comes behind it",
       [] {
         return with_part(part_of_block, Others::wait, {1, 256});
       }},
      {"block.lanes", "__syncthreads() by every other lane, the others wait for what comes behind it",
       [] {
         return with_part(lanes_of_block, Others::wait, {1, 256});
       }},
      {"cluster.exited", "the barrier of a cluster of 4 without one block, which has left",
       [] {
         return with_part(part_of_cluster, Others::exit, {4, 128, 0, 4});
       }},
      {"cluster.subset",
       "the barrier of a cluster of 4 without one block, which waits for what comes behind it", [] {
         return with_part(part_of_cluster, Others::wait, {4, 128, 0, 4});
       }}};
}

}  // namespace tessera::probe
