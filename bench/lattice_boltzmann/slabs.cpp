// SPDX-License-Identifier: Apache-2.0
// bench_lattice_boltzmann_slabs <out.json> <about.json> slabs [<width>x<height>x<depth>...]: steps of flows
// that all GPUs of this machine share in slabs, beside the fastest ways of one of them, by turns in one run.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <tessera/measure/statistics.hpp>
#include <tessera/report/json_text.hpp>

#include "bench/common/program.hpp"
#include "bench/lattice_boltzmann/boxes.hpp"
#include "kernels/lattice_boltzmann/lattice_boltzmann.hpp"
#include "kernels/lattice_boltzmann/slab_flow.hpp"
#include "src/gpu/select.hpp"
#include "src/gpu/stream.hpp"

namespace {

using namespace tessera;
using namespace tessera::lattice_boltzmann;
using bench::check;
using gpu::ok;
using gpu::Select;

/// From a chip's fill down to what two GPUs cannot share with profit, and the box of two GPUs.
constexpr Box k_boxes[] = {{32, 32, 32}, {48, 48, 48},    {48, 36, 132},   {64, 64, 64},
                           {96, 96, 96}, {128, 128, 128}, {256, 256, 256}, {512, 512, 1024}};
constexpr double k_us_per_sample = 3000;
constexpr int k_rounds = 12;
/// A launch for each step is a node of the graph.
constexpr long long k_most_steps_of_launches = 400, k_most_steps_of_one = 2000;

/// A GPU, a stream and a graph of steps.
struct Part {
  int device = 0;
  cudaStream_t stream = nullptr;
  cudaGraphExec_t graph = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
};

struct Way {
  std::string name;
  double predicted_us = 0;
  long long steps = 0;
  std::vector<Part> parts;
  std::function<bool()> finish;
  std::vector<double> samples;  ///< us a step
};

/// Captures what `run()` puts on the parts' streams.
bool capture(Way& way, std::function<Expected<void>()> const& run) {
  for (auto const& part : way.parts)
    ok(cudaStreamBeginCapture(part.stream, cudaStreamCaptureModeThreadLocal));
  bool const captured = fine(run());
  // All end before one is made ready: that is not allowed beside a capture.
  std::vector<cudaGraph_t> graphs(way.parts.size());
  for (std::size_t i = 0; i < graphs.size(); ++i) ok(cudaStreamEndCapture(way.parts[i].stream, &graphs[i]));
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    auto& part = way.parts[i];
    Select const current(part.device);
    if (captured) {
      ok(cudaGraphInstantiate(&part.graph, graphs[i], 0));
      ok(cudaGraphUpload(part.graph, part.stream));
      ok(cudaEventCreate(&part.begin));
      ok(cudaEventCreate(&part.end));
    }
    ok(cudaGraphDestroy(graphs[i]));
  }
  return captured;
}

/// The longest of the parts' times.
double sample_us(Way& way) {
  for (int twice = 0; twice < 2; ++twice)
    for (auto const& part : way.parts) {
      Select const current(part.device);
      if (twice == 1) ok(cudaEventRecord(part.begin, part.stream));
      ok(cudaGraphLaunch(part.graph, part.stream));
      if (twice == 1) ok(cudaEventRecord(part.end, part.stream));
    }
  double longest = 0;
  for (auto const& part : way.parts) {
    Select const current(part.device);
    ok(cudaEventSynchronize(part.end));
    float ms = 0;
    ok(cudaEventElapsedTime(&ms, part.begin, part.end));
    longest = std::max(longest, 1e3 * static_cast<double>(ms));
  }
  return longest / static_cast<double>(way.steps);
}

long long steps_for(double ns, long long most) {
  return std::clamp(static_cast<long long>(k_us_per_sample * 1e3 / ns) / 2 * 2, 2LL, most);
}

