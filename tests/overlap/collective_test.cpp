// SPDX-License-Identifier: Apache-2.0
// Ring collectives against what they must cost on paper.
#include <gmock/gmock.h>

#include "tessera/measure/machine_json.hpp"
#include "tessera/overlap/run.hpp"

namespace tessera {
namespace {

MachineProfile t3() { return machine("t3").value(); }

double bytes_of(OverlapRun const& run, Traffic traffic) {
  return run.bytes[static_cast<std::size_t>(traffic)];
}

OverlapRun run(CollectiveProblem const& problem, MachineProfile const& machine = t3(),
               OverlapOptions const& options = {}) {
  auto const run = run_collective(machine, problem, options);
  EXPECT_TRUE(run.has_value()) << to_text(run.error());
  return run.value_or(OverlapRun{});
}

double ring_ns(CollectiveProblem const& problem, OverlapHardware const& hardware) {
  return (problem.gpus - 1) * (problem.bytes / problem.gpus / hardware.link_gbps + hardware.link_latency_ns);
}

CollectiveProblem scatter(int gpus, double megabytes) {
  CollectiveProblem problem;
  problem.gpus = gpus;
  problem.bytes = megabytes * 1e6;
  return problem;
}

TEST(Collective, AllGatherIsTheRingsTime) {
  for (int const gpus : {4, 8, 16})
    for (double const megabytes : {6.0, 192.0}) {
      auto problem = scatter(gpus, megabytes);
      problem.collective = Collective::all_gather;
      auto const expected = ring_ns(problem, *t3().overlap);
      EXPECT_NEAR(static_cast<double>(run(problem).end) / 1000, expected, 0.01 * expected + gpus * 400)
          << gpus << " GPUs, " << megabytes << " MB";
    }
}

TEST(Collective, ReduceScatterIsTheRingsTimeAndALastStepInMemory) {
  auto const machine = t3();
  for (double const megabytes : {6.0, 24.0, 96.0, 192.0}) {
    auto const problem = scatter(8, megabytes);
    auto const ring = ring_ns(problem, *machine.overlap);
    auto const last = 3 * problem.bytes / 8 / machine.dram_gbps;
    auto const ns = static_cast<double>(run(problem).end) / 1000;
    EXPECT_GT(ns, ring + last);
    EXPECT_LT(ns, (ring + 2 * last) * 1.02 + 8 * 1000)
        << "reads and writes mixed reach at least half of the peak";
  }
}

TEST(Collective, TinyArrayCostsLatencies) {
  auto const machine = t3();
  auto const ns = static_cast<double>(run(scatter(16, 0.016)).end) / 1000;
  EXPECT_GT(ns, 15 * machine.overlap->link_latency_ns);
  EXPECT_LT(ns, 15 * (machine.overlap->link_latency_ns + 700));
}

TEST(Collective, BytesAreThoseOfThePaper) {
  for (int const gpus : {4, 8, 16}) {
    auto problem = scatter(gpus, 12);
    auto const chunk = problem.bytes / gpus;
    auto const alone = run(problem);
    EXPECT_NEAR(bytes_of(alone, Traffic::collective_read), (2 * gpus - 1) * chunk, 1);
    EXPECT_NEAR(bytes_of(alone, Traffic::collective_write), gpus * chunk, 1);
    EXPECT_NEAR(alone.link_bytes, (gpus - 1) * chunk, 1);
    problem.near_memory = true;
    auto const near = run(problem);
    EXPECT_NEAR(bytes_of(near, Traffic::collective_read), (gpus - 1) * chunk, 1);
    EXPECT_NEAR(bytes_of(near, Traffic::collective_write), (gpus - 1) * chunk, 1);
  }
}

TEST(Collective, OneGpuStandsForAllAndOneChannelForAll) {
  auto const problem = scatter(4, 6);
  auto const mirrored = run(problem);
  OverlapOptions options;
  options.explicit_gpus = true;
  EXPECT_EQ(run(problem, t3(), options).end, mirrored.end);
  options.explicit_gpus = false;
  options.all_channels = true;
  auto const whole = run(problem, t3(), options);
  EXPECT_NEAR(static_cast<double>(whole.end), static_cast<double>(mirrored.end),
              0.01 * static_cast<double>(mirrored.end));
  EXPECT_EQ(whole.bytes, mirrored.bytes);
}

TEST(Collective, FewSmsCannotFeedTheLink) {
  auto problem = scatter(8, 100);
  auto const all = run(problem).end;
  problem.sms = 2;
  EXPECT_GT(run(problem).end, all + all / 4);
}

TEST(Collective, ALostPacketIsFound) {
  OverlapOptions options;
  options.lose_update = 5;
  auto const refused = run_collective(t3(), scatter(4, 6), options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(to_text(refused.error()),
            "error E0542: the simulated GPUs are stuck: GPU 0: step 1 of 4 is not over\n   hint: a packet "
            "was lost");
  auto const nothing = run_collective(machine("a100").value(), scatter(4, 6));
  ASSERT_FALSE(nothing.has_value());
  EXPECT_EQ(nothing.error().front().code, "E0541");
}

}  // namespace
}  // namespace tessera
