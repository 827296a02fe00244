// SPDX-License-Identifier: Apache-2.0
// The tau model: iterations of M units of work and K synchronizations, by every mechanism, fitted and held
// against samples that the fit has not seen. And what jitter does to barriers and to neighbours.
#include <algorithm>
#include <array>
#include <functional>
#include <memory>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/methods/device_clock.cuh"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/segments.cuh"
#include "tessera/sync/launch.cuh"

namespace tessera::probe {
namespace {

constexpr unsigned k_threads = k_segment_threads;
/// Multiply-adds of a unit of work, each of which waits for the one before.
constexpr int k_unit = 32;

__device__ inline float work(float value, int units) {
#pragma unroll 1
  for (int i = 0; i < units; ++i) {
#pragma unroll
    for (int j = 0; j < k_unit; ++j) value = fmaf(value, 0.999f, 0.001f);
  }
  return value;
}

/// All iterations in one launch. `jitter`: up to so many units more for each block in each segment.
template <class Sync>
__global__ void __launch_bounds__(k_threads)
    persistent(SegmentMemory memory, int iterations, int segments, int units, int jitter) {
  Sync sync(memory);
  float value = static_cast<float>(threadIdx.x);
  unsigned round = 0;
  bool ok = true;
  for (int i = 0; i < iterations && ok; ++i)
    for (int s = 0; s < segments && ok; ++s, ++round) {
      int extra = 0;
      if (jitter > 0)
        extra = static_cast<int>(((round * 2654435761u + blockIdx.x * 2246822519u) >> 8) % (jitter + 1));
      value = work(value, units + extra);
      ok = sync(round);
    }
  if (value == -1.0f || !ok) *memory.sink = value;
}

/// One segment in one launch.
template <bool Programmatic>
__global__ void __launch_bounds__(k_threads) step(SegmentMemory memory, int units) {
  if constexpr (Programmatic) {
    pdl_trigger();
    pdl_wait();
  }
  float const value = work(static_cast<float>(threadIdx.x), units);
  if (value == -1.0f) *memory.sink = value;
}

/// Time of a run in ns: iterations, synchronizations in each, units before each.
using Run = std::function<double(int iterations, int syncs, int units)>;

class Harness {
 public:
  explicit Harness(Context const& context)
      : context_(context),
        blocks_(static_cast<unsigned>(context.device.multiProcessorCount)),
        words_(std::max(grid_barrier_words(blocks_), epoch_barrier_words(blocks_))),
        tokens_(std::size_t{2} * blocks_ * 16),
        data_(std::size_t{2} * blocks_ * k_threads),
        stall_(1),
        wrong_(1),
        sink_(1) {}

  /// One launch; by events. Zeroes the memory before.
  template <template <class> class Sync>
  Run launched_once(unsigned cluster = 1) {
    Shape shape{blocks_ / cluster * cluster, k_threads, 0, cluster};
    shape.cooperative = true;
    zero();
    launch(shape, context_.stream, persistent<Sync<DeadlineWatch<>>>, memory(), 10, 2, 1, 0);
    if (stall_.download()[0].state != 0) throw std::runtime_error("a wait met its deadline");
    return [this, shape](int iterations, int syncs, int units) {
      return once<Sync<NoWatch>>(shape, iterations, syncs, units, 0);
    };
  }
  template <class Sync>
  double once(Shape const& shape, int iterations, int syncs, int units, int jitter) {
    zero();
    return timer_.ns(context_.stream, [&] {
      launch(shape, context_.stream, persistent<Sync>, memory(), iterations, syncs, units, jitter);
    });
  }

