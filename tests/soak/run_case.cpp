// SPDX-License-Identifier: Apache-2.0
#include "soak/run_case.hpp"

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "run_gpu/held_sms.hpp"
#include "soak/soaked_chain.hpp"
#include "soak/soaked_loop.hpp"
#include "soak/soaked_workload.hpp"
#include "support/mix.hpp"

namespace tessera::soak {
namespace {

// A wait in a sound launch takes milliseconds at most, beside two other chains and where SMs are held for
// others. A fault outlasts the short deadline.
constexpr double k_deadline_s = 2, k_short_deadline_s = 0.02;
// Of a workload that is made to stall in company. A launch that starts early and needs a whole SM for each
// block may have to wait while small blocks of others, with a higher priority, follow each other there: a
// loop's launches of one case have taken 0.33 s.
constexpr double k_deadline_in_company_s = 1;

std::string wrong(Batch const& batch, char const* when) {
  if (batch.wrong == 0) return {};
  return fmt::format("{}: {} of {} launches are wrong without an error; {}", when, batch.wrong,
                     batch.compared, batch.first_wrong);
}

/// What the parties have in common: run() is a batch, broken() one with a fault.
struct Party {
  std::function<Batch()> run;
  std::function<Batch(std::uint64_t random)> broken;
};

/// Nothing goes wrong. Empty, or what must not be.
std::string soundly(Party const& party, char const* when, Outcome& outcome) {
  auto const batch = party.run();
  outcome.counts.launches += batch.compared;
  if (!batch.error.empty()) return fmt::format("{}: an error: {}", when, batch.error);
  return wrong(batch, when);
}

/// Batches with a fault, each with a sound one behind it.
std::string with_faults(Party const& party, Case const& one, Outcome& outcome) {
  for (int i = 0; i < one.times; ++i) {
    auto const broken = party.broken(support::mix(one.number, static_cast<std::uint64_t>(i)));
    auto& count = outcome.counts.faults[kind_of(one)];
    outcome.counts.launches += broken.compared;
    ++count.injected;
    ++(broken.error.empty() ? count.right : count.said);
    if (broken.wrong > 0) return wrong(broken, "beside a fault");
    bool const at_enqueue = one.fault == Fault::exception || one.fault == Fault::bad_enqueue;
    if (at_enqueue && broken.error.empty()) return "a failed enqueue was not said";
    // E0521: kernels had not ended, and perhaps one of them has given up since.
    if (broken.error.find("E0521") != std::string::npos)
      if (auto const next = party.run(); next.error.empty() && next.wrong > 0)
        return wrong(next, "behind a fault");
    if (auto failure = soundly(party, "behind a fault", outcome); !failure.empty())
      return failure + "\nthe fault was said: " + broken.error;
  }
  return {};
}

std::string of_party(Party const& party, Case const& one, bool faulty, Outcome& outcome) {
  return faulty ? with_faults(party, one, outcome) : soundly(party, "nothing went wrong", outcome);
}

/// What the parties of a case have made. Freed when all of them have ended: to free memory waits for the
/// whole device, and keeps all calls of the process waiting, also behind SMs that another party holds.
struct Made {
  std::unique_ptr<SoakedChain> chain;
  std::unique_ptr<SoakedLoop> loop;
};

void run_chain(Case const& one, int index, Made& made, Outcome& outcome) {
  bool const faulty = one.fault != Fault::none && one.faulty == index;
  bool const timed = one.fault == Fault::held_sms || one.fault == Fault::held_tile;
  made.chain = std::make_unique<SoakedChain>(one.number * 8 + static_cast<std::uint64_t>(one.first + index),
                                             faulty && one.fault == Fault::held_tile,
                                             faulty && timed ? k_short_deadline_s : k_deadline_s);
  auto& chain = *made.chain;
  if (!chain.refusal().empty()) {
    ++outcome.counts.refused_plans;
    return;
  }
  Party party;
  party.run = [&] { return chain.run(one.launches, one.threads, one.graphs); };
  party.broken = [&](std::uint64_t random) {
    std::optional<gpu::HeldSms> held;
    chain.break_launch(one.at, one.fault, random);
    if (one.fault == Fault::held_sms) held.emplace(one.held_sms, 3 * k_short_deadline_s);
    // A graph has the arguments that it was captured with.
    bool const at_enqueue = one.fault == Fault::exception || one.fault == Fault::bad_enqueue;
    return chain.run(one.launches, one.threads, one.graphs && !at_enqueue);
  };
  auto const failure = of_party(party, one, faulty, outcome);
  if (!failure.empty()) outcome.failure = failure + "\n" + chain.description();
}

void run_loop(Case const& one, Made& made, Outcome& outcome) {
  bool const faulty = one.fault != Fault::none && one.faulty == one.chains;
  made.loop = std::make_unique<SoakedLoop>(one.number, faulty ? k_short_deadline_s : k_deadline_s);
  auto& loop = *made.loop;
  if (!loop.refusal().empty()) {
    ++outcome.counts.refused_plans;
    return;
  }
  Party party;
  party.run = [&] { return loop.run(one.launches); };
  party.broken = [&](std::uint64_t random) {
    loop.hold_a_tile(one.at, random);
    return loop.run(one.launches);
  };
  auto const failure = of_party(party, one, faulty, outcome);
  if (!failure.empty()) outcome.failure = failure + "\n" + loop.description();
}

bool workload_is_faulty(Case const& one) {
  return one.fault != Fault::none && one.faulty == one.chains + one.loops;
}

void run_workload(Case const& one, SoakedWorkload& workload, Outcome& outcome) {
  Party party;
  party.run = [&] { return workload.run(one.launches, one.threads); };
  party.broken = [&](std::uint64_t) { return workload.stall(); };
  auto const failure = of_party(party, one, workload_is_faulty(one), outcome);
  if (!failure.empty()) outcome.failure = failure + "\n" + to_text(one.workload);
}

/// Graphs of workloads are replayed where there is nothing else: replays pass by the library, which keeps
/// chains that count SMs apart, and who waits for a captured chain waits for the device, which spoils
/// captures.
bool replays_workload(Case const& one) { return one.graphs && one.chains + one.loops == 0; }

}  // namespace

Outcome run_case(Case const& one) {
  Outcome all;
  std::unique_ptr<SoakedWorkload> workload;
  if (one.workload != Workload::none) {
    try {
      bool const stalls = workload_is_faulty(one), alone = one.parties() == 1;
      double const short_deadline = alone ? k_short_deadline_s : k_deadline_in_company_s;
      workload = std::make_unique<SoakedWorkload>(one.workload, stalls ? short_deadline : k_deadline_s,
                                                  stalls, replays_workload(one));
    } catch (std::exception const& error) {
      all.failure = fmt::format("{}: {}", to_text(one.workload), error.what());
      return all;
    }
  }
  std::vector<Outcome> outcomes(static_cast<std::size_t>(one.parties()));
  std::vector<Made> made(outcomes.size());
  std::vector<std::thread> threads;
  for (int i = 0; i < one.parties(); ++i)
    threads.emplace_back([&, i] {
      auto& outcome = outcomes[static_cast<std::size_t>(i)];
      auto& mine = made[static_cast<std::size_t>(i)];
      try {
        if (i < one.chains)
          run_chain(one, i, mine, outcome);
        else if (i < one.chains + one.loops)
          run_loop(one, mine, outcome);
        else
          run_workload(one, *workload, outcome);
      } catch (std::exception const& error) {
        outcome.failure = fmt::format("party {}: {}", i, error.what());
      }
    });
  for (auto& thread : threads) thread.join();
  all.counts.cases = 1;
  for (auto const& outcome : outcomes) {
    all.counts.add(outcome.counts);
    if (all.failure.empty()) all.failure = outcome.failure;
  }
  return all;
}

}  // namespace tessera::soak
