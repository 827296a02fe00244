// SPDX-License-Identifier: Apache-2.0
// Plans whose text was changed by hand, and what every subcommand makes of them.
#include <gmock/gmock.h>

#include <fstream>

#include "cli/program.hpp"
#include "support/cases.hpp"

namespace tessera {
namespace {

using nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Every way to hand a plan to the tool.
constexpr char const* k_readers[] = {"simulate plan.json",
                                     "simulate plan.json --draw",
                                     "generate plan.json",
                                     "explain plan.json",
                                     "diff plan.json plan.json",
                                     "run plan.json",
                                     "why-not plan.json --first gate_up --second down"};

struct UntrustedPlans : testing::Test {
  Folder folder;

  Said run(std::string const& arguments) { return tessera_says(arguments, folder.path()); }
  void put(std::string const& name, std::string const& text) const { std::ofstream(folder / name) << text; }

  ordered_json planned(std::string const& options) {
    auto const said = run("plan " + options + " --json");
    EXPECT_EQ(said.exit, 0) << said.err;
    return ordered_json::parse(said.out);
  }
  void expect_refused_by_all(ordered_json const& plan, std::string const& words) {
    put("plan.json", plan.dump(1));
    for (auto const* reader : k_readers) {
      auto const said = run(reader);
      EXPECT_EQ(said.exit, 1) << reader << "\n" << said.err;
      EXPECT_EQ(said.out, "") << reader;
      EXPECT_THAT(said.err, AllOf(testing::StartsWith("plan.json"), HasSubstr(words))) << reader;
    }
  }
};

TEST_F(UntrustedPlans, WhatCanHangIsRefusedByEverySubcommand) {
  // gate_up before down is what the wait kernel sees to.
  auto plan = planned("llama-65b --tokens 768 --tp 8 --machine v100 --mechanism wait_kernel");
  ASSERT_TRUE(plan["launches"][1]["wait_kernel"].get<bool>());
  put("plan.json", plan.dump());
  EXPECT_EQ(run("generate plan.json").exit, 0);
  plan["launches"][1]["wait_kernel"] = false;
  expect_refused_by_all(plan, "error E0302: ");
  plan.erase("proof");
  expect_refused_by_all(plan,
                        "down has no wait kernel, so blocks of down may be placed before those of gate_up");
  plan.erase("machine_values");
  expect_refused_by_all(plan, "error E0302: ");
}

TEST_F(UntrustedPlans, TooManyWorkersAreRefusedByEverySubcommand) {
  auto plan = planned("llama-3.2-1b --tokens 64 --machine v100 --mechanism fused");
  plan["launches"][0]["workers"] = 100000;
  expect_refused_by_all(plan, "error E0302");
  plan.erase("proof");
  expect_refused_by_all(plan, "error E0302");
  EXPECT_EQ(run("simulate plan.json --explore 10").exit, 1) << "explored, not proved";
  EXPECT_THAT(run("simulate plan.json --explore 10").err, testing::Not(HasSubstr("E0302")));
}

TEST_F(UntrustedPlans, AnotherProofIsRefusedByEverySubcommand) {
  auto plan = planned("llama-3.2-1b --tokens 64 --machine v100 --mechanism wait_kernel");
  plan["proof"] = "it has always worked";
  expect_refused_by_all(plan,
                        "error E0264: the proof in this plan is not the one of its launches on v100\n"
                        "   the file says \"it has always worked\"\n"
                        "   proved is \"");
}

TEST_F(UntrustedPlans, AWordThatTheLaunchesContradictIsRefused) {
  auto plan = planned("llama-3.2-1b --tokens 64 --machine v100 --mechanism stream_order");
  plan["mechanism"] = "fused";
  expect_refused_by_all(plan,
                        "error E0263: the mechanism is said to be \"fused\", and the launches are "
                        "\"stream order\"");
}

TEST_F(UntrustedPlans, ValuesOfTheMachineMustBeThoseOfTheHash) {
  auto plan = planned("llama-3.2-1b --tokens 64 --machine v100 --mechanism stream_order");
  plan["machine_values"]["sms"] = 81;
  expect_refused_by_all(plan, "error E0265");
}

TEST_F(UntrustedPlans, EarlyLaunchesAreRefusedWhereTheMachineHasNone) {
  put("plan.json", planned("llama-3.2-1b --tokens 64 --mechanism pdl").dump());
  auto const said = run("simulate plan.json --machine v100");
  EXPECT_EQ(said.exit, 1);
  EXPECT_EQ(said.err,
            "plan.json: error E0303: v100 has no programmatic dependent launch\n"
            "   described at llama-3.2-1b:1\n"
            "   hint: plan it for that machine, or in stream order: its kernels have no other way\n");
  // A file that says it is for such a machine gets no header either.
  auto plan = planned("llama-3.2-1b --tokens 64 --mechanism pdl");
  plan["machine"] = "v100";
  plan.erase("machine_values");
  expect_refused_by_all(plan, "error E0303: v100 has no programmatic dependent launch");
}

TEST_F(UntrustedPlans, AProfileOfTheSameNameWithOtherValuesIsNoticed) {
  auto machine = ordered_json::parse(run("machines v100").out);
  machine["values"]["sms"]["value"] = 40;
  machine["values"]["launch_ns"]["value"] = 123.5;
  put("mine.json", machine.dump());
  auto const planned =
      run("plan llama-3.2-1b --tokens 64 --machine ./mine.json --mechanism stream_order -o "
          "plan.json --json");
  ASSERT_EQ(planned.exit, 0) << planned.err;
  auto const own = run("simulate plan.json --json");
  EXPECT_EQ(own.exit, 0);
  for (auto const* words : {"plan.json: warning E0266: this plan was made for a v100 of other values",
                            "sms is 40 in the plan, 80 in the profile", "launch_ns is 123.5 in the plan, "})
    for (auto const* reader : k_readers)
      if (std::string(reader) != "run plan.json") {
        EXPECT_THAT(run(reader).err, HasSubstr(words)) << reader;
      }
  auto const shipped = run("simulate plan.json --machine v100 --json");
  EXPECT_THAT(shipped.err, HasSubstr("the profile's values are taken"));
  EXPECT_GT(own.json()["end_ps"], shipped.json()["end_ps"]) << "half of the SMs";
  auto const mine = run("simulate plan.json --machine ./mine.json --json");
  EXPECT_EQ(mine.err, "");
  EXPECT_EQ(mine.out, own.out);
  machine["values"]["sms"]["value"] = 60;
  put("other.json", machine.dump());
  EXPECT_THAT(run("simulate plan.json --machine ./other.json").err,
              HasSubstr("than the profile v100 has\n   the profile is the one of ./other.json\n"
                        "   sms is 40 in the plan, 60 in the profile\n"));
}

TEST_F(UntrustedPlans, AHeaderNeedsAProofOnTheShippedProfileToo) {
  auto machine = ordered_json::parse(run("machines v100").out);
  machine["values"]["sms"]["value"] = 800;
  put("large.json", machine.dump());
  put("plan.json", planned("llama-65b --tokens 4096 --tp 8 --machine ./large.json --mechanism fused").dump());
  auto const simulated = run("simulate plan.json");
  EXPECT_EQ(simulated.exit, 0) << simulated.err;
  EXPECT_THAT(simulated.err, HasSubstr("warning E0266"));
  auto const header = run("generate plan.json");
  EXPECT_EQ(header.exit, 1);
  EXPECT_EQ(header.out, "");
  EXPECT_THAT(header.err, HasSubstr("error E0302"));
  machine["name"] = "large";
  put("large.json", machine.dump());
  put("plan.json", planned("llama-65b --tokens 4096 --tp 8 --machine ./large.json --mechanism fused").dump());
  EXPECT_EQ(run("generate plan.json").exit, 0) << "under a name of its own it is what it is";
}

TEST_F(UntrustedPlans, AMachineOfAFileNeedsNoFileAfterwards) {
  auto machine = ordered_json::parse(run("machines v100").out);
  machine["name"] = "mine";
  put("mine.json", machine.dump());
  ASSERT_EQ(
      run("plan llama-3.2-1b --tokens 64 --machine ./mine.json --mechanism stream_order -o plan.json").exit,
      0);
  for (auto const* reader : {"simulate plan.json", "generate plan.json", "explain plan.json"}) {
    auto const said = run(reader);
    EXPECT_EQ(said.exit, 0) << said.err;
    EXPECT_EQ(said.err, "");
  }
  auto plan = ordered_json::parse(read_text(folder / "plan.json"));
  plan.erase("machine_values");
  put("plan.json", plan.dump());
  EXPECT_THAT(run("generate plan.json").err, HasSubstr("error E0602: there is no machine \"mine\""));
}

/// It was said to be none of the profile's.
TEST_F(UntrustedPlans, AKernelThatNoStageNamesIsSaid) {
  auto plan = planned("llama-65b --tp 8 --tokens 768 --mechanism stream_order");
  std::string const kernel = plan["pipeline"]["stages"][0]["kernel"];
  for (auto& stage : plan["pipeline"]["stages"]) stage["kernel"] = "zz";
  put("plan.json", plan.dump());
  auto const said = run("explain plan.json");
  EXPECT_THAT(said.err, HasSubstr("kernels." + kernel + "."));
  EXPECT_THAT(said.err, HasSubstr("in the plan, whose stages do not name that kernel"));
  EXPECT_THAT(said.err, Not(HasSubstr("none in the profile")));
}

TEST_F(UntrustedPlans, TimesThatAreQuotedAreHeldAgainstTheSimulator) {
  auto plan = planned("two-gemms --machine a100");
  double const right = plan["predicted_us"], stream = plan["stream_order_us"];
  put("plan.json", plan.dump());
  for (auto const* reader : {"explain plan.json", "generate plan.json"})
    EXPECT_EQ(run(reader).err, "") << reader;
  plan["predicted_us"] = 1.0;
  put("plan.json", plan.dump());
  for (auto const* reader : {"explain plan.json", "generate plan.json"}) {
    auto const said = run(reader);
    EXPECT_EQ(said.exit, 0);
    EXPECT_THAT(said.err, testing::StartsWith("plan.json: warning E0267: this plan quotes 1.00 us, and its "
                                              "simulation on a100 takes "));
    EXPECT_THAT(said.out, Not(HasSubstr("1.00 us"))) << reader;
  }
  EXPECT_NEAR(run("--json explain plan.json").json()["predicted_us"].get<double>(), right, 1e-6);
  plan["predicted_us"] = right;
  plan["stream_order_us"] = 10 * stream;
  put("plan.json", plan.dump());
  auto const said = run("explain plan.json");
  EXPECT_THAT(said.err, HasSubstr("us in stream order on a100"));
  EXPECT_THAT(said.out, Not(HasSubstr("faster")));
  EXPECT_THAT(run("generate plan.json").out, Not(HasSubstr("best stream order")));
}

TEST_F(UntrustedPlans, NoPlanOfOursQuotesATimeThatIsNotItsOwn) {
  int number = 0;
  for (auto const* workload :
       {"llama-65b --tokens 768 --tp 8", "llama-65b --tokens 64 --tp 8", "gpt-3-145b --tokens 2048 --tp 8",
        "llama-3-8b --block attention --tokens 512", "resnet-38 --layer 7x7x512", "lora",
        "llama-65b --tokens 4096 --tp 8", "llama-65b --tokens 768 --tp 8 --machine v100",
        "llama-3-8b --tokens 300 --machine a100", "gpt-3-145b --tokens 1024",
        "two-gemms --mechanism wait_kernel", "two-gemms --mechanism stream_order"}) {
    if (support::k_sanitized && number++ % 4 != 0) continue;
    put("plan.json", planned(workload).dump());
    EXPECT_EQ(run("explain plan.json").err, "") << workload;
  }
}

}  // namespace
}  // namespace tessera
