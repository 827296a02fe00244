// SPDX-License-Identifier: Apache-2.0
#include "check/loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "check/iterations.hpp"
#include "check/names.hpp"
#include "check/overwritten.hpp"
#include "describe/uses.hpp"
#include "tessera/check/check.hpp"

namespace tessera {
namespace check_detail {
namespace {

constexpr int k_most_distance = 64;  // iterations in flight beyond this are a mistake
constexpr int k_most_copies = 64;

bool is_stage(Pipeline const& body, int index) {
  return index >= 0 && index < static_cast<int>(body.stages.size());
}

Diagnostic fault(char const* code, SourceLine where, std::string message, std::vector<std::string> notes,
                 std::string way_out) {
  return {code, Severity::error, std::move(where), std::move(message), std::move(notes), std::move(way_out)};
}

/// Every tile reads itself and nothing else.
bool reads_own_tile(Dependence const& dependence) {
  if (dependence.accesses.size() != 1) return false;
  auto const& ranges = dependence.accesses.front().ranges;
  for (std::size_t d = 0; d < ranges.size(); ++d) {
    auto const own = TileExpr::dimension(static_cast<int>(d));
    if (!(ranges[d].begin == own) || !(ranges[d].end == own + TileExpr::constant(1))) return false;
  }
  return true;
}

void check_copies(Loop const& loop, Diagnostics& found) {
  std::set<std::string> named;
  for (auto const& [buffer, copies] : loop.copies) {
    if (!named.insert(buffer).second)
      found.push_back(fault("E0114", loop.body.where,
                            fmt::format("the copies of buffer {} are given twice", buffer), {},
                            "give them once"));
    if (copies < 0 || copies > k_most_copies)
      found.push_back(fault("E0114", loop.body.where,
                            fmt::format("buffer {} has {} copies: between 1 and {} are possible, or one for "
                                        "each iteration",
                                        buffer, copies, k_most_copies),
                            {}, "a distance of n iterations needs n + 1 copies at most"));
    if (!uses(loop.body, buffer))
      found.push_back(fault("E0114", loop.body.where,
                            fmt::format("buffer {} has copies, but no stage reads or writes it", buffer), {},
                            "name a stage's output, or the buffer of an operand"));
  }
}

void check_carried(Loop const& loop, CarriedDependence const& one, Diagnostics& found) {
  auto const& body = loop.body;
  auto const& [dependence, distance] = one;
  auto const where = place_of(body, dependence);
  if (!is_stage(body, dependence.consumer) || !is_stage(body, dependence.producer)) {
    found.push_back(fault(
        "E0114", where, "a dependence on an earlier iteration names a stage that does not exist",
        {fmt::format("the body has {}", count_text(static_cast<std::int64_t>(body.stages.size()), "stage"))},
        ""));
    return;
  }
  auto const consumer = name_of(body, dependence.consumer), producer = name_of(body, dependence.producer);
  if (distance < 1 || distance > k_most_distance)
    found.push_back(fault("E0114", where,
                          fmt::format("{} reads {} of {} iterations before: between 1 and {} are possible",
                                      consumer, producer, distance, k_most_distance),
                          {}, "a read within the iteration has no distance"));
  auto const clashes = [&](Dependence const& other) {
    return other.consumer == dependence.consumer && other.operand == dependence.operand;
  };
  bool const both =
      std::any_of(body.dependences.begin(), body.dependences.end(), clashes) ||
      std::any_of(loop.carried.begin(), loop.carried.end(), [&](CarriedDependence const& other) {
        return clashes(other.dependence) && other.distance != distance;
      });
  if (both)
    found.push_back(
        fault("E0114", where,
              fmt::format("operand {} of {} reads more than one iteration", dependence.operand, consumer),
              {"an operand is one copy of a buffer"}, "make an operand for each distance"));
}

/// What overwrites what `one` reads, if its buffer has so many copies, before it is read or at the same time;
/// empty: nothing does.
std::string overwriting(Loop const& loop, CarriedDependence const& one, int copies) {
  auto const& body = loop.body;
  auto const& [dependence, distance] = one;
  auto const& buffer = body.stages[static_cast<std::size_t>(dependence.producer)].output;
  if (copies == BufferCopies::each_iteration || copies > distance) return {};
  auto const consumer = name_of(body, dependence.consumer);
  for (int writer = 0; writer < static_cast<int>(body.stages.size()); ++writer) {
    if (body.stages[static_cast<std::size_t>(writer)].output != buffer) continue;
    if (copies < distance)
      return fmt::format("{} overwrites it {} later", name_of(body, writer), count_text(copies, "iteration"));
    if (writer > dependence.consumer) continue;  // read first, in stage order
    if (writer < dependence.consumer)
      return fmt::format("{} overwrites it before {} reads it", name_of(body, writer), consumer);
    if (!reads_own_tile(dependence))
      return fmt::format("tiles of {} overwrite it while others still read", consumer);
  }
  return {};
}

/// The fewest copies of a buffer with which nothing is overwritten too early.
int fewest_copies(Loop const& loop, std::string const& buffer) {
  int fewest = 1;
  for (auto const& one : loop.carried) {
    auto const producer = static_cast<std::size_t>(one.dependence.producer);
    if (loop.body.stages[producer].output != buffer) continue;
    fewest = std::max(fewest, overwriting(loop, one, one.distance).empty() ? one.distance : one.distance + 1);
  }
  return fewest;
}

void check_overwriting(Loop const& loop, CarriedDependence const& one, Diagnostics& found) {
  auto const& [dependence, distance] = one;
  auto const& buffer = loop.body.stages[static_cast<std::size_t>(dependence.producer)].output;
  int const copies = copies_of(loop, buffer);
  auto const overwrites = overwriting(loop, one, copies);
  if (overwrites.empty()) return;
  int const fewest = fewest_copies(loop, buffer);
  found.push_back(fault(
      "E0115", place_of(loop.body, dependence),
      fmt::format("{} reads {} of {} before, but {}", name_of(loop.body, dependence.consumer), buffer,
                  count_text(distance, "iteration"), overwrites),
      {fmt::format("buffer {} has {}", buffer, copies == 1 ? "1 copy" : fmt::format("{} copies", copies))},
      fewest <= k_most_copies ? fmt::format("give {} {} copies", buffer, fewest)
                              : fmt::format("give {} a copy for each iteration", buffer)));
}

}  // namespace

Diagnostics faults_of(Loop const& loop) {
  Diagnostics found;
  check_copies(loop, found);
  for (auto const& one : loop.carried) check_carried(loop, one, found);
  if (!found.empty()) return found;
  for (auto const& one : loop.carried) check_overwriting(loop, one, found);
  return found;
}

namespace {

/// In the first iterations nothing was computed before, and what a tile reads through a carried dependence
/// has none; it is described all the same.
void forget_described(Loop const& loop, Pipeline const& pipeline, Diagnostics& found) {
  for (auto const& [dependence, distance] : loop.carried)
    for (int n = 0; n < distance; ++n) {
      auto const index = static_cast<std::size_t>(dependence.consumer) +
                         static_cast<std::size_t>(n) * loop.body.stages.size();
      if (index >= pipeline.stages.size()) break;
      auto const& stage = pipeline.stages[index];
      for (auto const& operand : stage.operands)
        if (operand.name == dependence.operand) std::erase(found, undescribed(pipeline, stage, operand));
    }
}

}  // namespace

}  // namespace check_detail

Expected<CheckedPipeline> check(Loop const& loop, int iterations) {
  if (auto found = check_detail::faults_of(loop); !found.empty())
    return tl::make_unexpected(std::move(found));
  if (iterations < 1 || iterations > k_most_iterations) {
    Diagnostic d;
    d.code = "E0114";
    d.where = loop.body.where;
    d.message = fmt::format("{} iterations cannot be written out: between 1 and {} can", iterations,
                            k_most_iterations);
    d.suggestion = "check or plan a few; more of them repeat what these do";
    return refuse(std::move(d));
  }
  // Few iterations have every mistake that many have, and what is right in them is right in many.
  int const window = window_of(loop);
  auto pipeline = unroll(loop, window);
  auto checked = check(pipeline);
  if (!checked) {
    check_detail::forget_described(loop, pipeline, checked.error());
    return tl::make_unexpected(
        check_detail::once_each(checked.error(), loop, std::max(iterations - window, 0)));
  }
  if (iterations != window) pipeline = unroll(loop, iterations), checked = check(pipeline);
  if (checked) {
    check_detail::forget_described(loop, pipeline, checked->warnings_);
    checked->warnings_ = check_detail::once_each(checked->warnings_, loop);
    checked->iteration_stages_ = static_cast<int>(loop.body.stages.size());
  }
  return checked;
}

}  // namespace tessera
