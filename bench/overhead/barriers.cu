// SPDX-License-Identifier: Apache-2.0
// Barriers of a grid beside each other, in one run, interleaved:
//
//     barriers [--json <file>]
#include "barrier_variants.cuh"
#include "bench/common/program.hpp"
#include "gpu/device_buffer.hpp"
#include "gpu/launch.hpp"
#include "neighbour_variants.cuh"
#include "tessera/measure/statistics.hpp"
#include "token_variants.cuh"

namespace tessera::bench {
namespace {

using namespace tessera::gpu;

constexpr unsigned k_rounds = 3000;
constexpr int k_samples = 7;

struct Result {
  unsigned long long ns;
  unsigned wrong;
};

/// `Data`: before each barrier every thread stores 16 bytes, after it loads those of a thread of another
/// block, `away` blocks further. Two buffers by turns.
template <class Barrier, bool Data>
__global__ void rounds(Arena arena, uint4* data, unsigned away, unsigned count, Result* result) {
  Barrier barrier(arena);
  unsigned const other = (blockIdx.x + away) % gridDim.x;
  unsigned const buffer = gridDim.x * blockDim.x;
  unsigned wrong = 0;
  barrier.sync();
  unsigned long long const begin = GlobalTimer::now();
  for (unsigned round = 1; round <= count; ++round) {
    if constexpr (Data)
      data[round % 2 * buffer + blockIdx.x * blockDim.x + threadIdx.x] =
          make_uint4(round, blockIdx.x, threadIdx.x, round);
    barrier.sync();
    if constexpr (Data) {
      unsigned const thread = (threadIdx.x + 33) % blockDim.x;
      uint4 const seen = data[round % 2 * buffer + other * blockDim.x + thread];
      wrong += seen.x != round || seen.y != other || seen.z != thread || seen.w != round;
    }
  }
  if (wrong != 0) atomicAdd(&result->wrong, wrong);
  if (blockIdx.x == 0 && threadIdx.x == 0) result->ns = GlobalTimer::now() - begin;
  // Nobody leaves a cluster that another still waits in.
  barrier.sync();
}

/// Lowest bit of a word's number, from 2^16 on, that takes it to the other half of the L2; 0 if none does.
/// Seen from one SM, the answered add takes a third more cycles to the far half.
__global__ void cycles_to_words(unsigned* words, int* cycles) {
  for (unsigned i = 0; i < 8; ++i)
    for (int bit = 15; bit <= 19; ++bit) {
      unsigned const first = i * 1056;
      unsigned const second = bit == 15 ? first : first ^ (1u << bit);
      for (int repeat = 0; repeat < 4; ++repeat) cycles[(bit - 15) * 8 + i] = cycles_to(words + second);
    }
}
unsigned find_flip(DeviceBuffer<unsigned> const& words) {
  DeviceBuffer<int> cycles(40, k_poison);
  cycles_to_words<<<1, 1>>>(words.get(), cycles.get());
  auto const seen = cycles.download();
  for (int bit = 16; bit <= 19; ++bit) {
    int flips = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      int const difference = seen[static_cast<std::size_t>(bit - 15) * 8 + i] - seen[i];
      flips += difference > 70 || difference < -70 ? 1 : 0;
    }
    std::printf("bit %d of a word's number: %d of 8 words change the half\n", bit, flips);
    if (flips == 8) return 1u << bit;
  }
  return 0;
}

struct Case {
  std::string name;
  int blocks, threads, cluster;
  std::vector<double> ns;
  void (*kernel)(Arena, uint4*, unsigned, unsigned, Result*);
  unsigned away;
  unsigned long long wrong = 0;
  bool fits = true;
};

class Barriers {
 public:
  explicit Barriers(int sms) : sms_(sms) {}
  template <class Barrier>
  void add(char const* name, int blocks, int threads, int cluster = 1, unsigned away = 37) {
    auto const where = ", " + std::to_string(blocks) + " blocks of " + std::to_string(threads);
    cases_.push_back({name + where, blocks, threads, cluster, {}, rounds<Barrier, false>, away});
    cases_.push_back(
        {name + where + ", with data", blocks, threads, cluster, {}, rounds<Barrier, true>, away});
  }
  void run() {
    for (int sample = 0; sample <= k_samples; ++sample)
      for (auto& one : cases_) launch(one, sample > 0);
  }
  std::vector<Value> values() const {
    std::vector<Value> all;
    for (auto const& one : cases_) {
      if (!one.fits) {
        std::printf("%-66s does not fit\n", one.name.c_str());
        continue;
      }
      std::printf("%-66s %8.1f ns  (%.1f to %.1f)%s\n", one.name.c_str(), median(one.ns), quantile(one.ns, 0),
                  quantile(one.ns, 1), one.wrong != 0 ? "  WRONG" : "");
      all.push_back({one.name, median(one.ns), "ns"});
      if (one.wrong != 0) all.push_back({one.name + ", wrong", static_cast<double>(one.wrong), "1"});
    }
    return all;
  }

