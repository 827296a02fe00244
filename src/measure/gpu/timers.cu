// SPDX-License-Identifier: Apache-2.0
// How good the clocks are: the global timer's step, what it differs by between SMs, the SM's clock, events,
// the host.
#include <algorithm>
#include <cmath>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/chain.cuh"
#include "measure/gpu/methods/deadline.cuh"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/sm_clock.hpp"

namespace tessera::probe {
namespace {

constexpr int k_steps = 256;
constexpr unsigned long long k_second = 1'000'000'000;

__global__ void timer_steps(double* steps) {
  auto before = global_ns();
  for (int i = -8; i < k_steps; ++i) {
    auto now = global_ns();
    while (now == before) now = global_ns();
    if (i >= 0) steps[i] = static_cast<double>(now - before);
    before = now;
  }
}

/// Block 0 and each other block in turn exchange the time, `rounds` times: the offset by the fastest exchange
/// of a pair, as network clocks are compared. Words: what block 0 asks for, what the other answers.
__global__ void timer_offsets(int rounds, unsigned volatile* ask, unsigned long long volatile* answer,
                              double* offset, double* round_trip) {
  int const blocks = static_cast<int>(gridDim.x);
  if (blockIdx.x == 0) {
    for (int other = 1; other < blocks; ++other) {
      double best = 1e18, at = 0;
      for (int r = 1; r <= rounds; ++r) {
        answer[other] = 0;
        __threadfence();
        auto const sent = global_ns();
        ask[other] = static_cast<unsigned>(r);
        unsigned long long theirs = 0;
        if (!wait_until([&] { return (theirs = answer[other]) != 0; }, k_second)) return;
        auto const back = global_ns();
        double const trip = static_cast<double>(back - sent);
        if (trip < best) {
          best = trip;
          at = static_cast<double>(theirs) - (static_cast<double>(sent) + trip / 2);
        }
      }
      offset[other] = at;
      round_trip[other] = best;
    }
  } else {
    for (int r = 1; r <= rounds; ++r) {
      auto const met = [&] { return ask[blockIdx.x] == static_cast<unsigned>(r); };
      if (!wait_until(met, 4 * k_second)) return;
      answer[blockIdx.x] = global_ns();
    }
  }
}

struct ReadCycles {
  __device__ unsigned operator()(unsigned value) { return value + static_cast<unsigned>(cycles()); }
};
struct ReadGlobal {
  __device__ unsigned operator()(unsigned value) { return value + static_cast<unsigned>(global_ns()); }
};

void steps(Context const& context, Probe& probe) {
  DeviceBuffer<double> found(k_steps);
  timer_steps<<<1, 1, 0, context.stream>>>(found.get());
  launched();
  probe.figures.push_back(figure_of({"timer.globaltimer.step",
                                     "%globaltimer advances by",
                                     "ns",
                                     "stamps",
                                     {},
                                     "stamps of less than ten steps say little"},
                                    found.download()));
}

void offsets(Context const& context, Probe& probe) {
  int const sms = context.device.multiProcessorCount;
  auto const n = static_cast<std::size_t>(sms);
  DeviceBuffer<unsigned> ask(n);
  DeviceBuffer<unsigned long long> answer(n);
  DeviceBuffer<double> offset(n), trip(n);
  int rounds = context.quick ? 16 : 128;
  // All resident at once, one block on each SM: the shared memory keeps others off.
  int const shared = static_cast<int>(context.device.sharedMemPerBlockOptin);
  ok(cudaFuncSetAttribute(timer_offsets, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  auto* asks = ask.get();
  auto* answers = answer.get();
  auto* found = offset.get();
  auto* trips = trip.get();
  void* arguments[] = {&rounds, &asks, &answers, &found, &trips};
  ok(cudaLaunchCooperativeKernel(reinterpret_cast<void const*>(timer_offsets), dim3(n), dim3(1), arguments,
                                 static_cast<std::size_t>(shared), context.stream));
  auto samples = offset.download(), round_trips = trip.download();
  samples.erase(samples.begin());
  round_trips.erase(round_trips.begin());
  if (std::count(round_trips.begin(), round_trips.end(), 0.0) > 0) return;
  for (double& one : samples) one = std::fabs(one);
  probe.figures.push_back(figure_of({"timer.globaltimer.offset",
                                     "%globaltimer of an SM differs from that of another by",
                                     "ns",
                                     "ping-pong",
                                     {{"sms", sms}},
                                     "half of the fastest exchange is what it can be off by"},
                                    samples));
  probe.figures.push_back(figure_of({"timer.globaltimer.exchange",
                                     "fastest exchange of the time between two SMs",
                                     "ns",
                                     "ping-pong",
                                     {{"sms", sms}},
                                     "two hops by volatile store and load, and stamps"},
                                    round_trips));
}

void events(Context const& context, Probe& probe) {
  EventTimer timer;
  std::vector<double> apart;
  int const samples = context.quick ? 50 : 400;
  for (int i = -5; i < samples; ++i) {
    double const ns = timer.ns(context.stream, [] {});
    if (i >= 0) apart.push_back(ns);
  }
  probe.figures.push_back(figure_of({"timer.event.empty",
                                     "two events with nothing between them",
                                     "ns",
                                     "stamps",
                                     {},
                                     "what times by events are too long by"},
                                    apart));
  // Kernels of lengths that differ by little: the smallest difference that shows.
  std::vector<double> times;
  for (int i = 0; i < samples; ++i)
    times.push_back(timer.ns(context.stream, [&] { launch_spin(context.stream, 2000 + 40 * i); }));
  std::sort(times.begin(), times.end());
  double least = 1e18;
  for (std::size_t i = 1; i < times.size(); ++i)
    if (times[i] - times[i - 1] > 0.01) least = std::min(least, times[i] - times[i - 1]);
  probe.figures.push_back(figure_of({"timer.event.resolution",
                                     "smallest difference between times by events",
                                     "ns",
                                     "stamps",
                                     {},
                                     "of kernels 20 ns apart"},
                                    std::vector<double>{least}));
}

void host(Context const& context, Probe& probe) {
  std::vector<double> least;
  for (int i = 0; i < (context.quick ? 100 : 1000); ++i) {
    double const a = host_now_ns();
    double b = host_now_ns();
    while (b == a) b = host_now_ns();
    least.push_back(b - a);
  }
  probe.figures.push_back(figure_of(
      {"timer.host.read", "two readings of the host's clock in a row", "ns", "stamps", {}, ""}, least));
  std::vector<double> empty;
  for (int i = 0; i < (context.quick ? 50 : 400); ++i)
    empty.push_back(host_ns(context.stream, [&] { launch_spin(context.stream, 0); }));
  probe.figures.push_back(
      figure_of({"kernel.null.host",
                 "a kernel that does nothing, from its launch to the host's knowing that it ended",
                 "ns",
                 "stamps",
                 {{"blocks", 1}, {"threads", 1}},
                 "the host waits by spinning"},
                empty));
}

}  // namespace

void measure_timers(Context const& context, Probe& probe) {
  steps(context, probe);
  offsets(context, probe);
  std::vector<double> clocks;
  for (int i = 0; i < (context.quick ? 5 : 20); ++i) clocks.push_back(sm_clock_ghz(context));
  probe.figures.push_back(figure_of({"timer.sm_clock",
                                     "rate of the SMs' clock",
                                     "GHz",
                                     "slope",
                                     {},
                                     "one SM busy; under load it is the power that decides"},
                                    clocks));
  int const samples = context.quick ? 5 : 15;
  probe.figures.push_back(
      figure_of({"timer.clock64.read", "reading clock64", "cycle", "dependent chain", {}, ""},
                chain_cycles<ReadCycles>(context, 1, 32, 256, 2816, samples)));
  probe.figures.push_back(
      figure_of({"timer.globaltimer.read", "reading %globaltimer", "cycle", "dependent chain", {}, ""},
                chain_cycles<ReadGlobal>(context, 1, 32, 256, 2816, samples)));
  events(context, probe);
  host(context, probe);
}

}  // namespace tessera::probe
