// SPDX-License-Identifier: Apache-2.0
// Any bytes as a plan: a refusal with diagnostics, or a plan that is safe to index with and reads back the
// same.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/plan/plan_json.hpp"

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
  return 0;
}