  template <bool Programmatic>
  void submit(int launches, int units) {
    Shape shape{blocks_, k_threads};
    shape.programmatic = Programmatic;
    for (int i = 0; i < launches; ++i) launch(shape, context_.stream, step<Programmatic>, memory(), units);
  }
  template <bool Programmatic>
  Run stream_of_launches() {
    return [this](int iterations, int syncs, int units) {
      return timer_.ns(context_.stream, [&] { submit<Programmatic>(iterations * syncs, units); });
    };
  }
  template <bool Programmatic>
  Run graph_of_launches() {
    return [this](int iterations, int syncs, int units) {
      // Captured again only when something else is asked for.
      std::array<int, 3> const asked{iterations * syncs, units, Programmatic ? 1 : 0};
      if (!graph_ || asked != captured_) {
        graph_.reset();
        graph_ = std::make_unique<Graph>(context_.stream, [&] { submit<Programmatic>(asked[0], units); });
        captured_ = asked;
      }
      return graph_->ns(context_.stream, timer_);
    };
  }

  /// Every combination, then the median of several runs of each. A quarter is kept back.
  TauModel fit(std::string const& mechanism, Run const& run, std::vector<int> const& iterations) {
    TauModel model;
    model.mechanism = mechanism;
    int number = 0;
    for (int const n : iterations)
      for (int const syncs : {1, 2, 4})
        for (int const units : {1, 2, 4, 8, 16, 32}) {
          std::vector<double> times;
          for (int i = -1; i < (context_.quick ? 2 : 5); ++i) {
            double const ns = run(n, syncs, units);
            if (i >= 0) times.push_back(ns);
          }
          TauSample const sample{static_cast<double>(n), static_cast<double>(syncs * units),
                                 static_cast<double>(syncs), summarize(times).median};
          (++number % 4 == 2 ? model.kept_back : model.samples).push_back(sample);
        }
    model.fit = fit_tau(model.samples);
    model.hold_out = hold_out_error(model.fit, model.kept_back);
    return model;
  }

  unsigned blocks() const { return blocks_; }
  bool right() const { return wrong_.download()[0] == 0; }

 private:
  SegmentMemory memory() {
    return {words_.get(), tokens_.get(), data_.get(), stall_.get(), wrong_.get(), sink_.get()};
  }
  void zero() {
    words_.fill(context_.stream, 0);
    tokens_.fill(context_.stream, 0);
    data_.fill(context_.stream, 0);
  }

