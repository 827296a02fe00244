// SPDX-License-Identifier: Apache-2.0
#include "soak/run_case.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "soak/hold_sms.hpp"
#include "soak/soaked_chain.hpp"
#include "soak/soaked_workload.hpp"

namespace tessera::soak {
namespace {

// A wait in a sound launch takes milliseconds at most, beside two other chains. A fault takes longer than the
// short deadline.
constexpr double k_deadline_s = 2, k_short_deadline_s = 0.02;
constexpr int k_fault_ms = 60;

bool is_timed(Fault fault) { return fault == Fault::held_sms || fault == Fault::late_tile; }

void must(int error, char const* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(
        fmt::format("{}: {}", what, cudaGetErrorString(static_cast<cudaError_t>(error))));
}

std::string wrong(Batch const& batch, char const* when) {
  if (batch.wrong == 0) return {};
  return fmt::format("{}: {} of {} launches are wrong without an error; {}", when, batch.wrong,
                     batch.launches, batch.first_wrong);
}

/// Launches behind a fault that must be right. finish() may have to be asked again where the GPU was held for
/// longer than it waits.
template <class Party>
std::string after_a_fault(Party& party, Case const& one, Outcome& outcome) {
  auto again = party.run(1, one.graphs);
  if (!again.error.empty()) again = party.run(1, one.graphs);
  auto const after = again.error.empty() ? party.run(one.launches, one.graphs) : again;
  outcome.launches += again.launches + after.launches;
  if (!after.error.empty()) return "behind a fault it cannot be used: " + after.error;
  if (again.wrong + after.wrong > 0) return wrong(again.wrong > 0 ? again : after, "behind a fault");
  return {};
}

/// Launches in which nothing goes wrong.
template <class Party>
std::string soundly(Party& party, Case const& one, Outcome& outcome) {
  auto const batch = party.run(one.launches, one.graphs);
  outcome.launches += batch.launches;
  if (!batch.error.empty()) return "an error where nothing went wrong: " + batch.error;
  return wrong(batch, "nothing went wrong");
}

/// The first chain of a case has the fault; the others must not notice.
void run_chain(Case const& one, int index, Outcome& outcome) {
  bool const faulty = index == 0 && one.fault != Fault::none;
  // Whoever shares the GPU with a kernel that holds it may be late as well.
  bool const may_fail = faulty || one.fault == Fault::held_sms;
  SoakedChain chain(one.number * 8 + static_cast<std::uint64_t>(index),
                    is_timed(one.fault) && may_fail ? k_short_deadline_s : k_deadline_s);
  if (!chain.refusal().empty()) {
    ++outcome.refused_plans;
    return;
  }
  auto const fail = [&](std::string const& text) {
    if (!text.empty()) outcome.failure = text + "\n" + chain.description();
  };
  if (!may_fail) return fail(soundly(chain, one, outcome));

  cudaStream_t holding = nullptr;
  if (faulty && one.fault == Fault::held_sms) {
    must(cudaStreamCreateWithFlags(&holding, cudaStreamNonBlocking), "stream");
    must(hold_sms(one.held_sms, k_fault_ms, holding), "hold_sms");
  }
  if (faulty && one.fault == Fault::late_tile) chain.make_a_tile_late(k_fault_ms);
  if (faulty && one.fault == Fault::exception) chain.throw_at_next_launch();
  if (faulty && one.fault == Fault::bad_enqueue) chain.overflow_at_next_launch();
  bool const at_enqueue = one.fault == Fault::exception || one.fault == Fault::bad_enqueue;
  auto const broken = chain.run(one.launches, one.graphs && !at_enqueue);
  outcome.launches += broken.launches;
  outcome.faults += faulty ? 1 : 0;
  outcome.said += broken.error.empty() ? 0 : 1;
  if (holding != nullptr) {
    must(cudaStreamSynchronize(holding), "held");
    cudaStreamDestroy(holding);
  }
  if (broken.wrong > 0) return fail(wrong(broken, "beside a fault"));
  if (faulty && at_enqueue && broken.error.empty()) return fail("a failed enqueue was not said");
  fail(after_a_fault(chain, one, outcome));
}

/// Graphs of workloads are replayed where there are no chains: replays pass by the library, which keeps
/// chains that count SMs apart, and who waits for a captured chain waits for the device, which spoils
/// captures.
bool replays_workload(Case const& one) { return one.graphs && one.chains == 0; }

/// Beside the chains, whose faults it must not notice.
void run_workload(Case const& one, SoakedWorkload& workload, Outcome& outcome) {
  auto const batch = workload.run(one.launches, replays_workload(one));
  outcome.launches += batch.launches;
  auto const failure = batch.error.empty() ? wrong(batch, "nothing went wrong")
                                           : "an error where nothing went wrong: " + batch.error;
  if (!failure.empty()) outcome.failure = failure + "\n" + to_text(one.workload);
}

}  // namespace

Outcome run_case(Case const& one) {
  std::unique_ptr<SoakedWorkload> workload;
  // Held SMs make all that shares the GPU late: such cases are for chains.
  if (one.workload != Workload::none && one.fault != Fault::held_sms) {
    try {
      workload = std::make_unique<SoakedWorkload>(one.workload, k_deadline_s, replays_workload(one));
    } catch (std::exception const& error) {
      Outcome failed;
      failed.failure = error.what();
      return failed;
    }
  }
  std::vector<Outcome> outcomes(static_cast<std::size_t>(one.chains + (workload ? 1 : 0)));
  std::vector<std::thread> threads;
  for (int i = 0; i < static_cast<int>(outcomes.size()); ++i)
    threads.emplace_back([&, i] {
      auto& outcome = outcomes[static_cast<std::size_t>(i)];
      try {
        if (i < one.chains)
          run_chain(one, i, outcome);
        else
          run_workload(one, *workload, outcome);
      } catch (std::exception const& error) {
        outcome.failure = error.what();
      }
    });
  for (auto& thread : threads) thread.join();
  Outcome all;
  for (auto const& outcome : outcomes) {
    all.launches += outcome.launches, all.refused_plans += outcome.refused_plans;
    all.faults += outcome.faults, all.said += outcome.said;
    if (all.failure.empty()) all.failure = outcome.failure;
  }
  return all;
}

}  // namespace tessera::soak
