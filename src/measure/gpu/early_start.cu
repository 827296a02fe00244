// SPDX-License-Identifier: Apache-2.0
// Facts about the order in which the hardware starts blocks, on which plans rely: does a programmatically
// launched kernel ever start before all blocks of the kernel before have started; do blocks start in the
// order of their index; does an older kernel go first across streams.
#include <algorithm>
#include <memory>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/methods/device_clock.cuh"
#include "measure/gpu/methods/figures.hpp"
#include "tessera/sync/launch.cuh"
#include "tessera/sync/memory.cuh"

namespace tessera::probe {
namespace {

constexpr unsigned k_words_apart = 32;  // a line of memory for each counter

/// A block counts itself before anything else. The answer of the atomic operation is there before the
/// trigger, so the count stands when the block's start is known to anybody. `behind`: only the first kernel
/// of a graph follows nobody.
__global__ void start_producer(unsigned* started, unsigned cycles) {
  if (threadIdx.x == 0) {
    unsigned const before = atomicAdd(started, 1u);
    if (before != 0xffffffffu) pdl_trigger();
  }
  __syncthreads();
  if (threadIdx.x != 0) pdl_trigger();
  if (cycles > 0) spin_cycles(cycles);
}

/// Its first act is to look whether all have started. Counts the blocks of a producer that had not.
__global__ void start_consumer(unsigned const* started, unsigned expected, unsigned long long* early,
                               unsigned long long* checked) {
  if (threadIdx.x == 0) {
    if (load_acquire<Scope::device>(started) != expected) atomicAdd(early, 1ull);
    if (blockIdx.x == 0) atomicAdd(checked, 1ull);
  }
  pdl_wait();
}

struct GridPair {
  char const* what;
  unsigned producer_blocks, producer_threads;
  std::size_t producer_shared;
  unsigned producer_cycles;
  unsigned consumer_blocks, consumer_threads;
  std::size_t consumer_shared;
  double share;  ///< of all launches
};

std::vector<GridPair> grid_pairs(unsigned sms, std::size_t most) {
  return {{"1 block, then 1", 1, 32, 0, 0, 1, 32, 0, 1},
          {"7 blocks, then a full wave", 7, 128, 0, 0, sms, 128, 0, 1},
          {"one block on every SM, then the same", sms, 128, 0, 0, sms, 128, 0, 2},
          {"one block more than SMs, then 1", sms + 1, 1024, 0, 0, 1, 1024, 0, 1},
          {"half of an SM's shared memory, a wave, then the same", 2 * sms, 256, most / 2 - 2048, 500, sms,
           256, most / 2 - 2048, 1},
          {"all of an SM's shared memory, 3 waves, then 1 block", 3 * sms, 256, most, 500, 1, 32, 0, 1},
          {"all of an SM's shared memory, 3 waves and a bit, then a wave", 3 * sms + 5, 128, most, 500, sms,
           32, 0, 1},
          {"half of an SM's shared memory, 4 waves, then 2 waves", 8 * sms, 128, most / 2 - 2048, 300,
           4 * sms, 128, most / 2 - 2048, 1},
          {"a full wave of small blocks, then the same", 16 * sms, 128, 0, 0, 16 * sms, 128, 0, 1},
          {"3 waves of small blocks, then 1 block", 48 * sms, 128, 0, 0, 1, 32, 0, 0.5},
          {"all block slots and some, then a wave", 40 * sms, 32, 0, 0, sms, 1024, 0, 0.5}};
}

/// Rate of consumers' blocks that started too early; 0 is what plans need.
void early_starts(Context const& context, Probe& probe) {
  auto const sms = static_cast<unsigned>(context.device.multiProcessorCount);
  std::size_t const most = context.device.sharedMemPerBlockOptin;
  allow_shared(start_producer, most);
  allow_shared(start_consumer, most);
  int const pairs = context.quick ? 100 : 500;
  double const launches = context.quick ? 1e4 : 1.05e6;
  DeviceBuffer<unsigned> started(static_cast<std::size_t>(pairs) * k_words_apart);
  DeviceBuffer<unsigned long long> early(1), checked(1);
  auto const all = grid_pairs(sms, most);
  double shares = 0, launched_pairs = 0, bad = 0;
  for (auto const& g : all) shares += g.share;
  for (auto const& g : all) {
    early.fill(context.stream, 0);
    checked.fill(context.stream, 0);
    Graph const graph(context.stream, [&] {
      started.fill(context.stream, 0);
      for (int i = 0; i < pairs; ++i) {
        unsigned* const word = started.get() + static_cast<std::size_t>(i) * k_words_apart;
        launch({g.producer_blocks, g.producer_threads, g.producer_shared}, context.stream, start_producer,
               word, g.producer_cycles);
        Shape consumer{g.consumer_blocks, g.consumer_threads, g.consumer_shared};
        consumer.programmatic = true;
        launch(consumer, context.stream, start_consumer, word, g.producer_blocks, early.get(), checked.get());
      }
    });
    int const replays = std::max(1, static_cast<int>(launches * g.share / shares / pairs + 0.99));
    for (int i = 0; i < replays; ++i) graph.replay(context.stream);
    ok(cudaStreamSynchronize(context.stream));
    auto const blocks_early = static_cast<double>(early.download().front());
    auto const seen = static_cast<double>(checked.download().front());
    launched_pairs += seen;
    bad += blocks_early;
    Figure f;
    f.id = "order.pdl_early_start";
    f.what = std::string(
                 "blocks of a programmatically launched kernel that ran before every block of the kernel "
                 "before had started, a launch: ") +
             g.what;
    f.unit = "1";
    f.method = "count";
    f.median = f.p05 = f.p95 = blocks_early / std::max(seen, 1.);
    f.samples = static_cast<int>(seen);
    f.at = {{"blocks", g.producer_blocks},
            {"threads", g.producer_threads},
            {"shared_bytes", static_cast<double>(g.producer_shared)},
            {"consumer_blocks", g.consumer_blocks},
            {"consumer_threads", g.consumer_threads}};
    f.valid = "producers trigger as soon as a block has started";
    f.verified = seen == static_cast<double>(replays) * pairs;
    probe.figures.push_back(std::move(f));
  }
  probe.verdicts.push_back({"order.pdl_early_start",
                            "no block of a programmatically launched kernel runs before every block of the "
                            "kernel before has started",
                            bad == 0 ? "held" : "did not hold",
                            std::to_string(static_cast<long long>(bad)) + " early blocks in " +
                                std::to_string(static_cast<long long>(launched_pairs)) + " launches over " +
                                std::to_string(all.size()) + " pairs of grids"});
}

/// Blocks draw numbers when they start: number n went to block `by_number[n]`, of kernel `kernel[n]`.
__global__ void draw(unsigned* counter, unsigned* by_number, unsigned first, unsigned most,
                     unsigned long long cycles) {
  if (threadIdx.x == 0) {
    unsigned const number = atomicAdd(counter, 1u);
    if (number < most) by_number[number] = first + blockIdx.x;
  }
  spin_cycles(static_cast<long long>(cycles));
}

void block_order(Context const& context, Probe& probe) {
  auto const sms = static_cast<unsigned>(context.device.multiProcessorCount);
  allow_shared(draw, context.device.sharedMemPerBlockOptin);
  struct Case {
    char const* what;
    unsigned blocks;
    std::size_t shared;
  };
  for (auto const& c :
       {Case{"one block fits an SM, 16 waves", 16 * sms, context.device.sharedMemPerBlockOptin},
        Case{"16 blocks fit an SM, 4 waves", 64 * sms, 0}}) {
    DeviceBuffer<unsigned> counter(1), numbers(c.blocks);
    std::vector<double> inversions, displaced;
    for (int round = 0; round < (context.quick ? 3 : 30); ++round) {
      counter.fill(context.stream, 0);
      launch({c.blocks, 128, c.shared}, context.stream, draw, counter.get(), numbers.get(), 0u, c.blocks,
             3000ull);
      auto const order = numbers.download();
      double turned = 0, farthest = 0;
      for (std::size_t i = 0; i < order.size(); ++i) {
        if (i > 0 && order[i] < order[i - 1]) ++turned;
        farthest = std::max(farthest, std::abs(static_cast<double>(order[i]) - static_cast<double>(i)));
      }
      inversions.push_back(turned / static_cast<double>(order.size()));
      displaced.push_back(farthest);
    }
    auto const add = [&](std::string const& id, std::string const& what, std::vector<double> const& samples) {
      auto figure = figure_of(
          {id,
           what + ": " + c.what,
           "1",
           "count",
           {{"blocks", c.blocks}, {"threads", 128}, {"shared_bytes", static_cast<double>(c.shared)}},
           "by the numbers that blocks draw at their start; two that start together may draw either way"},
          samples);
      figure.verified = true;
      probe.figures.push_back(std::move(figure));
    };
    add("order.block_index.turned", "blocks that drew before one of a smaller index that drew next to them",
        inversions);
    add("order.block_index.farthest", "largest distance of a block from its place by index", displaced);
  }
}

/// An older kernel with more blocks than fit, and a younger one on another stream whose blocks would fit
/// beside: how many of them start before the older one's last block?
void stream_order(Context const& context, Probe& probe) {
  auto const sms = static_cast<unsigned>(context.device.multiProcessorCount);
  int least = 0, greatest = 0;
  ok(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  // A third of an SM's shared memory free: room for the younger kernel beside the older one.
  std::size_t const shared = context.device.sharedMemPerBlockOptin * 2 / 3;
  unsigned const older = 4 * sms, younger = sms;
  DeviceBuffer<unsigned> counter(1), numbers(older + younger);
  struct Case {
    char const* id;
    char const* what;
    int priority;
  };
  for (auto const& c :
       {Case{"order.streams",
             "blocks of a younger kernel that start before an older kernel's last, on another "
             "stream",
             0},
        Case{"order.streams.priority", "the same, the younger kernel's stream of the highest priority",
             greatest}}) {
    Stream const first(0), second(c.priority);
    std::vector<double> overtaken;
    for (int round = 0; round < (context.quick ? 20 : 200); ++round) {
      counter.fill(first.get(), 0);
      ok(cudaStreamSynchronize(first.get()));
      launch({older, 128, shared}, first.get(), draw, counter.get(), numbers.get(), 0u, older + younger,
             20'000ull);
      launch({younger, 128, std::size_t{1024}}, second.get(), draw, counter.get(), numbers.get(), older,
             older + younger, 1'000ull);
      ok(cudaStreamSynchronize(first.get()));
      ok(cudaStreamSynchronize(second.get()));
      auto const order = numbers.download();
      std::size_t last_older = 0;
      for (std::size_t i = 0; i < order.size(); ++i)
        if (order[i] < older) last_older = i;
      overtaken.push_back(
          static_cast<double>(std::count_if(order.begin(), order.begin() + static_cast<long>(last_older),
                                            [&](unsigned block) { return block >= older; })));
    }
    double all = 0;
    for (double const one : overtaken) all += one;
    auto figure = figure_of({c.id,
                             c.what,
                             "1",
                             "count",
                             {{"blocks", older}, {"consumer_blocks", younger}, {"all", all}},
                             "the older kernel has four waves, the younger one would fit beside it; launched "
                             "one right after the other"},
                            overtaken);
    figure.verified = true;
    probe.figures.push_back(std::move(figure));
    if (c.priority == 0)
      probe.verdicts.push_back(
          {"order.streams", "blocks of an older kernel start before those of a younger one on another stream",
           all == 0 ? "held" : "did not hold",
           std::to_string(static_cast<long long>(all)) + " blocks overtook in " +
               std::to_string(overtaken.size()) + " launches"});
  }
}

}  // namespace

void measure_early_start(Context const& context, Probe& probe) {
  load(draw);
  if (context.device.major >= 9) early_starts(context, probe);
  block_order(context, probe);
  stream_order(context, probe);
}

}  // namespace tessera::probe
