// SPDX-License-Identifier: Apache-2.0
// What a launch costs in a stream that is full: kernel fusion (Eq. 6) over the length of the kernels, the
// slope over the nodes of a graph, and the whole of a launch of nothing.
#include <array>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/methods/device_clock.cuh"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/fusion.hpp"
#include "measure/gpu/methods/repeat.hpp"
#include "tessera/sync/launch.cuh"

namespace tessera::probe {
namespace {

/// Where a kernel lets the next one start: before its own wait for the one before; after it; in the middle of
/// its work; at its end; nowhere.
enum class Trigger { first, early, middle, late, absent };

/// For checks, not while the time counts: every block writes `next` and looks whether its neighbour in the
/// kernel before wrote `next - 1`. Two kernels use different halves of `words`.
struct Check {
  unsigned* words = nullptr;
  unsigned* wrong = nullptr;
  unsigned next = 0;

  __device__ void read() const {
    if (words == nullptr || threadIdx.x != 0 || next == 1) return;
    auto const other = (blockIdx.x + gridDim.x / 2 + 1) % gridDim.x;
    if (__ldcg(words + (next + 1) % 2 * gridDim.x + other) != next - 1) atomicAdd(wrong, 1u);
  }
  __device__ void write() const {
    if (words != nullptr && threadIdx.x == 0) words[next % 2 * gridDim.x + blockIdx.x] = next;
  }
};

/// Works for a time, not for a number of cycles: the clock drifts by some 0.1 %, which at 33 x 40 us is more
/// than a launch's spread.
__global__ void work(Trigger trigger, bool waits, unsigned long long ns, Check check) {
  if (trigger == Trigger::first) pdl_trigger();
  if (waits) pdl_wait();
  check.read();
  if (trigger == Trigger::early) pdl_trigger();
  auto const begin = ns > 0 ? global_ns() : 0;
  if (ns > 0) spin_until_ns(begin + ns / 2);
  if (trigger == Trigger::middle) pdl_trigger();
  if (ns > 0) spin_until_ns(begin + ns);
  check.write();
  if (trigger == Trigger::late) pdl_trigger();
}

struct Way {
  char const* name;
  char const* what;
  bool cooperative = false;
  bool programmatic = false;
  bool two_streams = false;
  Trigger trigger = Trigger::absent;
};
constexpr std::array<Way, 8> k_ways{{
    {"ordinary", "launch in stream order"},
    {"cooperative", "cooperative launch", true},
    {"pdl.first", "programmatic launch, trigger at the kernel's first instruction", false, true, false,
     Trigger::first},
    {"pdl.early", "programmatic launch, trigger as soon as the kernel before is complete", false, true, false,
     Trigger::early},
    {"pdl.middle", "programmatic launch, trigger in the middle of the work", false, true, false,
     Trigger::middle},
    {"pdl.late", "programmatic launch, trigger at the end of the work", false, true, false, Trigger::late},
    {"pdl.absent", "programmatic launch, no trigger", false, true, false, Trigger::absent},
    {"event", "launches on two streams by turns, with an event between", false, false, true},
}};

class Launcher {
 public:
  Launcher(cudaStream_t stream, unsigned blocks, unsigned threads)
      : stream_(stream), blocks_(blocks), threads_(threads) {
    load(work);
  }

  /// So many kernels of so many ns, the first in stream order.
  void operator()(Way const& way, int launches, unsigned long long ns, Check check = {}) const {
    Shape shape{blocks_, threads_};
    shape.cooperative = way.cooperative;
    cudaStream_t at = stream_;
    for (int i = 0; i < launches; ++i) {
      shape.programmatic = way.programmatic && i > 0;
      ++check.next;
      launch(shape, at, work, way.trigger, shape.programmatic, ns, check);
      if (!way.two_streams || i + 1 == launches) continue;
      cudaStream_t const next = at == stream_ ? second_.get() : stream_;
      edge_.put(at, next);
      at = next;
    }
    if (at != stream_) edge_.put(at, stream_);
  }

  /// Does every kernel see all that the one before wrote?
  bool in_order(Way const& way) const {
    DeviceBuffer<unsigned> words(2 * blocks_), wrong(1);
    for (int round = 0; round < 10; ++round) {
      words.fill(stream_, 0);
      (*this)(way, 33, round % 2 == 0 ? 0 : 2000, Check{words.get(), wrong.get()});
    }
    return wrong.download().front() == 0;
  }

