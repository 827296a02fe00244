// SPDX-License-Identifier: Apache-2.0
// What the calls of tessera/sync.cuh cost the block that makes them: post, a wait that is met, a ticket. The
// planner reads post_ns, store_post_ns, wait_ns and ticket_ns from here.
#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/methods/device_clock.cuh"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/pairs.cuh"
#include "measure/gpu/methods/repeat.hpp"

namespace tessera::probe {
namespace {

using gpu::PairStage;

constexpr int k_repeats = 3000;
constexpr int k_threads = 256;
constexpr int k_most_blocks = 1024;
/// Semaphores that one tile waits for in `waits_met`: a row of GPT-3's first GEMM in tiles of 256 columns.
constexpr int k_row = 24;

enum class Call { post_add, post_store, wait_met, waits_met, ticket };

/// Each block writes the ns of its repetitions. `bytes` are stored by the block before each post.
template <Call C, class Watch>
__global__ void repeat_call(ChainMemory memory, Watch watch, uint4* data, int bytes,
                            unsigned long long* spans) {
  using Adds = PairStage<k_most_blocks, 0>;
  using Stores = PairStage<k_most_blocks, 0, true>;
  using Waits = PairStage<k_most_blocks, 1>;
  using Row = PairStage<k_most_blocks, 1, false, Start::worker, k_row>;
  using Draws = PairStage<k_most_blocks, 0, false, Start::ticket>;
  int const block = static_cast<int>(blockIdx.x);
  Tile const tile{{block}};
  StageView<Adds, Watch> adds(memory, watch);
  StageView<Stores, Watch> stores(memory, watch);
  StageView<Waits, Watch> waits(memory, watch);
  StageView<Row, Watch> row(memory, watch);
  StageView<Draws, Watch> draws(memory, watch);
  adds.begin(block, 0);
  uint4* const mine = data + static_cast<long long>(block) * (32768 / 16);
  __syncthreads();
  unsigned long long const begin = global_ns();
  for (int i = 0; i < k_repeats; ++i) {
    if constexpr (C == Call::post_add || C == Call::post_store)
      for (int j = static_cast<int>(threadIdx.x); j < bytes / 16; j += k_threads)
        mine[j] = make_uint4(i, j, i, j);
    if constexpr (C == Call::post_add) adds.post();
    if constexpr (C == Call::post_store) {
      stores.begin(block, static_cast<unsigned>(i));
      stores.post();
    }
    if constexpr (C == Call::wait_met) {
      waits.begin(block, 0);
      waits.wait(operand_a, tile);
    }
    if constexpr (C == Call::waits_met) {
      row.begin(block, 0);
      row.wait_all(operand_a);
    }
    if constexpr (C == Call::ticket) draws.start();
  }
  __syncthreads();
  if (threadIdx.x == 0) spans[blockIdx.x] = global_ns() - begin;
}

class Calls {
 public:
  Calls(Context const& context, Probe& probe)
      : context_(context),
        probe_(probe),
        semaphores_(2 * k_most_blocks),
        counters_(static_cast<std::size_t>(counters_for(2))),
        data_(static_cast<std::size_t>(context.device.multiProcessorCount) * (32768 / 16)),
        spans_(k_most_blocks),
        stall_(1) {}

  /// Of the median block, over several launches.
  template <Call C, class Watch>
  void measure(std::string const& id, std::string const& what, int blocks, int bytes, Watch const& watch,
               std::string const& valid, double per = 1, std::map<std::string, double> at = {}) {
    constexpr bool stores = C == Call::post_add || C == Call::post_store;
    std::vector<double> samples;
    for (int i = -1; i < (context_.quick ? 3 : 9); ++i) {
      // A wait finds what it waits for.
      semaphores_.fill(context_.stream, stores || C == Call::ticket ? 0 : 1);
      counters_.fill(context_.stream, 0);
      launch({static_cast<unsigned>(blocks), k_threads}, context_.stream, repeat_call<C, Watch>,
             ChainMemory{semaphores_.get(), counters_.get()}, watch, data_.get(), bytes, spans_.get());
      auto const spans = spans_.download();
      if (stall_.download()[0].state != 0) throw std::runtime_error("a wait met its deadline");
      std::vector<double> ns;
      for (int b = 0; b < blocks; ++b)
        ns.push_back(static_cast<double>(spans[static_cast<std::size_t>(b)]) / k_repeats / per);
      if (i >= 0) samples.push_back(summarize(ns).median);
    }
    at["blocks"] = blocks;
    at["threads"] = k_threads;
    if (stores) at["bytes"] = bytes;
    probe_.figures.push_back(figure_of({id, what, "ns", "stamps", at, valid}, samples));
  }

