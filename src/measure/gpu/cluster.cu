// SPDX-License-Identifier: Apache-2.0
// Inside a cluster: its barrier in several spellings, an arrival at another block's mbarrier, and a load from
// another block's shared memory. How many clusters fit is residency.clusters.
#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/methods/device_clock.cuh"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/repeat.hpp"

namespace tessera::probe {
namespace {

enum class Spelling {
  cooperative,  ///< not aligned, as cooperative groups writes it
  aligned,      ///< all threads of a warp together
  relaxed       ///< aligned, and the arrival orders nothing
};

template <Spelling S>
__device__ void cluster_barrier() {
  if constexpr (S == Spelling::cooperative) {
    asm volatile("barrier.cluster.arrive;" ::: "memory");
    asm volatile("barrier.cluster.wait;" ::: "memory");
  } else if constexpr (S == Spelling::aligned) {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  } else {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  }
}

__device__ unsigned rank() {
  unsigned value;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(value));
  return value;
}

/// Address of the same variable in the shared memory of another block of the cluster.
__device__ unsigned address_at(void const* variable, unsigned block) {
  unsigned const here = static_cast<unsigned>(__cvta_generic_to_shared(variable));
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(block));
  return there;
}

__device__ unsigned load_at(unsigned address) {
  unsigned value;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}

/// Writes the cycles of `repeats` barriers, by block. `wrong`: words of a neighbour that were not there after
/// one.
template <Spelling S>
__global__ void barriers(int repeats, unsigned size, long long* spans, unsigned* wrong) {
  __shared__ unsigned boxes[2];
  unsigned const neighbour = (rank() + 1) % size;
  unsigned bad = 0;
  cluster_barrier<Spelling::aligned>();
  if constexpr (S != Spelling::relaxed) {
    for (unsigned i = 1; i <= 200; ++i) {
      if (threadIdx.x == blockDim.x - 1) boxes[i % 2] = i * 64 + rank();
      cluster_barrier<S>();
      bad += load_at(address_at(&boxes[i % 2], neighbour)) != i * 64 + neighbour;
    }
    cluster_barrier<Spelling::aligned>();
  }
  long long const begin = cycles();
  for (int i = 0; i < repeats; ++i) cluster_barrier<S>();
  long long const end = cycles();
  if (bad != 0) atomicAdd(wrong, bad);
  if (threadIdx.x == 0) spans[blockIdx.x] = end - begin;
}

template <Spelling S>
void of_barrier(Context const& context, Probe& probe, std::string const& id, std::string const& what) {
  ok(cudaFuncSetAttribute(barriers<S>, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  auto const one = [&](unsigned size, unsigned clusters, unsigned threads) {
    DeviceBuffer<long long> spans(size * clusters);
    DeviceBuffer<unsigned> wrong(1);
    auto const cost = repeat_difference_of(100, 1100, context.quick ? 3 : 9, [&](int repeats) {
      launch({size * clusters, threads, 0, size}, context.stream, barriers<S>, repeats, size, spans.get(),
             wrong.get());
      auto const all = spans.download();
      return summarize({all.begin(), all.end()}).median;
    });
    auto figure = figure_of({id,
                             what,
                             "cycle",
                             "repeat difference",
                             {{"cluster", size}, {"clusters", clusters}, {"threads", threads}},
                             "blocks of the cluster arrive together"},
                            cost);
    figure.verified = S != Spelling::relaxed && wrong.download()[0] == 0;
    probe.figures.push_back(figure);
  };
  for (unsigned const size : {2u, 4u, 8u, 16u}) one(size, 1, 256);
  if constexpr (S == Spelling::aligned) {
    for (unsigned const threads : {32u, 128u, 1024u}) one(8, 1, threads);
    // As many as surely fit: 16 SMs of each of 7 graphics processing clusters.
    for (unsigned const size : {2u, 4u, 8u, 16u}) one(size, 112 / size, 256);
  }
}

constexpr int k_most_rounds = 4096;

/// Blocks 0 and `other` of a cluster answer each other through mbarriers in each other's shared memory. Every
/// try may sleep in hardware for a while; so many are seconds.
__global__ void mbarrier_ping_pong(int rounds, unsigned other, long long* span, unsigned* failed) {
  __shared__ alignas(8) unsigned long long state;
  __shared__ unsigned box;
  unsigned const here = static_cast<unsigned>(__cvta_generic_to_shared(&state));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(here) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_barrier<Spelling::aligned>();
  unsigned const me = rank();
  if (threadIdx.x == 0 && (me == 0 || me == other)) {
    unsigned const peer = me == 0 ? other : 0;
    unsigned const there = address_at(&state, peer), their_box = address_at(&box, peer);
    unsigned bad = 0;
    auto const send = [&](int round) {
      box = static_cast<unsigned>(round) * 2 + (me == 0 ? 0 : 1);
      asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
    };
    auto const receive = [&](int round) {
      unsigned done = 0;
      for (int tries = 0; done == 0 && tries < 1 << 22; ++tries)
        asm volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 "
            "%0, 1, 0, "
            "p; }"
            : "=r"(done)
            : "r"(here), "r"(static_cast<unsigned>(round) % 2)
            : "memory");
      bad += done == 0;
      // Only now and then: the load takes as long as half a hop.
      if (round % 64 == 0) bad += load_at(their_box) != static_cast<unsigned>(round) * 2 + (me == 0 ? 1 : 0);
      return done != 0;
    };
    long long const begin = cycles();
    for (int round = 0; round < rounds; ++round) {
      if (me == 0) send(round);
      if (!receive(round)) break;
      if (me != 0) send(round);
    }
    if (me == 0) *span = cycles() - begin;
    if (bad != 0) atomicAdd(failed, bad);
  }
  cluster_barrier<Spelling::aligned>();
}

/// A chain of loads, each of which gives the next one's address, through one block's shared memory.
__global__ void load_chain(int loads, unsigned from, long long* span, unsigned* sink) {
  __shared__ unsigned next[64];
  unsigned const base = address_at(next, from);
  // The addresses that the block `from` will be asked for.
  if (threadIdx.x < 64) next[threadIdx.x] = address_at(next, rank()) + (threadIdx.x * 7 + 3) % 64 * 4;
  cluster_barrier<Spelling::aligned>();
  if (rank() == 0 && threadIdx.x == 0) {
    unsigned at = base;
    for (int i = 0; i < 64; ++i) at = load_at(at);
    long long const begin = cycles();
    for (int i = 0; i < loads; ++i) at = load_at(at);
    *sink = at;
    *span = cycles() - begin;
  }
  cluster_barrier<Spelling::aligned>();
}

}  // namespace

