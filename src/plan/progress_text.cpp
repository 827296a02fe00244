// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "progress_kernels.hpp"

namespace tessera::progress {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

constexpr std::size_t k_max_holders = 3;  // kernels that a message lists
constexpr int k_max_pairs = 16;           // the best example is looked for among so many waiting blocks

std::string name_of(Plan const& plan, Block block) {
  auto const& stage = plan.pipeline.stages[at(block.stage)];
  auto const work = block_work(stage, plan.stages[at(block.stage)], block.index);
  auto text = tile_name(stage, work.tile);
  if (stage.splits > 1) text += fmt::format(" split {}", work.split);
  return text;
}

std::string name_of(Setting const& setting, int k, std::int64_t block) {
  auto const& kernel = setting.kernels[at(k)];
  if (kernel.is_wait) return "the wait kernel of " + setting.plan.pipeline.stages[at(kernel.stage)].name;
  return name_of(setting.plan, {kernel.stage, block});
}

/// A stuck block and an unstarted one that it waits for.
struct Pair {
  Block waits{-1, 0};
  Block missing{-1, 0};
};

/// Prefers a pair whose missing block is of `stage`.
Pair waiting_pair(Setting const& setting, Stuck const& stuck, int stage) {
  auto const& plan = setting.plan;
  std::map<Block, bool> resident;
  for (auto const& held : stuck.held)
    if (auto const& kernel = setting.kernels[at(held.kernel)]; !kernel.is_wait)
      resident[{kernel.stage, held.block}] = true;

  // Which blocks have run is not in the state's description; a resident one's missing producers are those
  // that cannot have finished: resident themselves, or of the kernel without room from its next block on.
  Pair found;
  int tried = 0;
  for (auto const& [block, unused] : resident) {
    if (++tried > k_max_pairs && found.waits.stage >= 0) break;
    auto const tile =
        block_work(plan.pipeline.stages[at(block.stage)], plan.stages[at(block.stage)], block.index).tile;
    std::vector<Need> needs;
    for (auto const list : setting.waits.lists_of(block.stage, tile))
      needs.insert(needs.end(), setting.waits.needs(list).begin(), setting.waits.needs(list).end());
    std::sort(needs.begin(), needs.end());
    for (int s = 0; s < block.stage; ++s) {
      if (s != stage && found.waits.stage >= 0) continue;
      auto const from = setting.kernel_of[at(s)] == stuck.kernel ? stuck.next : 0;
      for (auto b = from; b < plan.pipeline.stages[at(s)].blocks(); ++b) {
        if (resident.count({s, b}) != 0) continue;
        auto const producer = block_work(plan.pipeline.stages[at(s)], plan.stages[at(s)], b).tile;
        auto const posts = posted_by(plan, s, producer);
        bool const awaited = std::any_of(posts.begin(), posts.end(), [&](std::int64_t semaphore) {
          auto const place = std::lower_bound(needs.begin(), needs.end(), Need{semaphore, 0});
          return place != needs.end() && place->semaphore == semaphore;
        });
        if (!awaited) continue;
        found = {block, {s, b}};
        if (s == stage) return found;
        break;
      }
    }
  }
  return found;
}

struct Holder {
  int kernel;
  std::int64_t blocks = 0;
  std::int64_t least = 0, most = 0;  ///< on one SM
};

std::vector<Holder> holders_of(Setting const& setting, Stuck const& stuck) {
  std::map<int, std::vector<std::int64_t>> on_sm;
  for (auto const& held : stuck.held) {
    auto& counts = on_sm[held.kernel];
    counts.resize(at(setting.sms));
    ++counts[at(held.sm)];
  }
  std::vector<Holder> holders;
  for (auto const& [kernel, counts] : on_sm) {
    Holder holder{kernel, 0, counts[0], counts[0]};
    for (auto const count : counts) {
      holder.blocks += count;
      holder.least = std::min(holder.least, count);
      holder.most = std::max(holder.most, count);
    }
    holders.push_back(holder);
  }
  return holders;
}

std::string all_sms(int sms) { return sms == 1 ? "the only SM" : fmt::format("all {} SMs", sms); }

/// Has the next block of a stage no room either, once the stuck blocks are where they are?
bool fits_nowhere(Setting const& setting, Stuck const& stuck, int stage) {
  std::vector<SmRoom> left(at(setting.sms), setting.sm);
  for (auto const& held : stuck.held) left[at(held.sm)] -= setting.kernels[at(held.kernel)].use;
  auto const& use = setting.kernels[at(setting.kernel_of[at(stage)])].use;
  return std::none_of(left.begin(), left.end(), [&](SmRoom const& room) { return room.holds(use); });
}

std::string text_of(Setting const& setting, Holder const& holder) {
  auto const& kernel = setting.kernels[at(holder.kernel)];
  auto const& name = setting.plan.pipeline.stages[at(kernel.stage)].name;
  if (kernel.is_wait) return "the wait kernel of " + name;
  auto const share = holder.least == holder.most ? fmt::format("{} on each", holder.most)
                                                 : fmt::format("at most {} on one", holder.most);
  if (holder.blocks == kernel.blocks)
    return kernel.blocks == 1 ? fmt::format("the only block of {}", name)
                              : fmt::format("all {} blocks of {} ({})", kernel.blocks, name, share);
  return fmt::format("{} of {}'s {} blocks ({})", holder.blocks, name, kernel.blocks, share);
}

/// The first stage after `before`, up to `stage`, that has no wait kernel; empty: all have.
std::string first_without_wait_kernel(Setting const& setting, int before, int stage) {
  for (int s = before + 1; s <= stage; ++s)
    if (setting.wait_kernel_of[at(s)] < 0) return setting.plan.pipeline.stages[at(s)].name;
  return {};
}

std::string why_first(Setting const& setting, int stage, int before) {
  auto const& stages = setting.plan.pipeline.stages;
  auto const& later = stages[at(stage)].name;
  auto const& earlier = stages[at(before)].name;
  if (!setting.in_order)
    return fmt::format(
        "{} gives no guarantee that blocks of an older kernel go first, so blocks of {} may be "
        "placed before those of {}",
        setting.machine.name, later, earlier);
  if (auto const open = first_without_wait_kernel(setting, before, stage); !open.empty())
    return fmt::format("{} has no wait kernel, so blocks of {} may be placed before those of {}", open, later,
                       earlier);
  return fmt::format("wait kernels hold block slots while {} has not started", earlier);
}

}  // namespace