  DeadlineWatch<> deadline() const { return {stall_.get(), 500'000'000}; }

 private:
  Context const& context_;
  Probe& probe_;
  DeviceBuffer<unsigned> semaphores_;
  DeviceBuffer<unsigned long long> counters_;
  DeviceBuffer<uint4> data_;
  DeviceBuffer<unsigned long long> spans_;
  DeviceBuffer<StallRecord> stall_;
};

/// `each` adds by each of the grid's threads, to word number `thread % words`, `apart` words from each other.
__global__ void add_everywhere(unsigned* memory, unsigned words, unsigned apart, int each) {
  unsigned* const word = memory + (blockIdx.x * blockDim.x + threadIdx.x) % words * apart;
  for (int i = 0; i < each; ++i) asm volatile("red.relaxed.gpu.add.u32 [%0], 1;" ::"l"(word) : "memory");
}

void of_counters(Context const& context, Probe& probe) {
  unsigned const sms = static_cast<unsigned>(context.device.multiProcessorCount);
  DeviceBuffer<unsigned> memory(std::size_t{sms} * 256 * 32);
  EventTimer timer;
  auto const one = [&](unsigned threads, unsigned words, unsigned apart, std::string const& valid) {
    unsigned const adders = sms * threads;
    auto const time = [&](int each) {
      return timer.ns(context.stream, [&] {
        add_everywhere<<<sms, threads, 0, context.stream>>>(memory.get(), words, apart, each);
        launched();
      });
    };
    auto const cost = repeat_difference_of(20, threads > 1 ? 120 : 2020, context.quick ? 3 : 9, time);
    auto figure = rate_of({"pair.counter.throughput",
                           "adds to counters in the L2, all SMs together",
                           "1/ns",
                           "repeat difference",
                           {{"threads", threads}, {"words", words}, {"bytes_apart", apart * 4}},
                           valid},
                          cost, adders);
    probe.figures.push_back(figure);
  };
  one(1, 1, 1, "one thread of every SM, one word");
  one(256, 1, 1, "all threads, one word");
  one(256, sms * 256, 1, "all threads, a word each, side by side: a warp's adds are one access");
  one(256, sms * 256, 32, "all threads, a word each, each in a line of its own");
}

}  // namespace

void measure_pair_calls(Context const& context, Probe& probe) {
  Calls calls(context, probe);
  int const sms = context.device.multiProcessorCount;
  NoWatch const off;
  auto const on = calls.deadline();
  std::string const full = "the block has stored 4 KB just before, and so has one on every SM";
  calls.measure<Call::post_add>("pair.post", "post by a release add, with its block barrier", sms, 4096, off,
                                full);
  calls.measure<Call::post_store>("pair.post.store", "post by a release store, with its block barrier", sms,
                                  4096, off, full);
  for (int const blocks : {1, sms})
    for (int const bytes : {0, 128, 1024, 4096, 16384, 32768}) {
      std::string const valid =
          "by the bytes that the block has stored just before, which the release waits for; "
          "storing them is in it";
      calls.measure<Call::post_add>("pair.post.outstanding", "stores, and a post by a release add", blocks,
                                    bytes, off, valid);
    }
  calls.measure<Call::wait_met>("pair.wait_met", "wait that is met, with deadline and block barrier", 1, 0,
                                on, "one block on the GPU; the semaphore is in the L2");
  calls.measure<Call::wait_met>("pair.wait_met.bare", "wait that is met, without deadline", 1, 0, off,
                                "one block on the GPU; the semaphore is in the L2");
  calls.measure<Call::wait_met>("pair.wait_met.bare", "wait that is met, without deadline", sms, 0, off,
                                "a semaphore for each block");
  calls.measure<Call::waits_met>("pair.wait_met.row", "wait for 24 semaphores that are met", 1, 0, off,
                                 "the block's threads look at them side by side", 1, {{"semaphores", k_row}});
  calls.measure<Call::waits_met>("pair.wait_met.row.deadline",
                                 "wait for 24 semaphores that are met, with deadline", 1, 0, on,
                                 "the block's threads look at them side by side", 1, {{"semaphores", k_row}});
  for (int const blocks : {1, sms})
    calls.measure<Call::ticket>("pair.ticket", "ticket, with its block barrier", blocks, 0, off,
                                "all blocks draw from one counter");
  of_counters(context, probe);
}

}  // namespace tessera::probe