 private:
  void launch(Case& one, bool counts) {
    if (!one.fits) return;
    words_.fill(0);
    result_.fill(0);
    Shape shape{static_cast<unsigned>(one.blocks), static_cast<unsigned>(one.threads), 0,
                static_cast<unsigned>(one.cluster)};
    shape.cooperative = true;
    cudaError_t const status = try_launch(shape, nullptr, one.kernel, Arena{words_.get(), flip_}, data_.get(),
                                          one.away, k_rounds, result_.get());
    if (status == cudaErrorCooperativeLaunchTooLarge || status == cudaErrorInvalidClusterSize) {
      cudaGetLastError();
      one.fits = false;
      return;
    }
    ok(status);
    ok(cudaDeviceSynchronize());
    Result const result = result_.download()[0];
    one.wrong += result.wrong;
    if (counts) one.ns.push_back(static_cast<double>(result.ns) / k_rounds);
  }

  int sms_;
  std::vector<Case> cases_;
  DeviceBuffer<unsigned> words_{1 << 21, 0};
  unsigned flip_ = find_flip(words_);
  DeviceBuffer<uint4> data_{2 * 2048 * 1024, 0};
  DeviceBuffer<Result> result_{1, 0};
};

/// One thread, one operation after the other.
enum class Alone {
  load_acquire,
  load_relaxed,
  fence,
  store_release,
  add_release,
  add_answered,
  cluster_barrier
};
template <Alone A>
__global__ void repeat(unsigned* words, unsigned long long* ns) {
  unsigned at = 0;
  unsigned long long const begin = GlobalTimer::now();
  for (unsigned i = 0; i < 2000; ++i) {
    if constexpr (A == Alone::load_acquire) at = load_acquire<Scope::device>(words + at);
    if constexpr (A == Alone::load_relaxed) at = load_relaxed(words + at);
    if constexpr (A == Alone::fence) fence();
    if constexpr (A == Alone::store_release) store_release<Scope::device>(words, 0);
    if constexpr (A == Alone::add_release) add_release<Scope::device>(words, 0);
    if constexpr (A == Alone::add_answered)
      asm volatile("atom.add.release.gpu.u32 %0, [%1], 0;" : "=r"(at) : "l"(words + at) : "memory");
    if constexpr (A == Alone::cluster_barrier) cluster_barrier();
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *ns = GlobalTimer::now() - begin + at;
}

template <Alone A>
Value alone(char const* name) {
  DeviceBuffer<unsigned> words(65536, 0);
  DeviceBuffer<unsigned long long> ns(1, 0);
  std::vector<double> all;
  // Words far apart: the slices of the L2 are not equally near.
  for (std::size_t i = 0; i < 32; ++i) {
    repeat<A><<<1, 32>>>(words.get() + i * 1056, ns.get());
    ok(cudaDeviceSynchronize());
    if (i > 0) all.push_back(static_cast<double>(ns.download()[0]) / 2000);
  }
  std::printf("%-66s %8.1f ns  (%.1f to %.1f)\n", name, median(all), quantile(all, 0), quantile(all, 1));
  return {name, median(all), "ns"};
}

std::vector<Value> run() {
  cudaDeviceProp device;
  ok(cudaGetDeviceProperties(&device, 0));
  int const sms = device.multiProcessorCount;
  Barriers barriers(sms);
  for (auto const& [per_sm, threads] : {std::pair{1, 256}, {1, 1024}, {2, 256}, {8, 256}}) {
    int const blocks = per_sm * sms;
    barriers.add<Cooperative>("cooperative groups", blocks, threads);
    barriers.add<Library>("library", blocks, threads);
    barriers.add<LibraryClusters>("library, clusters of 2", blocks, threads, 2);
    barriers.add<LibraryNeighbours>("library, 2 neighbours", blocks, threads, 1, 1);
    barriers.add<Words<1>>("words", blocks, threads);
    barriers.add<Words<8>>("words, 32 bytes apart", blocks, threads);
    barriers.add<Words<32>>("words, 128 bytes apart", blocks, threads);
    barriers.add<WideWords>("words, four a thread", blocks, threads);
    barriers.add<Gathered>("words, gathered by one block", blocks, threads);
    barriers.add<Counter<>>("counter", blocks, threads);
    barriers.add<Counter<Poll::relaxed>>("counter, relaxed polls and a fence", blocks, threads);
    barriers.add<Counter<Poll::pipelined>>("counter, four polls in flight", blocks, threads);
    barriers.add<Counter<Poll::every_warp>>("counter, every warp polls", blocks, threads);
    barriers.add<Counter<Poll::acquire, Arrive::fence_everywhere>>("counter, fence in every thread", blocks,
                                                                   threads);
    barriers.add<Counter<Poll::acquire, Arrive::answered>>("counter, answered add", blocks, threads);
    barriers.add<Counter<Poll::acquire, Arrive::release_add, 2>>("2 counters", blocks, threads);
    barriers.add<Counter<Poll::acquire, Arrive::release_add, 4>>("4 counters", blocks, threads);
    barriers.add<Counter<Poll::acquire, Arrive::release_add, 16>>("16 counters", blocks, threads);
    barriers.add<CounterSplitBlock>("counter, block barrier split", blocks, threads);
    barriers.add<DelayedCounter<300>>("counter, first poll after 300 cycles", blocks, threads);
    barriers.add<DelayedCounter<500>>("counter, first poll after 500 cycles", blocks, threads);
    barriers.add<DelayedCounter<700>>("counter, first poll after 700 cycles", blocks, threads);
    barriers.add<DelayedCounter<900>>("counter, first poll after 900 cycles", blocks, threads);
    barriers.add<DelayedCounter<0, false>>("counter, without order (no barrier)", blocks, threads);
    barriers.add<DelayedCounter<500, false>>("counter, after 500 cycles, without order (no barrier)", blocks,
                                             threads);
    barriers.add<GatheredCounter>("counter, gathered by one block", blocks, threads);
    barriers.add<LastReleases>("counter, its last add releases", blocks, threads);
    barriers.add<Replicated<2, 0>>("counter in 2 words", blocks, threads);
    barriers.add<Replicated<4, 0>>("counter in 4 words", blocks, threads);
    barriers.add<Replicated<8, 0>>("counter in 8 words", blocks, threads);
    barriers.add<Replicated<16, 0>>("counter in 16 words", blocks, threads);
    barriers.add<Replicated<2, 300>>("counter in 2 words, first poll after 300 cycles", blocks, threads);
    barriers.add<Replicated<2, 240>>("counter in 2 words, first poll after 240 cycles", blocks, threads);
    barriers.add<Replicated<2, 270>>("counter in 2 words, first poll after 270 cycles", blocks, threads);
    barriers.add<Replicated<2, 330>>("counter in 2 words, first poll after 330 cycles", blocks, threads);
    barriers.add<Replicated<4, 300>>("counter in 4 words, first poll after 300 cycles", blocks, threads);
    barriers.add<Replicated<8, 300>>("counter in 8 words, first poll after 300 cycles", blocks, threads);
    barriers.add<Replicated<4, 200>>("counter in 4 words, first poll after 200 cycles", blocks, threads);
    barriers.add<Replicated<8, 200>>("counter in 8 words, first poll after 200 cycles", blocks, threads);
    barriers.add<Split<2, 4, 0>>("4 counters in 2 words", blocks, threads);
    barriers.add<Split<4, 4, 0>>("4 counters in 4 words", blocks, threads);
    barriers.add<Split<8, 4, 0>>("4 counters in 8 words", blocks, threads);
    barriers.add<Split<4, 16, 0>>("16 counters in 4 words", blocks, threads);
    barriers.add<Split<8, 8, 300>>("8 counters in 8 words, first poll after 300 cycles", blocks, threads);
    barriers.add<NearCounter<0>>("counter in both halves", blocks, threads);
    barriers.add<NearCounter<200>>("counter in both halves, first poll after 200 cycles", blocks, threads);
    barriers.add<NearCounter<300>>("counter in both halves, first poll after 300 cycles", blocks, threads);
    barriers.add<NearCounter<400>>("counter in both halves, first poll after 400 cycles", blocks, threads);
    for (int const size : {2, 4}) {
      auto const name = "clusters of " + std::to_string(size);
      barriers.add<Clustered<true>>((name + ", first block polls").c_str(), blocks, threads, size);
      barriers.add<Clustered<false>>((name + ", every block polls").c_str(), blocks, threads, size);
    }
    barriers.add<Neighbours<1>>("2 neighbours, words", blocks, threads, 1, 1);
    barriers.add<Neighbours<8>>("2 neighbours, words 32 bytes apart", blocks, threads, 1, 1);
    barriers.add<Neighbours<32>>("2 neighbours, words 128 bytes apart", blocks, threads, 1, 1);
    barriers.add<NeighboursOtherWarp<true>>("2 neighbours, another warp polls", blocks, threads, 1, 1);
    barriers.add<NeighboursOtherWarp<false>>("2 neighbours, another warp polls, without order", blocks,
                                             threads, 1, 1);
    barriers.add<NeighbourPairs<32>>("2 neighbours, a word for each", blocks, threads, 1, 1);
    barriers.add<NeighbourPairs<32, true>>("2 neighbours, a counter for each", blocks, threads, 1, 1);
    barriers.add<NearNeighbours<>>("2 neighbours, words in both halves", blocks, threads, 1, 1);
    barriers.add<NearNeighbours<true, true, true>>("2 neighbours, words in both halves, another warp polls",
                                                   blocks, threads, 1, 1);
    barriers.add<NearNeighbours<false, true>>("2 neighbours, words in both halves, no release", blocks,
                                              threads, 1, 1);
    barriers.add<NearNeighbours<true, false>>("2 neighbours, words in both halves, no acquire", blocks,
                                              threads, 1, 1);
    barriers.add<NearNeighbours<false, false>>("2 neighbours, words in both halves, no order", blocks,
                                               threads, 1, 1);
    barriers.add<TokenNeighbours<1, 0>>("2 neighbours, tokens", blocks, threads, 1, 1);
    barriers.add<TokenNeighbours<1, 180>>("2 neighbours, tokens, first poll after 180 cycles", blocks,
                                          threads, 1, 1);
    barriers.add<TokenNeighbours<2, 0>>("2 neighbours, tokens in both halves", blocks, threads, 1, 1);
    barriers.add<TokenNeighbours<2, 180>>("2 neighbours, tokens in both halves, first poll after 180 cycles",
                                          blocks, threads, 1, 1);
    barriers.add<PlacedNeighbours<8, false>>("2 neighbours, tokens placed among 8", blocks, threads, 1, 1);
    barriers.add<PlacedNeighbours<32, false>>("2 neighbours, tokens placed among 32", blocks, threads, 1, 1);
    barriers.add<PlacedNeighbours<8, true>>("2 neighbours, words placed among 8", blocks, threads, 1, 1);
    barriers.add<PlacedNeighbours<32, true>>("2 neighbours, words placed among 32", blocks, threads, 1, 1);
    barriers.add<Neighbours<1, 3>>("6 neighbours, words", blocks, threads, 1, 3);
    barriers.add<Neighbours<32, 3>>("6 neighbours, words 128 bytes apart", blocks, threads, 1, 3);
  }
  barriers.run();
  std::vector<Value> values = barriers.values();
  values.push_back(alone<Alone::load_acquire>("load, acquire"));
  values.push_back(alone<Alone::load_relaxed>("load, relaxed"));
  values.push_back(alone<Alone::fence>("fence"));
  values.push_back(alone<Alone::store_release>("store, release"));
  values.push_back(alone<Alone::add_release>("add, release"));
  values.push_back(alone<Alone::add_answered>("add, release, answered"));
  values.push_back(alone<Alone::cluster_barrier>("cluster barrier of one block of 32"));
  return values;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  return tessera::bench::report_main(argc, argv, "barriers", tessera::bench::run);
}
