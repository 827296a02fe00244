// SPDX-License-Identifier: Apache-2.0
#include "tessera/describe/loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "describe/uses.hpp"

namespace tessera {
namespace {

Stage stage_of(Loop const& loop, int index, int iteration) {
  auto stage = loop.body.stages[static_cast<std::size_t>(index)];
  stage.name = fmt::format("{}_{}", stage.name, iteration);
  stage.output = copy_name(loop, stage.output, iteration);
  for (auto& operand : stage.operands)
    operand.buffer = copy_name(loop, operand.buffer, iteration - distance_of(loop, index, operand.name));
  return stage;
}

}  // namespace

int copies_of(Loop const& loop, std::string const& buffer) {
  auto const known = std::find_if(loop.copies.begin(), loop.copies.end(),
                                  [&](BufferCopies const& one) { return one.buffer == buffer; });
  return known == loop.copies.end() ? 1 : known->copies;
}

int distance_of(Loop const& loop, int stage, std::string const& operand) {
  for (auto const& [dependence, distance] : loop.carried)
    if (dependence.consumer == stage && dependence.operand == operand) return distance;
  return 0;
}

std::string copy_name(Loop const& loop, std::string const& buffer, int iteration) {
  int const copies = copies_of(loop, buffer);
  if (copies == 1) return buffer;
  if (copies == BufferCopies::each_iteration) return fmt::format("{}#{}", buffer, iteration);
  return fmt::format("{}#{}", buffer, (iteration % copies + copies) % copies);
}

Pipeline unroll(Loop const& loop, int iterations) {
  Pipeline result;
  result.name = fmt::format("{}, {} iteration{}", loop.body.name, iterations, iterations == 1 ? "" : "s");
  result.where = loop.body.where;
  auto const stages = static_cast<int>(loop.body.stages.size());
  for (int n = 0; n < iterations; ++n) {
    for (int s = 0; s < stages; ++s) result.stages.push_back(stage_of(loop, s, n));
    auto const add = [&](Dependence dependence, int distance) {
      if (n < distance) return;
      dependence.consumer += n * stages;
      dependence.producer += (n - distance) * stages;
      result.dependences.push_back(std::move(dependence));
    };
    for (auto const& dependence : loop.body.dependences) add(dependence, 0);
    for (auto const& [dependence, distance] : loop.carried) add(dependence, distance);
  }
  int most_distance = 0;
  for (auto const& one : loop.carried) most_distance = std::max(most_distance, one.distance);
  for (auto const& buffer : loop.body.buffers) {
    std::set<std::string> names;
    for (int n = -most_distance; n < iterations; ++n) names.insert(copy_name(loop, buffer.name, n));
    for (auto copy = buffer; auto const& name : names)
      if (uses(result, name)) {
        copy.name = name;
        result.buffers.push_back(copy);
      }
  }
  return result;
}

int window_of(Loop const& loop) {
  int most = 1;
  for (auto const& one : loop.carried) most = std::max(most, one.distance);
  for (auto const& one : loop.copies) most = std::max(most, one.copies);
  return most + 2;
}

}  // namespace tessera
