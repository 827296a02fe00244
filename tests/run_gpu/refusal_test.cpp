// SPDX-License-Identifier: Apache-2.0
// What a chain refuses before anything is launched.
#include <gmock/gmock.h>

#include "run/gpu/validate.hpp"
#include "run_gpu/device_data.hpp"
#include "run_gpu/edges.hpp"
#include "support/plans.hpp"
#include "tessera/measure/machine_json.hpp"

namespace tessera {
namespace {

using support::Policy;
using testing::HasSubstr;
using vector_chain::Kind;

Plan plan_of(Mechanism mechanism) {
  return support::make_plan(vector_chain::pipeline(3, 24, 20, 1), machine("h200").value(), mechanism,
                            Policy::row_sync);
}
std::vector<StageKernel> kernels_of(Plan const& plan) {
  return vector_chain::kernels(plan, vector_chain::Buffers{}, Kind::watched);
}
std::string refusal(Plan const& plan, std::vector<StageKernel> const& kernels,
                    ChainOptions const& options = {}) {
  auto const chain = Chain::make(plan, kernels, options);
  return chain ? "accepted" : to_text(chain.error());
}

TEST(WithoutDevice, NumberOfKernels) {
  auto const plan = plan_of(Mechanism::pdl);
  auto kernels = kernels_of(plan);
  kernels.pop_back();
  EXPECT_EQ(refusal(plan, kernels),
            "error E0510: plan \"vectors\" (PDL) needs 3 kernels, 2 were given\n"
            "   hint: give one kernel for each launch");
  EXPECT_THAT(refusal(plan_of(Mechanism::fused), kernels_of(plan)),
              HasSubstr("plan \"vectors\" (fused) needs 1 kernels, 3 were given"));
}

TEST(WithoutDevice, AFirstLaunchThatStartsEarly) {
  auto plan = plan_of(Mechanism::pdl);
  plan.launches.front().start = LaunchStart::early;
  EXPECT_EQ(refusal(plan, kernels_of(plan)),
            "error E0537: the first launch of plan \"vectors\" starts early, before the launch before it is "
            "complete\n"
            "   a chain's launches share semaphores, so that they may not overlap\n"
            "   its kernel does not say that it leaves them alone until then (StageKernel::chains)\n"
            "   hint: start the first launch in order");
}

TEST(WithoutDevice, LaunchesThatContradictEachOther) {
  auto plan = plan_of(Mechanism::pdl);
  plan.launches.pop_back();
  EXPECT_EQ(refusal(plan, kernels_of(plan_of(Mechanism::pdl))),
            "error E0510: the launches of plan \"vectors\" contradict each other\n"
            "   no launch holds third\n"
            "   hint: take plans from choose() or parse_plan()");
}

TEST(WithoutDevice, NoDevice) {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) GTEST_SKIP() << "there is a device";
  auto const plan = plan_of(Mechanism::pdl);
  EXPECT_THAT(refusal(plan, kernels_of(plan)),
              HasSubstr("error E0511: cudaGetDeviceCount failed: cudaError"));
}

TEST(WithoutDevice, GpusAndKernelsWithoutProgrammaticLaunch) {
  auto said = [](run::Target const& target) {
    auto const outcome = run::check_target(target, {});
    return outcome ? "accepted" : to_text(outcome.error());
  };
  run::Target const fits{"NVIDIA H200", 9, "second", 90, 90};
  EXPECT_EQ(said(fits), "accepted");
  auto older = fits;
  older.device = "NVIDIA A100";
  older.compute_major = 8;
  EXPECT_EQ(
      said(older),
      "error E0516: the plan starts kernels early, and NVIDIA A100 has no programmatic dependent launch\n"
      "   compute capability 8.x; 9.0 is needed\n"
      "   hint: plan for this machine");
  auto ptx = fits;
  ptx.ptx_version = 80;
  EXPECT_EQ(said(ptx),
            "error E0517: second was compiled without the instructions of programmatic dependent launch\n"
            "   PTX version 80, binary version 90; both must be 90 or more\n"
            "   hint: compile it for sm_90 or later");
}

TEST(Refusal, KernelCompiledForAnOlderArchitecture) {
  auto const plan = plan_of(Mechanism::pdl_tiles);
  auto kernels = kernels_of(plan);
  kernels[1].function = edges::old_kernel();
  kernels[1].dynamic_shared_bytes = 0;
  EXPECT_THAT(
      refusal(plan, kernels),
      HasSubstr("E0517: second was compiled without the instructions of programmatic dependent launch"));
}

TEST(Refusal, StageWithoutAKernel) {
  auto const plan = plan_of(Mechanism::pdl);
  auto kernels = kernels_of(plan);
  kernels[1].function = nullptr;
  EXPECT_THAT(refusal(plan, kernels), HasSubstr("E0510: second has no kernel"));
}

TEST(Refusal, BlockThatDoesNotFit) {
  auto const plan = plan_of(Mechanism::pdl);
  auto kernels = kernels_of(plan);
  kernels[1].block = {2048, 1, 1};
  EXPECT_THAT(refusal(plan, kernels), HasSubstr("E0512: a block of second does not fit on an SM of "));
  kernels = kernels_of(plan);
  kernels[2].dynamic_shared_bytes = 300 * 1024;
  EXPECT_THAT(refusal(plan, kernels), HasSubstr("E0512: a block of third does not fit"));
}

TEST(Refusal, AnotherGrid) {
  auto const plan = plan_of(Mechanism::stream_order);
  auto kernels = kernels_of(plan);
  kernels[0].grid = {24, 19, 1};
  EXPECT_THAT(refusal(plan, kernels),
              HasSubstr("E0513: the grid (24, 19, 1) of first has 456 blocks, the plan 480"));
}

TEST(Refusal, WorkersThatAreNotResident) {
  auto plan = plan_of(Mechanism::fused);
  plan.launches.front().workers = 100000;
  EXPECT_THAT(refusal(plan, kernels_of(plan)),
              HasSubstr("E0515: 100000 workers of the persistent kernel of first + second + third "
                        "cannot all be resident"));
}

TEST(Refusal, ConsumersThatCouldHoldEverySm) {
  auto plan = plan_of(Mechanism::wait_kernel);
  for (auto& launch : plan.launches) launch.wait_kernel = false;
  auto const text = refusal(plan, kernels_of(plan));
  EXPECT_THAT(text, HasSubstr("E0514: with the compiled kernels on "));
  EXPECT_THAT(text, HasSubstr("E0302"));
}

TEST(Refusal, ClusterThatDoesNotDivideTheGrid) {
  auto const plan = plan_of(Mechanism::stream_order);
  auto kernels = kernels_of(plan);
  kernels[0].cluster = {7, 1, 1};
  EXPECT_THAT(refusal(plan, kernels), HasSubstr("E0518"));
}

TEST(Occupancy, IsThatOfTheCompiledKernelAndDifferencesAreSaid) {
  auto const plan = plan_of(Mechanism::pdl_tiles);
  auto const chain = Chain::make(plan, kernels_of(plan));
  ASSERT_TRUE(chain.has_value()) << to_text(chain.error());
  EXPECT_EQ(chain->occupancies()[0], 3);
  EXPECT_EQ(chain->occupancies()[1], 3);
  EXPECT_GT(chain->occupancies()[2], 3);
  ASSERT_EQ(chain->warnings().size(), 1u);
  EXPECT_THAT(to_text(chain->warnings()), HasSubstr("blocks of third fit on an SM, the plan assumed 3"));
}

}  // namespace
}  // namespace tessera
