// SPDX-License-Identifier: Apache-2.0
// Loops in one persistent launch on a GPU: any number of iterations, equal bits.
#include <chrono>
#include <cstdio>

#include "run_gpu/device_data.hpp"
#include "run_gpu/loop_data.hpp"
#include "tessera/run/device.hpp"

namespace tessera {
namespace {

using loop_tiles::k_width;
using vector_chain::device_array;
using vector_chain::device_copy;
using vector_chain::Stream;

class LoopLaunch : public testing::Test {
 protected:
  void SetUp() override {
    auto here = with_device();
    ASSERT_TRUE(here) << to_text(here.error());
    machine = *here;
  }
  MachineProfile machine;
};

void check_stencil(MachineProfile const& machine, int columns, int slow, std::vector<int> const& launches) {
  auto const plan = plan_loop(loop_tiles::stencil_loop(columns, {k_width, 64, 0}), machine);
  ASSERT_TRUE(plan) << to_text(plan.error());
  EXPECT_EQ(plan->period, 2);
  EXPECT_TRUE(plan->reuses.empty());
  auto const count = static_cast<std::size_t>(columns) * k_width;
  std::vector<unsigned> now(count);
  for (std::size_t i = 0; i < count; ++i) now[i] = static_cast<unsigned>(i * 31 + 7);
  auto const even = device_array<unsigned>(count), odd = device_copy(now);
  auto chain = loop_tiles::StencilLoop::make(*plan, {{even.get(), odd.get()}, columns, slow}, {});
  ASSERT_TRUE(chain) << to_text(chain.error());
  Stream const stream;
  for (int const iterations : launches) {
    ASSERT_TRUE(chain->launch(stream, iterations));
    auto const done = chain->finish();
    ASSERT_TRUE(done) << to_text(done.error());
    for (int n = 0; n < iterations; ++n) now = loop_tiles::stepped(now, columns);
    std::vector<unsigned> found(count);
    auto const* const last = iterations % 2 == 0 ? odd.get() : even.get();
    ASSERT_EQ(cudaMemcpy(found.data(), last, count * sizeof(unsigned), cudaMemcpyDeviceToHost), cudaSuccess);
    ASSERT_EQ(found, now) << iterations << " iterations";
    // The next launch begins with copy 1.
    if (last != odd.get()) {
      ASSERT_EQ(cudaMemcpy(odd.get(), last, count * sizeof(unsigned), cudaMemcpyDeviceToDevice), cudaSuccess);
    }
  }
}

TEST_F(LoopLaunch, AStencilIsRightForAnyNumberOfIterations) {
  check_stencil(machine, 300, 0, {1, 2, 7, 1, 1000, 0, 10});
  check_stencil(machine, 5000, 0, {3, 50});
}

TEST_F(LoopLaunch, LateTilesChangeNothing) { check_stencil(machine, 400, 23, {10, 1, 100}); }

TEST_F(LoopLaunch, TwoHundredStagesAreOneKernel) {
  int const stages = 200, columns = 12;
  auto const plan = loop_tiles::many_stages_plan(stages, columns, {k_width, 64, 0}, machine, 64);
  ASSERT_TRUE(plan) << to_text(plan.error());
  auto const count = static_cast<std::size_t>(stages) * columns * k_width;
  auto const values = device_array<unsigned>(count);
  auto chain = loop_tiles::ManyStages::make(*plan, values.get(), {});
  ASSERT_TRUE(chain) << to_text(chain.error());
  Stream const stream;
  for (long long const iterations : {1, 40}) {
    ASSERT_TRUE(chain->launch(stream, iterations));
    auto const done = chain->finish();
    ASSERT_TRUE(done) << to_text(done.error());
    std::vector<unsigned> found(count);
    ASSERT_EQ(cudaMemcpy(found.data(), values.get(), count * sizeof(unsigned), cudaMemcpyDeviceToHost),
              cudaSuccess);
    loop_tiles::expect_many_stages(found, stages, columns, iterations);
  }
  auto const since = std::chrono::steady_clock::now();
  ASSERT_TRUE(chain->launch(stream, 1000));
  ASSERT_TRUE(chain->finish());
  double const us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - since).count();
  std::printf("200000 stages of %d tiles by %d workers: %.3f us a stage\n", columns,
              plan->plan.launches.front().workers, us / 200000);
}

}  // namespace
}  // namespace tessera