  Context const& context_;
  unsigned blocks_;
  DeviceBuffer<unsigned> words_;
  DeviceBuffer<Packet<1>> tokens_;
  DeviceBuffer<uint4> data_;
  DeviceBuffer<StallRecord> stall_;
  DeviceBuffer<unsigned> wrong_;
  DeviceBuffer<float> sink_;
  EventTimer timer_;
  std::unique_ptr<Graph> graph_;
  std::array<int, 3> captured_{};
};

}  // namespace

void measure_tau(Context const& context, Probe& probe) {
  Harness harness(context);
  std::map<std::string, double> const at{{"blocks", harness.blocks()}, {"threads", k_threads}};
  double cooperative = 0;
  auto const add = [&](std::string const& id, std::string const& mechanism, Run const& run,
                       std::vector<int> counts, std::string const& valid, bool inside = false,
                       bool data = false) {
    if (context.quick) counts = {counts.back() / 2};
    auto const model = harness.fit(mechanism, run, counts);
    probe.tau.push_back(model);
    auto const holds = law_holds(model.fit) ? valid : valid + "; the law does not hold: residuals over 5 %";
    auto figure = figure_of(
        {"tau." + id, "lambda of the tau model: a synchronization by " + mechanism, "ns", "slope", at, holds},
        Cost{model.fit.sync_ns, model.fit.sync_error, model.fit.sync_ns - 2 * model.fit.sync_error,
             model.fit.sync_ns + 2 * model.fit.sync_error, model.fit.samples});
    figure.verified = data && harness.right();
    probe.figures.push_back(figure);
    auto unit = figure;
    unit.id += ".work";
    unit.what = "tau of the tau model: a unit of work of " + std::to_string(k_unit) +
                " dependent multiply-adds, by " + mechanism;
    unit.median = model.fit.work_ns;
    unit.deviation = model.fit.work_error;
    unit.p05 = model.fit.work_ns - 2 * model.fit.work_error;
    unit.p95 = model.fit.work_ns + 2 * model.fit.work_error;
    probe.figures.push_back(unit);
    if (id == "cooperative" || id == "cooperative.data")
      cooperative = model.fit.sync_ns;
    else if (inside && id != "cluster") {
      auto ratio = figure;
      ratio.id += ".gain";
      ratio.what = "how much less a synchronization by " + mechanism + " takes than by cooperative groups";
      ratio.unit = "1";
      ratio.median = cooperative / model.fit.sync_ns;
      ratio.deviation = ratio.median * model.fit.sync_error / model.fit.sync_ns;
      ratio.p05 = cooperative / figure.p95;
      ratio.p95 = cooperative / figure.p05;
      probe.figures.push_back(ratio);
    }
  };
  std::string const equal = "equal work in all blocks";
  std::vector<int> const many{50, 100, 200}, few{10, 20, 40};
  add("cooperative", "cooperative groups' barrier", harness.launched_once<CooperativeSync>(), many, equal,
      true);
  add("grid", "grid barrier", harness.launched_once<GridSync>(), many, equal, true);
  add("pairwise", "pairwise semaphores", harness.launched_once<PairwiseSync>(), many,
      equal + "; each block waits for two neighbours", true);
  add("tokens", "pairwise tokens", harness.launched_once<TokenSync>(), many,
      equal + "; each block takes 4 bytes from two neighbours, and nothing else is ordered", true);
  add("cluster", "cluster barrier", harness.launched_once<ClusterSync>(8), many, equal + "; clusters of 8",
      true);
  std::string const handed = equal +
                             "; each thread hands 16 bytes to the same thread of two neighbours: storing and "
                             "loading them is in it";
  add("cooperative.data", "cooperative groups' barrier, with data",
      harness.launched_once<WithData<CooperativeSync>::Type>(), many, handed, true, true);
  add("grid.data", "grid barrier, with data", harness.launched_once<WithData<GridSync>::Type>(), many, handed,
      true, true);
  add("pairwise.data", "pairwise semaphores, with data",
      harness.launched_once<WithData<PairwiseSync>::Type>(), many, handed, true, true);
  add("tokens.data", "pairwise tokens, with data", harness.launched_once<TokensWithData>(), many,
      handed + "; 12 of the 16 are payload", true, true);
  add("kernel", "kernel per step", harness.stream_of_launches<false>(), few, equal + "; the host submits");
  add("graph", "kernel per step in a graph", harness.graph_of_launches<false>(), few, equal);
  add("pdl", "programmatic launch per step", harness.stream_of_launches<true>(), few,
      equal + "; the host submits");
  add("pdl_graph", "programmatic launch per step in a graph", harness.graph_of_launches<true>(), few, equal);

  // Jitter: every block gets anything from nothing to so many units more, each time.
  Shape shape{harness.blocks(), k_threads};
  shape.cooperative = true;
  for (int const jitter : {0, 4, 16}) {
    auto const one = [&](std::string const& id, std::string const& what, auto run) {
      std::vector<double> ns;
      for (int i = -1; i < (context.quick ? 3 : 9); ++i) {
        double const time = run(200, jitter) / 200;
        if (i >= 0) ns.push_back(time);
      }
      auto conditions = at;
      conditions["jitter_units"] = jitter;
      probe.figures.push_back(
          figure_of({"tau.jitter." + id, "an iteration of 8 units and " + what, "ns", "slope", conditions,
                     "each block up to so many units more, another number each time"},
                    ns));
    };
    one("cooperative", "cooperative groups' barrier",
        [&](int n, int j) { return harness.once<CooperativeSync<NoWatch>>(shape, n, 1, 8, j); });
    one("grid", "the grid barrier",
        [&](int n, int j) { return harness.once<GridSync<NoWatch>>(shape, n, 1, 8, j); });
    one("pairwise", "semaphores of two neighbours",
        [&](int n, int j) { return harness.once<PairwiseSync<NoWatch>>(shape, n, 1, 8, j); });
    one("tokens", "tokens of two neighbours",
        [&](int n, int j) { return harness.once<TokenSync<NoWatch>>(shape, n, 1, 8, j); });
  }
}

}  // namespace tessera::probe
