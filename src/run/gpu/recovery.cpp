// SPDX-License-Identifier: Apache-2.0
// How a chain's launches end, and its memory as it was at the start.
#include <chrono>
#include <optional>
#include <thread>

#include "gpu/relaxed_capture.hpp"
#include "run/gpu/own_stream.hpp"
#include "run/gpu/state.hpp"
#include "tessera/run/stall.hpp"

namespace tessera {

using run::check_call;

namespace {

// How many deadlines finish() waits for a launch to get on: each wait of a chain may use its own deadline up
// before it succeeds.
constexpr double k_patience = 10;

template <class T>
Expected<void> copy_out(T* values, void const* from, std::size_t bytes, std::string const& what,
                        cudaStream_t stream) {
  if (auto ok = check_call(cudaMemcpyAsync(values, from, bytes, cudaMemcpyDeviceToHost, stream),
                           "cudaMemcpyAsync", "for " + what);
      !ok)
    return ok;
  return check_call(cudaStreamSynchronize(stream), "cudaStreamSynchronize", "for " + what);
}

}  // namespace

Expected<void> Chain::State::zero() {
  auto const stream = run::own_stream();
  if (!stream) return tl::make_unexpected(stream.error());
  auto* const own = *stream;
  for (auto* memory : {&semaphores, &counters, &stamps, &tokens}) {
    if (memory->bytes() == 0) continue;
    if (auto ok = check_call(cudaMemsetAsync(memory->as<void>(), 0, memory->bytes(), own), "cudaMemsetAsync");
        !ok)
      return ok;
  }
  StallRecord fresh;
  fresh.told = stalls->address();
  if (auto ok =
          check_call(cudaMemcpyAsync(stall.as<void>(), &fresh, sizeof fresh, cudaMemcpyHostToDevice, own),
                     "cudaMemcpyAsync", "for the stall record");
      !ok)
    return ok;
  return check_call(cudaStreamSynchronize(own), "cudaStreamSynchronize", "after zeroing the chain's memory");
}

Expected<void> Chain::State::wait_until_done() {
  run::OnDevice const here(device);
  // First what can be seen not to end.
  if (auto ok = wait_for_launches(); !ok || !captured) return ok;
  gpu::RelaxedCapture const relaxed;
  return check_call(cudaDeviceSynchronize(), "cudaDeviceSynchronize",
                    "waiting for replays of graphs with launches of " + plan.pipeline.name +
                        "; not while another stream is captured");
}

Expected<void> Chain::State::wait_for_launches() {
  if (!launched) return {};
  run::OnDevice const here(device);
  // Events may be asked about while streams are captured, by this thread or by others.
  gpu::RelaxedCapture const relaxed;
  if (options.deadline_seconds <= 0) {
    auto ok = check_call(cudaEventSynchronize(done), "cudaEventSynchronize", "for " + plan.pipeline.name);
    if (ok) all_ended();
    return ok;
  }
  auto const limit = k_patience * options.deadline_seconds;
  run::Patience patience(limit);
  auto const start = std::chrono::steady_clock::now();
  auto next_look = options.deadline_seconds;
  for (;;) {
    auto const error = cudaEventQuery(done);
    if (error != cudaErrorNotReady) {
      found_lost(false);
      all_ended();
      return check_call(error, "a kernel of " + plan.pipeline.name, "seen by cudaEventQuery");
    }
    double const waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (waited > next_look) {
      auto const given_up = is_stuck(patience, waited);
      if (!given_up) return tl::make_unexpected(given_up.error());
      if (*given_up) break;
      next_look = waited + limit / 20;
    }
    // The first millisecond is for chains that are nearly done.
    if (waited < 1e-3)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  found_lost(true);
  return refuse(
      {"E0521",
       Severity::error,
       plan.pipeline.where,
       fmt::format("a launch of {} has not got on for {:.3g} s", plan.pipeline.name, limit),
       {"no wait met its deadline, so a kernel computes for long, or waits without a watch"},
       "compile the kernels with DeadlineWatch to learn which tile waits for what; the process must end"});
}

Expected<bool> Chain::State::is_stuck(run::Patience& patience, double now) const {
  gpu::RelaxedCapture const relaxed;
  auto const stream = run::own_stream();
  if (!stream) return tl::make_unexpected(stream.error());
  std::vector<unsigned> counts(semaphore_count);
  std::vector<unsigned long long> words(counters.bytes() / sizeof(unsigned long long)), started;
  if (!counts.empty())
    if (auto ok = copy_out(counts.data(), views.memory.semaphores, counts.size() * sizeof(unsigned),
                           "the semaphores", *stream);
        !ok)
      return tl::make_unexpected(ok.error());
  if (auto ok = copy_out(words.data(), views.memory.counters, counters.bytes(), "the counters", *stream); !ok)
    return tl::make_unexpected(ok.error());
  ChainMemory const here{counts.data(), words.data()};
  for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s)
    started.push_back(*detail::counter(here, s, detail::Counter::started));
  std::uint64_t state = 0;
  for (auto const one : counts) state = state * 0x9E3779B97F4A7C15u + one;
  for (auto const one : words) state = state * 0x9E3779B97F4A7C15u + one;
  run::ChainWords const seen{counts, started};
  // The first launch of those that are not known to have ended has begun, and has not even counted.
  bool const begun = begin_marked && !captured && run::has_ended(before_first) &&
                     run::whole_launches(plan, seen) == std::optional(ended);
  return patience.gives_up(now, begun || run::under_way(plan, seen), state);
}

void Chain::State::found_lost(bool yes) {
  if (lost == yes) return;
  lost = yes;
  lease.never_ends(yes);
}

Expected<void> Chain::State::look_for_stall(Diagnostics& found) {
  run::OnDevice const here(device);
  auto const stream = run::own_stream();
  if (!stream) return tl::make_unexpected(stream.error());
  auto* const own = *stream;
  StallRecord record;
  if (auto ok = copy_out(&record, views.stall, sizeof record, "the stall record", own); !ok) return ok;
  last_stall = record;
  if (record.state == 0) return {};
  std::vector<unsigned> seen(semaphore_count);
  if (!seen.empty())
    if (auto ok = copy_out(seen.data(), views.memory.semaphores, seen.size() * sizeof(unsigned),
                           "the semaphores", own);
        !ok)
      return ok;
  found.push_back(stall_report(plan, record, seen));
  return {};
}

Expected<void> Chain::State::start_anew() {
  run::OnDevice const here(device);
  auto const stream = run::own_stream();
  if (!stream) return tl::make_unexpected(stream.error());
  if (auto ok = zero(); !ok) return ok;
  for (auto const& kernels : sets)
    for (auto const& kernel : kernels)
      if (kernel.reset)
        if (auto ok =
                check_call(static_cast<cudaError_t>(kernel.reset(*stream)), "resetting a kernel's memory");
            !ok)
          return ok;
  if (auto ok = check_call(cudaStreamSynchronize(*stream), "cudaStreamSynchronize"); !ok) return ok;
  broken = false;
  enqueued = ended = 0;
  begin_marked = false;
  return {};
}

}  // namespace tessera
