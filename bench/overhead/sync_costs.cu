// SPDX-License-Identifier: Apache-2.0
// What the calls of tessera/sync.cuh cost on this GPU, timed inside kernels over many repetitions:
//
//     sync_costs [--json <file>]
#include <type_traits>

#include "gpu/device_buffer.hpp"
#include "measure/gpu/methods/pairs.cuh"
#include "report.cuh"
#include "tessera/sync/data_token.cuh"

namespace tessera::bench {
namespace {

using namespace tessera::gpu;

constexpr int k_repeats = 20000;
constexpr int k_threads = 256;
constexpr int k_most_blocks = 2048;

struct Span {
  unsigned long long begin_ns;
  unsigned long long end_ns;
  long long cycles;
};

template <class Body>
__device__ void time_block(Span* spans, Body&& body) {
  __syncthreads();
  unsigned long long const begin = GlobalTimer::now();
  long long const begin_cycles = clock64();
  body();
  __syncthreads();
  if (threadIdx.x == 0) spans[blockIdx.x] = {begin, GlobalTimer::now(), clock64() - begin_cycles};
}

enum class Op { nothing, barrier, post_add, post_store, post_add_after_stores, wait_met, waits_met, ticket };

/// Semaphores that one tile waits for in `waits_met`: a row of GPT-3's first GEMM in tiles of 256 columns.
constexpr int k_row = 24;

template <Op O, class Watch>
__global__ void repeat(ChainMemory memory, Watch watch, unsigned* data, Span* spans, bool one_word) {
  using Adds = PairStage<k_most_blocks, 0>;
  using Stores = PairStage<k_most_blocks, 0, true>;
  using Waits = PairStage<k_most_blocks, 1>;
  using Row = PairStage<k_most_blocks, 1, false, Start::worker, k_row>;
  using Draws = PairStage<k_most_blocks, 0, false, Start::ticket>;
  int const block = one_word ? 0 : static_cast<int>(blockIdx.x);
  Tile const tile{{block}};
  StageView<Adds, Watch> adds(memory, watch);
  StageView<Stores, Watch> stores(memory, watch);
  StageView<Waits, Watch> waits(memory, watch);
  StageView<Row, Watch> row(memory, watch);
  StageView<Draws, Watch> draws(memory, watch);
  adds.begin(block, 0);
  time_block(spans, [&] {
    for (int i = 0; i < k_repeats; ++i) {
      if constexpr (O == Op::barrier) __syncthreads();
      if constexpr (O == Op::post_add) adds.post();
      if constexpr (O == Op::post_store) {
        stores.begin(block, static_cast<unsigned>(i));
        stores.post();
      }
      if constexpr (O == Op::post_add_after_stores) {
        // 4 KB of the block's own stores are on their way when the release comes.
        reinterpret_cast<uint4*>(data)[blockIdx.x * k_threads + threadIdx.x] = make_uint4(i, i, i, i);
        adds.post();
      }
      if constexpr (O == Op::wait_met) {
        waits.begin(block, 0);
        waits.wait(operand_a, tile);
      }
      if constexpr (O == Op::waits_met) {
        row.begin(block, 0);
        row.wait_all(operand_a);
      }
      if constexpr (O == Op::ticket) draws.start();
    }
  });
}

/// Two blocks on two SMs take turns; a round is two hops. `Whole`: with the block's barriers, as stages do
/// it; else one thread each.
template <bool Whole, class Watch>
__global__ void ping_pong(ChainMemory memory, Watch watch, Span* spans) {
  using There = PairStage<1, 0>;
  using Back = PairStage<1, 1>;
  constexpr Group G = Whole ? Group::block : Group::thread;
  if (!Whole && threadIdx.x != 0) return;
  Tile const tile{{0}};
  StageView<There, Watch> there(memory, watch);
  StageView<Back, Watch> back(memory, watch);
  unsigned long long const begin = GlobalTimer::now();
  long long const begin_cycles = clock64();
  for (unsigned round = 0; round < k_repeats; ++round) {
    if (blockIdx.x == 0) {
      there.begin(0, round);
      there.template post<G>();
      if (!there.template wait<G>(operand_a, tile)) return;
    } else {
      back.begin(0, round);
      if (!back.template wait<G>(operand_a, tile)) return;
      back.template post<G>();
    }
  }
  if (threadIdx.x == 0) spans[blockIdx.x] = {begin, GlobalTimer::now(), clock64() - begin_cycles};
}

/// A hop with what hops are for: every thread of one block hands an item to a thread of the other, which has
/// a block barrier behind its read, as a tile that is shared by the block needs it. `Counter`: stored,
/// posted, waited for, loaded.
struct Counter {
  uint4 words;
};
template <class Item, class Watch>
__global__ void ping_pong_data(ChainMemory memory, Watch watch, Item* there_items, Item* back_items,
                               unsigned* sink, Span* spans) {
  using There = PairStage<1, 0>;
  using Back = PairStage<1, 1>;
  constexpr bool by_counter = std::is_same_v<Item, Counter>;
  int const thread = static_cast<int>(threadIdx.x);
  int const other = (thread + 33) % k_threads;
  bool const first = blockIdx.x == 0;
  Item* const mine = first ? there_items : back_items;
  Item* const others = first ? back_items : there_items;
  Tile const tile{{0}};
  StageView<There, Watch> there(memory, watch);
  StageView<Back, Watch> back(memory, watch);
  unsigned carried = static_cast<unsigned>(thread);
  auto send = [&](unsigned round) {
    if constexpr (by_counter) {
      mine[thread].words = make_uint4(carried, round, carried, round);
      if (first) {
        there.begin(0, round);
        there.post();
      } else {
        back.begin(0, round);
        back.post();
      }
    } else {
      Item item;
      if constexpr (std::is_same_v<Item, MarkedWords>)
        item.word[0] = item.word[3] = carried;
      else
        item.payload[0] = carried;
      put(mine + thread, item, round);
    }
  };
  auto receive = [&](unsigned round) {
    if constexpr (by_counter) {
      if (first) {
        if (!there.wait(operand_a, tile)) return false;
      } else {
        back.begin(0, round);
        if (!back.wait(operand_a, tile)) return false;
      }
      uint4 const words = others[other].words;
      carried += words.x ^ words.y ^ words.w;
      __syncthreads();
      return true;
    } else {
      Item items[1];
      bool const ok = take(others + other, 1, round, items, watch, WaitPlace{});
      if constexpr (std::is_same_v<Item, MarkedWords>)
        carried += items[0].word[3];
      else
        carried += items[0].payload[0];
      if constexpr (Watch::may_stop) return __syncthreads_and(ok) != 0;
      __syncthreads();
      return true;
    }
  };
  unsigned long long const begin = GlobalTimer::now();
  long long const begin_cycles = clock64();
  for (unsigned round = 0; round < k_repeats; ++round) {
    if (first) send(round);
    if (!receive(round)) return;
    if (!first) send(round);
  }
  sink[blockIdx.x * k_threads + threadIdx.x] = carried;
  if (threadIdx.x == 0) spans[blockIdx.x] = {begin, GlobalTimer::now(), clock64() - begin_cycles};
}

struct Memory {
  DeviceBuffer<unsigned> semaphores{2 * k_most_blocks, 0};
  DeviceBuffer<unsigned long long> counters{static_cast<std::size_t>(counters_for(2)), 0};
  DeviceBuffer<StallRecord> stall{1, 0};
  DeviceBuffer<unsigned> data{k_most_blocks * k_threads * 4, k_poison};
  DeviceBuffer<Span> spans{k_most_blocks, 0};
  ChainMemory chain() const { return {semaphores.get(), counters.get()}; }
  DeadlineWatch<> watch() const { return {stall.get(), 2'000'000'000}; }
  void zero() {
    semaphores.fill(0);
    counters.fill(0);
    data.fill(0);
  }
};

/// Nanoseconds (of the median block, median of nine launches) and cycles for each repetition.
struct Cost {
  double ns;
  double cycles;
};
template <class Launch>
Cost measure(Memory& memory, int blocks, int per_repeat, int ready, Launch&& launch) {
  std::vector<double> ns, cycles;
  for (int run = 0; run < 10; ++run) {
    memory.zero();
    // Semaphores that a satisfied wait finds.
    if (ready != 0) memory.semaphores.fill(1);
    launch();
    ok(cudaGetLastError());
    ok(cudaDeviceSynchronize());
    if (memory.stall.download()[0].state != 0) throw std::runtime_error("a wait met its deadline");
    if (run == 0) continue;
    auto const spans = memory.spans.download();
    std::vector<double> block_ns, block_cycles;
    for (int b = 0; b < blocks; ++b) {
      auto const& span = spans[static_cast<std::size_t>(b)];
      block_ns.push_back(static_cast<double>(span.end_ns - span.begin_ns) / k_repeats / per_repeat);
      block_cycles.push_back(static_cast<double>(span.cycles) / k_repeats / per_repeat);
    }
    ns.push_back(median(block_ns));
    cycles.push_back(median(block_cycles));
  }
  return {median(ns), median(cycles)};
}

class Costs {
 public:
  void add(std::string const& name, Cost cost) {
    std::printf("%-58s %9.1f ns %9.0f cycles\n", name.c_str(), cost.ns, cost.cycles);
    values_.push_back({name, cost.ns, "ns"});
    values_.push_back({name + ", cycles", cost.cycles, "cycles"});
  }
  template <Op O, class Watch>
  void repeated(std::string const& name, int blocks, bool one_word, Watch watch) {
    add(name, measure(memory_, blocks, 1, O == Op::wait_met || O == Op::waits_met ? 1 : 0, [&] {
          repeat<O><<<blocks, k_threads>>>(memory_.chain(), watch, memory_.data.get(), memory_.spans.get(),
                                           one_word);
        }));
  }
  template <bool Whole, class Watch>
  void hop(std::string const& name, Watch watch) {
    add(name, measure(memory_, 2, 2, 0, [&] {
          ping_pong<Whole><<<2, Whole ? k_threads : 32>>>(memory_.chain(), watch, memory_.spans.get());
        }));
  }
  template <class Item, class Watch>
  void hop_with_data(std::string const& name, Watch watch) {
    auto* const there = reinterpret_cast<Item*>(memory_.data.get());
    add(name, measure(memory_, 2, 2, 0, [&] {
          ping_pong_data<Item><<<2, k_threads>>>(memory_.chain(), watch, there, there + 4 * k_threads,
                                                 memory_.data.get() + 64 * k_threads, memory_.spans.get());
        }));
  }
  Memory const& memory() const { return memory_; }
  std::vector<Value> const& values() const { return values_; }

 private:
  Memory memory_;
  std::vector<Value> values_;
};

std::vector<Value> run() {
  Costs costs;
  NoWatch const off;
  DeadlineWatch<> const on = costs.memory().watch();
  cudaDeviceProp device;
  ok(cudaGetDeviceProperties(&device, 0));
  int const sms = device.multiProcessorCount;

  costs.repeated<Op::nothing>("empty loop", 1, false, off);
  costs.repeated<Op::barrier>("block barrier, 256 threads", 1, false, off);
  costs.repeated<Op::post_add>("post, add", 1, false, off);
  costs.repeated<Op::post_store>("post, plain store", 1, false, off);
  costs.repeated<Op::post_add_after_stores>("post, add, after 4 KB of stores", 1, false, off);
  costs.repeated<Op::post_add_after_stores>("post, add, after 4 KB of stores, a block on every SM", sms,
                                            false, off);
  costs.repeated<Op::post_add>("post, add, a block on every SM, own semaphores", sms, false, off);
  costs.repeated<Op::post_add>("post, add, a block on every SM, one semaphore", sms, true, off);
  costs.repeated<Op::post_add_after_stores>("post, add, after 4 KB of stores, with deadline", 1, false, on);
  costs.repeated<Op::wait_met>("wait that is met", 1, false, off);
  costs.repeated<Op::wait_met>("wait that is met, with deadline", 1, false, on);
  costs.repeated<Op::wait_met>("wait that is met, a block on every SM, one semaphore", sms, true, off);
  costs.repeated<Op::waits_met>("wait for 24 semaphores that are met", 1, false, off);
  costs.repeated<Op::waits_met>("wait for 24 semaphores that are met, with deadline", 1, false, on);
  costs.repeated<Op::ticket>("ticket", 1, false, off);
  costs.repeated<Op::ticket>("ticket, a block on every SM", sms, false, off);
  // First with a deadline: it would show that the pair hangs.
  costs.hop<true>("hop between two SMs, with deadline", on);
  costs.hop<true>("hop between two SMs", off);
  costs.hop<false>("hop between two SMs, one thread each, with deadline", on);
  costs.hop<false>("hop between two SMs, one thread each", off);
  costs.hop_with_data<Counter>("hop with 4 KB, semaphore, with deadline", on);
  costs.hop_with_data<Counter>("hop with 4 KB, semaphore", off);
  costs.hop_with_data<MarkedWords>("hop with 4 KB, token in each element, with deadline", on);
  costs.hop_with_data<MarkedWords>("hop with 4 KB, token in each element", off);
  costs.hop_with_data<Packet<3>>("hop with 3 KB in packets of 16 bytes, with deadline", on);
  costs.hop_with_data<Packet<3>>("hop with 3 KB in packets of 16 bytes", off);
  costs.hop_with_data<Packet<1>>("hop with 1 KB in packets of 8 bytes, with deadline", on);
  costs.hop_with_data<Packet<1>>("hop with 1 KB in packets of 8 bytes", off);
  return costs.values();
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  return tessera::bench::report_main(argc, argv, "sync_costs", tessera::bench::run);
}
