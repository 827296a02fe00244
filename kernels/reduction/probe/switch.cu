// SPDX-License-Identifier: Apache-2.0
// From which size on do more threads pay, though they must wait for each other? Predicted by Little's law
// from each level's latency and throughput (Zhang et al., Eq. 1 to 5), then looked for.
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/reduction/kernels.cuh"
#include "kernels/reduction/probe/experiments.hpp"
#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/on_chip_sum.cuh"
#include "measure/gpu/methods/on_chip_ways.cuh"
#include "tessera/measure/switch_point.hpp"

namespace tessera::probe {
namespace {

namespace red = tessera::reduction;

/// A level's times by input size: with and without putting together what its threads have.
struct Curve {
  std::vector<double> bytes, alone, together;
  bool right = true;
};

std::vector<double> sizes_between(double first, double last, int steps_per_doubling) {
  std::vector<double> all;
  for (int i = 0;; ++i) {
    double const size = first * std::pow(2.0, static_cast<double>(i) / steps_per_doubling);
    if (size > last * 1.001) return all;
    double const whole = std::round(size / 8) * 8;
    if (all.empty() || whole > all.back()) all.push_back(whole);
  }
}

struct Comparison {
  std::string name;  ///< "thread_to_warp"
  std::string few, many;
  std::string unit;       ///< of the times
  double bytes_per_unit;  ///< what a throughput is printed in
  std::string throughput_unit;
  std::string valid;
};

/// From the smallest size, where there is nothing else to do.
double sync_of(Curve const& curve) { return curve.together.front() - curve.alone.front(); }

/// What stays of a curve's times when the bytes go to zero: what every input pays (the loop's start, a
/// launch).
double fixed_part(std::vector<double> const& bytes, std::vector<double> const& times, Level const& level) {
  return level.throughput > 0 ? times.back() - bytes.back() / level.throughput : 0;
}

/// Eq. 4 and 5 know latency and throughput, and no fixed part: it is taken off, and so is what the few pay
/// themselves for putting together what they have.
void compare(Probe& probe, Comparison const& c, Curve const& few, Curve const& many,
             std::vector<double> const& measured_few, std::vector<double> const& measured_many,
             std::vector<double> const& measured_bytes) {
  double const sync = sync_of(many) - sync_of(few);
  Level level_few = fit_level(few.bytes, few.alone), level_many = fit_level(many.bytes, many.alone);
  double const fixed = fixed_part(few.bytes, few.alone, level_few);
  level_few.latency = std::max(0.0, level_few.latency - fixed);
  level_many.latency = std::max(0.0, level_many.latency - fixed);
  auto const predicted = switch_point(level_few, level_many, sync);
  double const measured = crossing(measured_bytes, measured_few, measured_many);
  auto const add = [&](std::string const& id, std::string const& what, std::string const& unit,
                       double value) {
    Figure f;
    f.id = "switch." + c.name + "." + id;
    f.what = what;
    f.unit = unit;
    f.method = "slope";
    f.median = f.p05 = f.p95 = value;
    f.samples = static_cast<int>(measured_bytes.size());
    f.valid = c.valid;
    f.verified = few.right && many.right;
    probe.figures.push_back(f);
  };
  add("fixed", "what every input pays and the model does not know, " + c.few, c.unit, fixed);
  add("few.latency", "time of the smallest input beyond the fixed part, " + c.few, c.unit, level_few.latency);
  add("few.throughput", "bytes added up in a unit of time, " + c.few, c.throughput_unit,
      level_few.throughput * c.bytes_per_unit);
  add("many.latency", "time of the smallest input beyond the fixed part, " + c.many, c.unit,
      level_many.latency);
  add("many.throughput", "bytes added up in a unit of time, " + c.many, c.throughput_unit,
      level_many.throughput * c.bytes_per_unit);
  add("sync", "what putting it together costs more, " + c.many, c.unit, sync);
  add("predicted", "input size from which " + c.many + " is faster than " + c.few, "byte", predicted.bytes);
  add("measured", "the same, where the measured curves cross", "byte", measured);
  add("error", "(predicted - measured) / measured", "1", (predicted.bytes - measured) / measured);
}

/// One SM, cycles.
template <int Threads>
Curve on_chip_curve(Context const& context, DeviceBuffer<double> const& data, std::vector<double> const& host,
                    std::vector<double> const& sizes, bool alone) {
  Curve curve;
  curve.bytes = sizes;
  int const samples = context.quick ? 3 : 7;
  for (double const bytes : sizes) {
    int const elements = static_cast<int>(bytes / 8);
    int const many = bytes > 8192 ? 96 : 288;
    if (alone)
      curve.alone.push_back(
          on_chip_cycles<OwnShares<Threads>>(context, data, host, elements, Threads, 32, many, samples)
              .cycles.median);
    if constexpr (Threads == 1) {
      curve.together = curve.alone;
    } else {
      auto const cost =
          on_chip_cycles<SharedOut<Threads>>(context, data, host, elements, Threads, 32, many, samples);
      curve.together.push_back(cost.cycles.median);
      curve.right = curve.right && cost.right;
    }
  }
  return curve;
}

void measure_in_sm(Context const& context, Probe& probe) {
  std::vector<double> host(24 * 1024);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<double>(i * 7 % 1000);
  DeviceBuffer<double> data(host.size());
  data.upload(host);
  int const fine = context.quick ? 2 : 4;
  std::string const valid = "doubles in shared memory of one SM, one block";
  {
    auto const sizes = sizes_between(8, 4096, fine);
    auto const few = on_chip_curve<1>(context, data, host, sizes, true);
    auto const many = on_chip_curve<32>(context, data, host, sizes_between(256, 65536, fine / 2), true);
    auto const at = on_chip_curve<32>(context, data, host, sizes, false);
    compare(probe, {"thread_to_warp", "one thread", "a warp", "cycle", 1, "byte/cycle", valid}, few, many,
            few.together, at.together, sizes);
  }
  {
    auto const sizes = sizes_between(256, 65536, fine);
    auto const few = on_chip_curve<32>(context, data, host, sizes, true);
    auto const many =
        on_chip_curve<1024>(context, data, host, sizes_between(8192, 24 * 8192, fine / 2), true);
    auto const at = on_chip_curve<1024>(context, data, host, sizes, false);
    compare(probe, {"warp_to_block", "a warp", "a block of 1024 threads", "cycle", 1, "byte/cycle", valid},
            few, many, few.together, at.together, sizes);
  }
}

/// A launch on floats in the L2, ns, replayed in a graph: of one block, or of a block on every SM.
std::vector<double> launch_curve(Context const& context, DeviceBuffer<float> const& x, float* out,
                                 red::Workspace* workspace, std::vector<double> const& sizes, unsigned blocks,
                                 void (*kernel)(red::Arguments)) {
  constexpr int calls = 20;
  load(kernel);
  EventTimer timer;
  std::vector<double> times;
  for (double const bytes : sizes) {
    red::Arguments const arguments{red::Cut(x.get(), static_cast<std::size_t>(bytes / 4), 4),
                                   out,
                                   workspace,
                                   {&workspace->stall, 1'000'000'000}};
    Shape shape;
    shape.blocks = blocks;
    shape.threads = 1024;
    Graph const graph(context.stream, [&] {
      for (int i = 0; i < calls; ++i) launch(shape, context.stream, kernel, arguments);
    });
    std::vector<double> samples;
    for (int i = -1; i < (context.quick ? 5 : 15); ++i) {
      graph.replay(context.stream);
      double const ns = graph.ns(context.stream, timer) / calls;
      if (i >= 0) samples.push_back(ns);
    }
    times.push_back(summarize(samples).median);
  }
  return times;
}

__global__ void fill_ones(float* x, std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t(blockDim.x) + threadIdx.x; i < count;
       i += std::size_t(gridDim.x) * blockDim.x)
    x[i] = 1;
}

void measure_in_gpu(Context const& context, Probe& probe) {
  using red::Loads;
  using red::Variant;
  auto const sms = static_cast<unsigned>(context.device.multiProcessorCount);
  std::size_t const most = std::size_t{1} << 24;
  DeviceBuffer<float> x(most / 4), out(1);
  DeviceBuffer<red::Workspace> workspace(1);
  fill_ones<<<256, 256, 0, context.stream>>>(x.get(), most / 4);
  launched();
  auto const curve = [&](std::vector<double> const& sizes, unsigned blocks, void (*kernel)(red::Arguments)) {
    return launch_curve(context, x, out.get(), workspace.get(), sizes, blocks, kernel);
  };
  auto* const one_block = red::sum_kernel<float, Variant::one_block, Loads::vector, 1024, 4>;
  auto* const alone = red::sum_kernel<float, Variant::two_launches, Loads::vector, 1024, 4>;
  auto* const token = red::sum_kernel<float, Variant::data_token, Loads::vector, 1024, 4>;
  int const fine = context.quick ? 1 : 2;
  Curve few, many;
  few.bytes = sizes_between(2048, 1 << 20, fine);
  few.alone = few.together = curve(few.bytes, 1, one_block);
  few.right = out.download().front() == static_cast<float>(few.bytes.back() / 4);
  // Up to where the L2 holds it all, so that the throughput is the L2's.
  many.bytes = sizes_between(1 << 18, static_cast<double>(most), fine);
  many.alone = curve(many.bytes, sms, alone);
  many.together = curve(many.bytes, sms, token);
  many.right = out.download().front() == static_cast<float>(many.bytes.back() / 4);
  auto const at = curve(few.bytes, sms, token);
  compare(probe,
          {"block_to_gpu", "a block of 1024 threads", "a block on every SM", "ns", 1, "1e9 byte/s",
           "floats in the L2, a launch each, in a graph; sums taken by the last block as data tokens"},
          few, many, few.together, at, few.bytes);
}

}  // namespace

void measure_switch(Context const& context, Probe& probe) {
  measure_in_sm(context, probe);
  measure_in_gpu(context, probe);
}

}  // namespace tessera::probe