bool measure(Box const& box, MachineProfile const& machine, std::shared_ptr<PeerGroup> const& group,
             std::vector<cudaStream_t> const& streams, JsonWriter& json) {
  auto const problem = measured_flow(box);
  std::deque<LatticeBoltzmann> flows;
  std::deque<Way> ways;
  bool all_fine = true;
  for (auto const variant :
       {Variant::two_lattices, Variant::in_place, Variant::barrier, Variant::chip_tokens}) {
    Options options;
    options.variant = variant;
    options.machine = machine;
    auto made = LatticeBoltzmann::make(problem, options);
    if (!made) {
      all_fine = all_fine && made.error().front().code == "E0569";
      continue;
    }
    auto* const flow = &flows.emplace_back(std::move(*made));
    bool const launches = variant == Variant::two_lattices || variant == Variant::in_place;
    auto& way = ways.emplace_back();
    way.name = to_string(variant);
    way.predicted_us = flow->choice().ns_per_step / 1e3;
    way.steps =
        steps_for(flow->choice().ns_per_step, launches ? k_most_steps_of_launches : k_most_steps_of_one);
    way.parts = {{group->device(0), streams[0]}};
    way.finish = [flow] { return fine(flow->finish()); };
    all_fine = capture(way, [&] { return flow->run(streams[0], way.steps); }) && all_fine;
  }
  auto slabs = SlabFlow::make(group, problem);
  if (!slabs) {
    std::printf("  %s\n", to_text(slabs.error()).c_str());
    return false;
  }
  auto& shared = ways.emplace_back();
  double const ns = slabs_ns(problem, group->size(), machine);
  shared.name = "slabs";
  shared.predicted_us = ns / 1e3;
  shared.steps = steps_for(ns, k_most_steps_of_launches);
  for (int rank = 0; rank < group->size(); ++rank)
    shared.parts.push_back({group->device(rank), streams[static_cast<std::size_t>(rank)]});
  shared.finish = [&] { return fine(slabs->finish()); };
  all_fine = capture(shared, [&] { return slabs->run(streams, shared.steps); }) && all_fine;
  if (!all_fine) return false;

  std::mt19937 random(1);
  std::vector<Way*> order;
  for (auto& way : ways) order.push_back(&way);
  for (int round = 0; round <= k_rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (auto* const way : order) {
      double const us = sample_us(*way);
      if (round > 0) way->samples.push_back(us);
    }
  }
  for (auto& way : ways) all_fine = way.finish() && all_fine;

  double best_of_one = 0;
  json.begin_object().key("box").begin_array();
  json.value(box.width).value(box.height).value(box.depth).end_array();
  json.member("gpus", group->size()).key("ways").begin_array();
  std::printf("%s\n", to_string(problem).c_str());
  for (auto& way : ways) {
    double const us = median(way.samples), low = quantile(way.samples, 0.1),
                 high = quantile(way.samples, 0.9);
    bool const is_shared = &way == &shared;
    if (!is_shared) best_of_one = best_of_one == 0 ? us : std::min(best_of_one, us);
    std::printf(
        "  %-18s %10.3f us a step (%.3f...%.3f)  %8.0f MLUPS  predicted %.3f  %lld steps%s\n",
        way.name.c_str(), us, low, high, mlups(problem, us), way.predicted_us, way.steps,
        is_shared ? (", " + std::to_string(best_of_one / us) + " times one GPU's fastest").c_str() : "");
    json.begin_object().member("way", way.name).member("us", bench::with_digits(us, 4));
    json.member("us_p10", bench::with_digits(low, 4)).member("us_p90", bench::with_digits(high, 4));
    json.member("steps", way.steps).member("mlups", bench::with_digits(mlups(problem, us), 4));
    json.member("predicted_us", bench::with_digits(way.predicted_us, 4));
    if (is_shared) json.member("over_one_gpu", bench::with_digits(best_of_one / us, 4));
    json.end_object();
    for (auto const& part : way.parts) {
      Select const current(part.device);
      cudaGraphExecDestroy(part.graph);
      cudaEventDestroy(part.begin);
      cudaEventDestroy(part.end);
    }
  }
  json.end_array().end_object();
  std::fflush(stdout);
  return all_fine;
}

int run(int count, char** arguments) {
  int gpus = 0;
  ok(cudaGetDeviceCount(&gpus));
  std::vector<int> devices;
  for (int device = 0; device < std::min(gpus, k_most_ranks); ++device) devices.push_back(device);
  auto const group = PeerGroup::make(devices);
  auto const profile = profile_here();
  auto const boxes = boxes_of(count, arguments, 4, {std::begin(k_boxes), std::end(k_boxes)});
  if (!boxes) return 2;
  if (!group || !profile) {
    std::fprintf(stderr, "%s\n", to_text(group ? profile.error() : group.error()).c_str());
    return 1;
  }
  std::deque<gpu::Stream> owned;
  std::vector<cudaStream_t> streams;
  for (int const device : devices) {
    Select const current(device);
    streams.push_back(owned.emplace_back().get());
  }
  JsonWriter json;
  json.begin_object().key("about").raw(bench::about(arguments[2]));
  json.member(
      "unit",
      "microseconds a step, graphs of many steps on each GPU, medians, the longest of the GPUs; MLUPS: "
      "1e6 cells a second; over_one_gpu: the fastest way of one GPU over this");
  json.member("samples", k_rounds).key("boxes").begin_array();
  bool all_fine = true;
  for (auto const& box : *boxes) {
    all_fine = measure(box, *profile, *group, streams, json) && all_fine;
    auto whole = json;
    if (!bench::write_file(arguments[1], whole.end_array().end_object().text() + '\n')) return 1;
  }
  return all_fine ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4 || std::string(arguments[3]) != "slabs") {
    std::fprintf(stderr, "usage: %s <out.json> <about.json> slabs [<width>x<height>x<depth>...]\n",
                 arguments[0]);
    return 2;
  }
  if (auto const why = gpu::why_no_hopper(); !why.empty()) {
    std::fputs(gpu::refusal_text(why).c_str(), stderr);
    return 3;
  }
  try {
    return run(count, arguments);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
