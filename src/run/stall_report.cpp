// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "run/interpreter.hpp"

namespace tessera::run {
namespace {

constexpr std::size_t k_shown_tiles = 8;

std::string advice(Plan const& plan, int waiting_stage) {
  if (plan.launches[static_cast<std::size_t>(launch_of(plan, waiting_stage))].workers > 0)
    return "order the tickets so that every block comes after the blocks that it waits for, or use more "
           "workers";
  return "see that every producer tile posts to the semaphore that its consumers wait for; "
         "prove_progress() checks a plan before it runs";
}

}  // namespace

Diagnostic Interpreter::stall_report() const {
  auto const& record = progress_.stall;
  auto const& consumer = plan_.pipeline.stages[static_cast<std::size_t>(record.stage)];
  auto const waiting = tile_name(consumer, record.tile);

  SemaphoreSet const* awaited = nullptr;
  for (auto const& set : plan_.semaphores)
    if (record.semaphore >= set.first && record.semaphore < set.first + set.count) awaited = &set;
  if (awaited == nullptr)
    return {"E0502",
            Severity::error,
            consumer.where,
            fmt::format("{} waits for semaphore {}, which no stage posts to", waiting, record.semaphore),
            {},
            advice(plan_, record.stage)};

  auto const& producer = plan_.pipeline.stages[static_cast<std::size_t>(awaited->producer)];
  auto const grid = producer.tile_grid();
  auto const local = record.semaphore - awaited->first;
  auto const value = static_cast<unsigned>(awaited->map.tiles_of(grid, local) * producer.splits);
  auto const before = record.expected - value;  // what the launches before have posted

  std::vector<std::string> missing;
  std::size_t count = 0;
  auto const& blocks = state(awaited->producer).blocks;
  for (std::int64_t tile = 0; tile < producer.tiles(); ++tile) {
    if (awaited->map.semaphore_of(grid, tile_of(grid, tile)) != local) continue;
    for (int split = 0; split < producer.splits; ++split) {
      auto const block =
          blocks[static_cast<std::size_t>(split * producer.tiles() + tile)].load(std::memory_order_relaxed);
      if (block == BlockState::posted) continue;
      if (++count > k_shown_tiles) continue;
      missing.push_back(tile_name(producer, tile) +
                        (producer.splits > 1 ? fmt::format(" split {}", split) : "") +
                        (block == BlockState::started ? " started" : " not started"));
    }
  }
  Diagnostic report{
      "E0502",
      Severity::error,
      consumer.where,
      fmt::format("{} waits for semaphore {} of {} ({}): {} of {} posts", waiting, local, producer.name,
                  awaited->policy, record.seen - before, value),
      {fmt::format("seen {}, expected {}, in launch {} of {}; no progress for {:.3g} s with {} block slots",
                   record.seen, record.expected, run_ + 1, options_.launches, options_.deadline_seconds,
                   options_.workers)},
      advice(plan_, record.stage)};
  if (count > 0)
    report.notes.push_back(
        fmt::format("missing: {}{}", fmt::join(missing, ", "),
                    count > missing.size() ? fmt::format(" and {} more", count - missing.size()) : ""));
  else
    report.notes.push_back(
        "every block that should post to it has posted: the plan's values contradict its layout");
  return report;
}

}  // namespace tessera::run