Diagnostic describe(Setting const& setting, Stuck const& stuck) {
  auto const& plan = setting.plan;
  auto const& stages = plan.pipeline.stages;
  auto const& blocked = setting.kernels[at(stuck.kernel)];
  auto const pair = waiting_pair(setting, stuck, blocked.stage);
  auto const holders = holders_of(setting, stuck);
  int last = blocked.stage;
  std::string list;
  for (std::size_t i = 0; i < holders.size(); ++i) {
    last = std::max(last, setting.kernels[at(holders[i].kernel)].stage);
    if (i > k_max_holders) continue;
    if (i > 0) list += i + 1 == holders.size() || i == k_max_holders ? " and " : ", ";
    list += i == k_max_holders && i + 1 < holders.size()
                ? fmt::format("blocks of {} more kernels", holders.size() - k_max_holders)
                : text_of(setting, holders[i]);
  }

  Diagnostic result;
  result.code = "E0302";
  result.where = stages[at(last)].where;
  auto const next = name_of(setting, stuck.kernel, stuck.next);
  auto const hold = fmt::format("{} can hold {} while ", list, all_sms(setting.sms));
  if (pair.waits.stage < 0) {
    result.message = hold + next + " has not started";
    // Then only wait kernels are left to hold room, each for the stage before its own.
    if (!holders.empty()) {
      auto const waited = setting.kernels[at(holders.front().kernel)].stage - 1;
      result.message += fmt::format(": {} waits for the first block of {}", text_of(setting, holders.front()),
                                    stages[at(waited)].name);
    }
  } else {
    auto const waits = name_of(plan, pair.waits);
    auto const missing = name_of(plan, pair.missing);
    if (missing == next || fits_nowhere(setting, stuck, pair.missing.stage))
      result.message = fmt::format("{}{} has not started: {} waits for it", hold, missing, waits);
    else
      result.message =
          fmt::format("{}{} is next and has no room: {} waits for {}, which has to come after it", hold, next,
                      waits, missing);
  }

  int earliest = blocked.is_wait ? blocked.stage - 1 : blocked.stage;
  if (pair.missing.stage >= 0) earliest = std::min(earliest, pair.missing.stage);
  if (last > earliest) result.notes.push_back(why_first(setting, last, earliest));
  if (holders.size() == 1 && !setting.kernels[at(holders[0].kernel)].is_wait && pair.missing.stage >= 0) {
    auto const& holder = setting.kernels[at(holders[0].kernel)];
    auto const missing = setting.kernel_of[at(pair.missing.stage)];
    auto const each = blocks_to_keep_out(setting, missing, holders[0].kernel);
    auto const safe = each * setting.sms - 1;
    if (each > 0 && holder.waiting > safe)
      result.notes.push_back(fmt::format("{} of {}'s blocks wait for others; up to {} would leave room",
                                         holder.waiting == holder.blocks
                                             ? fmt::format("all {}", holder.blocks)
                                             : fmt::format("{}", holder.waiting),
                                         stages[at(holder.stage)].name, safe));
  }
  auto const& later = stages[at(last)].name;
  if (!setting.in_order)
    result.suggestion = fmt::format("use PDL or one fused launch, or fewer blocks in {}", later);
  else if (last > earliest && !setting.is_forced_before(earliest, last))
    result.suggestion =
        fmt::format("give {} a wait kernel, use PDL or one fused launch, or fewer blocks in {}",
                    first_without_wait_kernel(setting, earliest, last), later);
  else
    result.suggestion = "use PDL or one fused launch";
  return result;
}

}  // namespace tessera::progress