void measure_cluster(Context const& context, Probe& probe) {
  of_barrier<Spelling::aligned>(context, probe, "cluster.barrier",
                                "barrier of a cluster, release and acquire");
  of_barrier<Spelling::cooperative>(context, probe, "cluster.barrier.cooperative",
                                    "barrier of a cluster as cooperative groups writes it, not aligned");
  of_barrier<Spelling::relaxed>(context, probe, "cluster.barrier.relaxed",
                                "barrier of a cluster whose arrival orders nothing");

  ok(cudaFuncSetAttribute(mbarrier_ping_pong, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  ok(cudaFuncSetAttribute(load_chain, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  DeviceBuffer<long long> span(1);
  DeviceBuffer<unsigned> failed(1), sink(1);
  int const samples = context.quick ? 3 : 9;
  for (unsigned const size : {2u, 8u, 16u})
    for (unsigned const other : {1u, size - 1}) {
      auto const cost = repeat_difference_of(256, k_most_rounds, samples, [&](int rounds) {
        launch({size, 32, 0, size}, context.stream, mbarrier_ping_pong, rounds, other, span.get(),
               failed.get());
        return static_cast<double>(span.download()[0]) / 2;
      });
      auto figure = figure_of({"cluster.arrive.remote",
                               "arrival at another block's mbarrier until it goes on",
                               "cycle",
                               "ping-pong",
                               {{"cluster", size}, {"other", other}},
                               "one thread a side, release and acquire at the cluster's scope"},
                              cost);
      figure.verified = failed.download()[0] == 0;
      probe.figures.push_back(figure);
      if (size == 2) break;
    }
  for (unsigned const size : {2u, 8u, 16u})
    for (unsigned from = 0; from < size; from += size == 2 ? 1 : 5) {
      auto const cost = repeat_difference_of(256, 2816, samples, [&](int loads) {
        launch({size, 64, 0, size}, context.stream, load_chain, loads, from, span.get(), sink.get());
        return static_cast<double>(span.download()[0]);
      });
      auto figure = figure_of({from == 0 ? "cluster.load.own" : "cluster.load.remote",
                               from == 0 ? "load from the own shared memory through the cluster's addresses"
                                         : "load from another block's shared memory",
                               "cycle",
                               "dependent chain",
                               {{"cluster", size}, {"block", from}},
                               "one thread, nobody else"},
                              cost);
      probe.figures.push_back(figure);
    }
}

}  // namespace tessera::probe
