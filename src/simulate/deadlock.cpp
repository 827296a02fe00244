// SPDX-License-Identifier: Apache-2.0
#include "deadlock.hpp"

#include <fmt/format.h>

#include <map>
#include <set>

namespace tessera::simulation {
namespace {

constexpr int k_longest_chain = 8;

std::string coordinates(Stage const& stage, std::int64_t tile) {
  return tile_name(stage, tile).substr(stage.name.size());
}

SemaphoreSet const* set_of(Plan const& plan, std::int64_t semaphore) {
  for (auto const& set : plan.semaphores)
    if (semaphore >= set.first && semaphore < set.first + set.count) return &set;
  return nullptr;
}

/// "row 3 of gemm1", "tile (2, 3) of gemm1", "all of gemm1", "StridedSync group 4 of qkv".
std::string group_name(Plan const& plan, SemaphoreSet const& set, std::int64_t index) {
  auto const& producer = plan.pipeline.stages[static_cast<std::size_t>(set.producer)];
  auto const grid = producer.tile_grid();
  bool all_each = !set.map.is_table();
  bool all_all = all_each;
  for (int d = 0; d < grid.rank; ++d) {
    all_each = all_each && set.map.dimension[d].grouping == Grouping::each;
    all_all = all_all && set.map.dimension[d].grouping == Grouping::all;
  }
  if (all_each) return fmt::format("tile {} of {}", coordinates(producer, index), producer.name);
  if (all_all) return fmt::format("all of {}", producer.name);
  auto const x = set.map.dimension[0].grouping;
  auto const y = set.map.dimension[1].grouping;
  bool const rows_and_columns = grid.rank == 2 && !set.map.is_table();
  if (rows_and_columns && x == Grouping::all && y == Grouping::each)
    return fmt::format("row {} of {}", index, producer.name);
  if (rows_and_columns && x == Grouping::each && y == Grouping::all)
    return fmt::format("column {} of {}", index, producer.name);
  return fmt::format("{} group {} of {}", set.policy.empty() ? "policy" : set.policy, index, producer.name);
}

/// Why a block of `stage` that nobody placed has no place.
std::string holders(Gpu const& gpu, int stage) {
  auto const& plan = gpu.plan();
  auto const& kernel = gpu.kernel_of(stage);
  if (!kernel.eligible) return "its kernel has not been released to the GPU";
  if (kernel.kind == Kernel::Kind::workers && kernel.placed == kernel.blocks)
    return fmt::format("its ticket comes later and all {} workers wait", kernel.blocks);
  std::map<int, int> sms_by_stage;
  std::set<int> held;
  auto const slots = static_cast<int>(gpu.blocks().size()) / gpu.sms();
  for (int sm = 0; sm < gpu.sms(); ++sm) {
    std::set<int> here;
    for (int slot = 0; slot < slots; ++slot) {
      auto const& block = gpu.blocks()[static_cast<std::size_t>(sm * slots + slot)];
      if (block.phase != Phase::vacant) here.insert(block.stage);
    }
    for (auto const s : here) ++sms_by_stage[s];
    if (!here.empty()) held.insert(sm);
  }
  std::string names;
  for (auto const& [s, count] : sms_by_stage) {
    if (!names.empty()) names += " and ";
    names += s < 0 ? "idle workers" : plan.pipeline.stages[static_cast<std::size_t>(s)].name;
    if (sms_by_stage.size() > 1) names += fmt::format(" ({})", count);
  }
  return fmt::format("{} of {} SMs are held by {}", held.size(), gpu.sms(), names);
}

class Chain {
 public:
  explicit Chain(Gpu const& gpu) : gpu_(gpu), plan_(gpu.plan()) {
    posted_.resize(plan_.pipeline.stages.size());
    for (std::size_t s = 0; s < posted_.size(); ++s)
      posted_[s].assign(static_cast<std::size_t>(plan_.pipeline.stages[s].tiles()), 0);
    for (auto const& r : gpu.records())
      ++posted_[static_cast<std::size_t>(r.stage)][static_cast<std::size_t>(r.tile)];
  }

