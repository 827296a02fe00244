// SPDX-License-Identifier: Apache-2.0
#include "soak/counts.hpp"

#include <fmt/format.h>

#include <sstream>

namespace tessera::soak {
namespace {

bool is_held(std::string const& kind) { return kind.rfind("held_", 0) == 0; }
bool should_stall(std::string const& kind) {
  return kind.rfind("held_tile", 0) == 0 || kind.rfind("stall", 0) == 0;
}

}  // namespace

void Counts::add(Counts const& more) {
  cases += more.cases, launches += more.launches, refused_plans += more.refused_plans;
  for (auto const& [kind, count] : more.faults) {
    auto& mine = faults[kind];
    mine.injected += count.injected, mine.said += count.said, mine.right += count.right;
  }
}

FaultCount Counts::all() const {
  FaultCount sum;
  for (auto const& [kind, count] : faults)
    sum.injected += count.injected, sum.said += count.said, sum.right += count.right;
  return sum;
}

std::uint64_t Counts::stalls() const {
  std::uint64_t sum = 0;
  for (auto const& [kind, count] : faults)
    if (is_held(kind) || should_stall(kind)) sum += count.said;
  return sum;
}

std::string Counts::never_stalls() const {
  constexpr std::uint64_t k_enough = 20;
  for (auto const& [kind, count] : faults)
    if (should_stall(kind) && count.injected >= k_enough && count.said == 0) return kind;
  return {};
}

std::string state_text(std::uint64_t seed, Counts const& counts) {
  auto text = fmt::format("{} {} {} {}\n", seed, counts.cases, counts.launches, counts.refused_plans);
  for (auto const& [kind, count] : counts.faults)
    text += fmt::format("{} {} {} {}\n", kind, count.injected, count.said, count.right);
  return text;
}

std::optional<State> read_state(std::string const& text) {
  std::istringstream in(text);
  State state;
  if (!(in >> state.seed >> state.counts.cases >> state.counts.launches >> state.counts.refused_plans))
    return std::nullopt;
  for (std::string kind; in >> kind;) {
    FaultCount count;
    if (!(in >> count.injected >> count.said >> count.right)) return std::nullopt;
    state.counts.faults[kind] = count;
  }
  return state;
}

std::string to_json(State const& state, int failures, double seconds) {
  auto const& counts = state.counts;
  auto const all = counts.all();
  auto text = fmt::format(
      "{{\"seed\": {}, \"cases\": {}, \"compared_launches\": {}, \"faults\": {}, \"said\": {}, \"right\": "
      "{}, "
      "\"stalls\": {}, \"refused_plans\": {}, \"failures\": {}, \"seconds\": {:.1f}, \"by_kind\": {{",
      state.seed, counts.cases, counts.launches, all.injected, all.said, all.right, counts.stalls(),
      counts.refused_plans, failures, seconds);
  char const* between = "";
  for (auto const& [kind, count] : counts.faults) {
    text += fmt::format("{}\"{}\": {{\"faults\": {}, \"said\": {}, \"right\": {}}}", between, kind,
                        count.injected, count.said, count.right);
    between = ", ";
  }
  return text + "}}";
}

}  // namespace tessera::soak