 private:
  cudaStream_t stream_;
  unsigned blocks_, threads_;
  Stream second_;
  Edge edge_;
};

constexpr unsigned k_threads = 128;

void by_fusion(Context const& context, Probe& probe, Launcher const& launcher) {
  constexpr int k_launches = 33;
  for (auto const& way : k_ways) {
    bool const right = launcher.in_order(way);
    for (double const us : {1., 2., 5., 10., 20., 40.}) {
      if (context.quick && us != 5. && us != 20.) continue;
      auto const unit = static_cast<unsigned long long>(us * 1e3);
      auto const cost = kernel_fusion_of(
          context.stream, k_launches, 1, context.quick ? 8 : 32, [&](int launches, int units) {
            launcher(way, launches, unit * static_cast<unsigned long long>(units));
          });
      auto figure = figure_of(
          {std::string("kernel.launch.") + way.name,
           std::string("one more launch: ") + way.what,
           "ns",
           "kernel fusion",
           {{"unit_ns", us * 1e3}, {"blocks", context.device.multiProcessorCount}, {"threads", k_threads}},
           "on the plateau, where longer kernels change nothing; shorter ones measure "
           "how fast the host launches"},
          cost);
      figure.verified = right;
      probe.figures.push_back(figure);
      if (us == 20. && std::string(way.name) == "ordinary") {
        figure.id = "kernel.launch";
        figure.what += ", on the plateau";
        probe.figures.push_back(std::move(figure));
      }
    }
  }
}

void by_nodes(Context const& context, Probe& probe, Launcher const& launcher) {
  int const samples = context.quick ? 5 : 31;
  Way const programmatic = k_ways[2];
  struct Chain {
    char const* name;
    char const* what;
    Way way;
  };
  for (auto const& chain :
       {Chain{"kernel.graph_node.full", "one more empty kernel in a graph's chain, full edges", k_ways[0]},
        Chain{"kernel.graph_node.programmatic",
              "one more empty kernel in a graph's chain, programmatic edges, trigger first", programmatic}}) {
    EventTimer timer;
    std::vector<double> nodes, medians;
    std::vector<double> few, many;
    for (int const n : {10, 30, 100, 300, 1000}) {
      Graph const graph(context.stream, [&] { launcher(chain.way, n, 0); });
      std::vector<double> ns;
      for (int i = -2; i < samples; ++i)
        if (double const one = graph.ns(context.stream, timer); i >= 0) ns.push_back(one);
      nodes.push_back(n);
      medians.push_back(summarize(ns).median);
      if (n == 100) few = ns;
      if (n == 1000) many = ns;
    }
    auto const line = fit_line(nodes, medians);
    auto figure =
        figure_of({chain.name,
                   chain.what,
                   "ns",
                   "slope",
                   {{"blocks", context.device.multiProcessorCount}, {"threads", k_threads}, {"r2", line.r2}},
                   "between 100 and 1,000 nodes; r2 of a line through chains of 10 to 1,000"},
                  repeat_difference(many, 1000, few, 100));
    figure.verified = launcher.in_order(chain.way);
    probe.figures.push_back(std::move(figure));
  }
}

void of_nothing(Context const& context, Probe& probe, Launcher const& launcher) {
  int const samples = context.quick ? 50 : 500;
  Graph const graph(context.stream, [&] { launcher(k_ways[0], 1, 0); });
  auto const add = [&](std::string const& id, std::string const& what, auto submit) {
    std::vector<double> ns;
    for (int i = -10; i < samples; ++i)
      if (double const one = host_ns(context.stream, submit); i >= 0) ns.push_back(one);
    probe.figures.push_back(
        figure_of({"kernel.null." + id,
                   "from the host's call until the host knows that the empty kernel is complete: " + what,
                   "ns",
                   "stamps",
                   {{"blocks", 1}},
                   "idle GPU; stamps of the host, which spins on the stream"},
                  std::move(ns)));
  };
  Launcher const one(context.stream, 1, 32);
  add("ordinary", "ordinary launch", [&] { one(k_ways[0], 1, 0); });
  add("cooperative", "cooperative launch", [&] { one(k_ways[1], 1, 0); });
  add("graph", "graph of one node, a block on every SM", [&] { graph.replay(context.stream); });
}

}  // namespace

void measure_launch(Context const& context, Probe& probe) {
  Launcher const launcher(context.stream, static_cast<unsigned>(context.device.multiProcessorCount),
                          k_threads);
  by_fusion(context, probe, launcher);
  by_nodes(context, probe, launcher);
  of_nothing(context, probe, launcher);
}

}  // namespace tessera::probe
