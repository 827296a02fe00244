// SPDX-License-Identifier: Apache-2.0
#include "tessera/run/loop_tables.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {
namespace {

/// With what a period reads and overwrites of earlier ones as if it were its own: the same waits, for posts
/// of other periods.
Plan with_carried(LoopPlan const& loop) {
  auto plan = loop.plan;
  for (auto const& edge : loop.carried) {
    plan.dependences.push_back({static_cast<int>(plan.pipeline.dependences.size()), edge.semaphore_set});
    plan.pipeline.dependences.push_back(edge.dependence);
  }
  for (auto const& reuse : loop.reuses)
    plan.reuse_edges.push_back({reuse.writer, reuse.reader, "", reuse.semaphore_set});
  return plan;
}

}  // namespace

Expected<LoopTables> describe_loop(LoopPlan const& loop) {
  auto const body = loop.loop.body.stages.size();
  bool const named = !loop.operations.empty();
  if (named && (loop.operations.size() != body ||
                std::any_of(loop.operations.begin(), loop.operations.end(), [](int one) { return one < 0; })))
    return refuse({"E0510",
                   Severity::error,
                   loop.loop.body.where,
                   fmt::format("loop \"{}\" has {} stages; {} operations were named, from {} up",
                               loop.loop.body.name, body, loop.operations.size(),
                               *std::min_element(loop.operations.begin(), loop.operations.end())),
                   {},
                   "name the operation of each stage of the body, from 0 up, or none"});
  auto tables = describe_stages(with_carried(loop));
  if (!tables) return tl::make_unexpected(tables.error());
  LoopTables result{std::move(*tables), {}, {}, 0};
  for (std::size_t s = 0; s < loop.plan.pipeline.stages.size(); ++s) {
    LoopRecord record;
    record.operation = named ? loop.operations[s % body] : static_cast<int>(s % body);
    record.body_stage = static_cast<int>(s % body);
    record.iteration = static_cast<int>(s / body);
    result.stages.push_back(record);
    result.tickets += loop.plan.pipeline.stages[s].blocks();
  }
  for (auto const& edge : loop.carried) {
    auto const consumer = static_cast<std::size_t>(edge.dependence.consumer);
    int const operand = operand_index(loop.plan.pipeline.stages[consumer], edge.dependence.operand);
    result.stages[consumer].back[operand] = static_cast<unsigned>(edge.distance);
  }
  // In the order in which describe_stages() listed the waits: the period's own edges first.
  auto& numbers = result.tables.numbers;
  auto const add = [&](int semaphore_set, int distance) {
    auto const count = loop.plan.semaphores[static_cast<std::size_t>(semaphore_set)].count;
    numbers.insert(numbers.end(), static_cast<std::size_t>(count), distance);
  };
  for (int s = 0; s < static_cast<int>(result.stages.size()); ++s) {
    result.backs.push_back(static_cast<std::int64_t>(numbers.size()));
    for (auto const& edge : loop.plan.reuse_edges)
      if (edge.writer == s) add(edge.semaphore_set, 0);
    for (auto const& reuse : loop.reuses)
      if (reuse.writer == s) add(reuse.semaphore_set, reuse.distance);
  }
  return result;
}

Expected<void> check_operations(LoopPlan const& plan, std::size_t given) {
  auto const& body = plan.loop.body;
  auto const& named = plan.operations;
  auto const wanted = named.empty()
                          ? body.stages.size()
                          : static_cast<std::size_t>(*std::max_element(named.begin(), named.end())) + 1;
  if (given == wanted) return {};
  return refuse(
      {"E0510",
       Severity::error,
       body.where,
       fmt::format("loop \"{}\" needs {} operations, {} were given", body.name, wanted, given),
       {},
       named.empty()
           ? fmt::format("give one for each of its {} stages, or name those that share one in operations",
                         body.stages.size())
           : fmt::format("its {} stages name operations from 0 to {}", body.stages.size(), wanted - 1)});
}

std::vector<LoopRecord> LoopTables::records(std::int32_t const* numbers_at,
                                            RuntimeWait const* waits_at) const {
  auto result = stages;
  for (std::size_t s = 0; s < result.size(); ++s) {
    result[s].stage = tables.stage(static_cast<int>(s), numbers_at, waits_at);
    result[s].back_of_stores = numbers_at + backs[s];
  }
  return result;
}

LoopTickets LoopTables::launch(LoopPlan const& plan) const {
  return {tickets, plan.period, plan.plan.launches.front().workers, 0};
}

Expected<LoopTickets> with_iterations(LoopTickets tickets, std::string const& loop, long long iterations) {
  if (iterations < 0 || iterations > k_most_loop_iterations) {
    Diagnostic d;
    d.code = "E0116";
    d.message = fmt::format("a launch of loop \"{}\" cannot have {} iterations", loop, iterations);
    d.suggestion = fmt::format("ask for 0 to {}", k_most_loop_iterations);
    return refuse(std::move(d));
  }
  tickets.iterations = iterations;
  return tickets;
}

LoopLaunch stage_launch(LoopTickets const& tickets, LoopRecord const& record, long long period) {
  LoopLaunch launch;
  launch.iteration = period * tickets.period + record.iteration;
  launch.asked = launch.iteration < tickets.iterations;
  launch.first = period == 0 && record.stage.index == 0;
  return launch;
}

}  // namespace tessera