  std::vector<std::string> from(std::size_t block) {
    std::vector<std::string> lines;
    std::set<std::size_t> seen;
    while (static_cast<int>(lines.size()) < k_longest_chain) {
      if (!seen.insert(block).second) {
        lines.push_back("which is where the chain began: the tiles wait on each other");
        break;
      }
      auto const next = link(gpu_.blocks()[block], lines);
      if (next == k_end) break;
      block = next;
    }
    return lines;
  }

 private:
  static constexpr auto k_end = static_cast<std::size_t>(-1);

  std::size_t link(Block const& block, std::vector<std::string>& lines) {
    auto const& stage = plan_.pipeline.stages[static_cast<std::size_t>(block.stage)];
    auto const* set = set_of(plan_, block.waits_for);
    auto const who = fmt::format("{}{} tile {}", block.pads ? "a block that pads the cluster of " : "",
                                 stage.name, coordinates(stage, block.tile));
    if (set == nullptr) {
      lines.push_back(who + " waits for the completion of the stage before");
      return k_end;
    }
    auto const index = block.waits_for - set->first;
    auto const producer_index = static_cast<std::size_t>(set->producer);
    auto const& producer = plan_.pipeline.stages[producer_index];
    auto const grid = producer.tile_grid();
    auto const& semaphore = gpu_.semaphores()[static_cast<std::size_t>(block.waits_for)];
    std::int64_t missing = -1;
    for (std::int64_t t = 0; t < producer.tiles() && missing < 0; ++t)
      if (posted_[producer_index][static_cast<std::size_t>(t)] < producer.splits &&
          set->map.semaphore_of(grid, tile_of(grid, t)) == index)
        missing = t;
    auto text =
        fmt::format("{} waits for {} (semaphore {}): {} of {} posted", who, group_name(plan_, *set, index),
                    block.waits_for, semaphore.count, semaphore.value);
    if (missing < 0) {
      lines.push_back(text + "; every tile that posts to it is done");
      return k_end;
    }
    text += fmt::format("; missing {}: ", tile_name(producer, missing));
    for (std::size_t b = 0; b < gpu_.blocks().size(); ++b) {
      auto const& other = gpu_.blocks()[b];
      if (other.phase == Phase::vacant || other.phase == Phase::wait_kernel) continue;
      if (other.stage != set->producer || other.tile != missing || other.pads) continue;
      lines.push_back(text + fmt::format("started on SM {} and waiting", other.sm));
      return b;
    }
    lines.push_back(text + "not started, " + holders(gpu_, set->producer));
    return k_end;
  }

  Gpu const& gpu_;
  Plan const& plan_;
  std::vector<std::vector<std::int32_t>> posted_;
};

}  // namespace

Diagnostic explain_deadlock(Gpu const& gpu) {
  auto const& plan = gpu.plan();
  std::int64_t left = 0;
  std::int64_t blocks = 0;
  for (auto const& stage : gpu.stages()) {
    blocks += stage.blocks;
    left += stage.blocks - stage.left;
  }
  Diagnostic d;
  d.code = "E0501";
  d.where = plan.pipeline.where;
  d.message = fmt::format("{} under {} stops: {} of {} blocks are unfinished and nothing can happen any more",
                          plan.pipeline.name, mechanism_text(plan), left, blocks);
  Chain chain(gpu);
  for (std::size_t b = 0; b < gpu.blocks().size(); ++b) {
    auto const& block = gpu.blocks()[b];
    if (block.phase == Phase::vacant || block.waits_for < 0) continue;
    d.notes = chain.from(b);
    break;
  }
  if (d.notes.empty())
    for (std::size_t s = 0; s < gpu.stages().size(); ++s)
      if (!gpu.stages()[s].complete()) {
        d.notes.push_back(fmt::format("{}: {} of {} blocks started; {}", plan.pipeline.stages[s].name,
                                      gpu.stages()[s].started, gpu.stages()[s].blocks,
                                      holders(gpu, static_cast<int>(s))));
        break;
      }
  d.suggestion =
      "keep the consumer from taking the SMs first: a wait kernel, PDL, one persistent launch, or stream "
      "order";
  return d;
}

}  // namespace tessera::simulation
