// SPDX-License-Identifier: Apache-2.0
// Any bytes as a plan: a refusal with diagnostics, or a plan that is safe to index with and reads back the
// same.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/plan/plan_json.hpp"
#include "tessera/simulate/simulate.hpp"

namespace {

/// Two SMs and round numbers: enough for a plan to run at all.
tessera::MachineProfile small_machine() {
  tessera::MachineProfile machine;
  machine.name = "small";
  machine.sms = 2;
  machine.shared_bytes_per_sm = 160 * 1024;
  machine.shared_bytes_per_block = 128 * 1024;
  machine.clock_ghz = 1;
  machine.matrix_flops_per_clock_per_sm = 1024;
  machine.dram_gbps = 1000;
  machine.l2_gbps = 4000;
  machine.l2_mib = 1;
  machine.sm_load_gbps = 50;
  machine.launch_ns = 1000;
  machine.has_pdl = true;
  machine.dispatches_in_launch_order = true;
  return machine;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const plan =
      tessera::parse_plan(std::string_view(reinterpret_cast<char const*>(data), size), "fuzz.json");
  if (!plan) {
    if (plan.error().empty()) std::abort();
    return 0;
  }
  auto const text = tessera::print_plan(*plan);
  auto const again = tessera::parse_plan(text, "again.json");
  if (!again || tessera::print_plan(*again) != text) std::abort();

  // What the runtime does with a plan: every look-up stays inside what the plan says it has.
  std::int64_t semaphores = 0;
  for (auto const& set : plan->semaphores) semaphores = std::max(semaphores, set.first + set.count);
  for (std::size_t s = 0; s < plan->pipeline.stages.size(); ++s) {
    auto const& stage = plan->pipeline.stages[s];
    for (std::int64_t block = 0; block < std::min<std::int64_t>(stage.blocks(), 64); ++block) {
      auto const work = tessera::block_work(stage, plan->stages[s], block);
      if (work.tile < 0 || work.tile >= stage.tiles() || work.split < 0 || work.split >= stage.splits)
        std::abort();
      for (auto const semaphore : tessera::posted_by(*plan, static_cast<int>(s), work.tile))
        if (semaphore < 0 || semaphore >= semaphores) std::abort();
    }
  }
  for (std::size_t d = 0; d < plan->dependences.size(); ++d) {
    auto const consumer = static_cast<std::size_t>(plan->pipeline.dependences[d].consumer);
    auto const tiles = std::min<std::int64_t>(plan->pipeline.stages[consumer].tiles(), 16);
    for (std::int64_t tile = 0; tile < tiles; ++tile)
      for (auto const& awaited : tessera::awaited_by(*plan, static_cast<int>(d), tile))
        if (awaited.semaphore < 0 || awaited.semaphore >= semaphores || awaited.value < 1) std::abort();
  }

  // It runs, or is refused in words; large ones would only take long.
  std::int64_t blocks = 0;
  for (auto const& stage : plan->pipeline.stages) blocks += stage.blocks();
  if (blocks <= 2000) (void)tessera::simulate(*plan, small_machine(), {false});
  return 0;
}
