// SPDX-License-Identifier: Apache-2.0
#include "tessera/measure/residency.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {
namespace {

constexpr long long k_warp = 32;

long long round_up(long long value, long long step) { return (value + step - 1) / step * step; }

/// What one block takes, in the order of ResourceUse: threads, registers, shared memory, slots.
struct Taken {
  long long threads, registers, shared, slots;
};
Taken taken(MachineProfile const& m, Resources const& r) {
  long long const warps = round_up(std::max(r.threads, 1), k_warp) / k_warp;
  return {
      warps * k_warp, warps * round_up(std::max(r.registers_per_thread, 1) * k_warp, m.register_granularity),
      round_up(static_cast<long long>(r.shared_bytes) + m.shared_reserved_per_block, m.shared_granularity),
      1};
}

ResourceUse use(std::string name, long long capacity, long long first, long long second, int resident) {
  ResourceUse u{std::move(name), capacity, first * resident, capacity - first * resident, first, second, 0};
  u.room_for = second > 0 ? std::max(0LL, u.free) / second : capacity;
  return u;
}

/// Of up to 228 KiB; a smaller SM ends with what it has.
long long division(MachineProfile const& m, Taken const& one, int blocks) {
  constexpr long long k_steps[] = {0, 8, 16, 32, 64, 100, 132, 164, 196, 228};
  for (long long const step : k_steps)
    if (step * 1024 >= one.shared * blocks) return std::min<long long>(step * 1024, m.shared_bytes_per_sm);
  return m.shared_bytes_per_sm;
}

/// What a block keeps that does anything: 16 registers of each thread, a warp, what the system takes.
long long least_of(ResourceUse const& u, MachineProfile const& m, Taken const& one) {
  if (u.resource == "registers") return 16 * one.threads;
  if (u.resource == "threads") return k_warp;
  return u.resource == "shared memory" ? m.shared_reserved_per_block : 0;
}

struct Remedy {
  std::string text;    ///< "": there is none
  bool enough = true;  ///< false: a block keeps less than it needs to run
};

/// `first`, `second`: the least that a block of each keeps.
Remedy remedy(ResourceUse const& u, int resident, long long first, long long second) {
  long long const missing = u.one_second - u.free;
  if (u.one_second > u.capacity) return {};
  if (u.resource == "block slots") return {"fewer, larger blocks of the first kernel"};
  long long const each = (missing + resident - 1) / std::max(resident, 1);
  auto const unit = u.resource == "shared memory" ? "bytes of shared memory" : u.resource.c_str();
  bool const enough = u.one_first - each >= first || u.one_second - missing >= second;
  return {fmt::format("take {} {} from each block of the first kernel ({} of {}), or {} from the second{}",
                      each, unit, std::max(0LL, u.one_first - each), u.one_first, missing,
                      enough ? "" : ": too little is left to run with"),
          enough};
}

/// Most blocks of the first kernel, below `n`, that leave room for one of the second; 0: not even one does.
int most_beside(std::vector<ResourceUse> const& uses, int n) {
  for (int fewer = n - 1; fewer > 0; --fewer)
    if (std::all_of(uses.begin(), uses.end(),
                    [&](ResourceUse const& u) { return u.capacity - fewer * u.one_first >= u.one_second; }))
      return fewer;
  return 0;
}

}  // namespace

CoResidency why_not(MachineProfile const& machine, Resources const& first, Resources const& second,
                    int first_resident) {
  CoResidency answer;
  answer.first_alone = occupancy(machine, first);
  answer.second_alone = occupancy(machine, second);
  answer.first_resident =
      first_resident <= 0 ? answer.first_alone : std::min(first_resident, answer.first_alone);
  auto const a = taken(machine, first);
  auto const b = taken(machine, second);
  answer.first_division = division(machine, a, answer.first_alone);
  answer.second_division = division(machine, b, answer.second_alone);
  int const n = answer.first_resident;
  answer.uses = {use("shared memory", machine.shared_bytes_per_sm, a.shared, b.shared, n),
                 use("registers", machine.registers_per_sm, a.registers, b.registers, n),
                 use("threads", machine.threads_per_sm, a.threads, b.threads, n),
                 use("block slots", machine.blocks_per_sm, a.slots, b.slots, n)};
  long long least = answer.second_alone;
  for (auto const& u : answer.uses) least = std::min(least, u.room_for);
  if (answer.first_alone == 0) {
    answer.stopped_by = occupancy_limiter(machine, first);
    answer.remedies = {
        fmt::format("no SM of this machine holds even one block of the first kernel: it needs less {}",
                    answer.stopped_by)};
    return answer;
  }
  answer.second_beside = static_cast<int>(least);
  if (least > 0) return answer;
  if (answer.second_alone == 0) {
    answer.stopped_by = occupancy_limiter(machine, second);
    answer.remedies = {
        fmt::format("no SM of this machine holds even one block of the second kernel: it needs less {}",
                    answer.stopped_by)};
    return answer;
  }
  bool enough = true;
  for (auto const& u : answer.uses)
    if (u.room_for == 0) {
      if (answer.stopped_by.empty()) answer.stopped_by = u.resource;
      auto one = remedy(u, n, least_of(u, machine, a), least_of(u, machine, b));
      enough = enough && one.enough;
      if (!one.text.empty()) answer.remedies.push_back(std::move(one.text));
    }
  if (int const most = most_beside(answer.uses, n); most > 0)
    answer.remedies.push_back(fmt::format("{}launch fewer blocks of the first kernel: at most {} on an SM",
                                          answer.remedies.size() > 1 ? "instead of all these: " : "", most));
  else if (!enough)
    answer.remedies.push_back(
        "so none of these: choose kernels with smaller blocks, or let them follow each other");
  return answer;
}

std::string to_text(CoResidency const& answer, std::string const& first, std::string const& second) {
  std::string text;
  if (answer.first_alone == 0)
    text = fmt::format("No block of {} fits on an SM: {} stops it.\n", first, answer.stopped_by);
  else if (answer.second_beside > 0)
    text = fmt::format("{} block{} of {} fit{} on an SM beside {} of {}.\n", answer.second_beside,
                       answer.second_beside == 1 ? "" : "s", second, answer.second_beside == 1 ? "s" : "",
                       answer.first_resident, first);
  else
    text = fmt::format("No block of {} fits on an SM beside {} of {}: {} stops it.\n", second,
                       answer.first_resident, first, answer.stopped_by);
  text += fmt::format("Alone an SM holds {} of {}, and {} of {}.\n\n", answer.first_alone, first,
                      answer.second_alone, second);
  text += fmt::format("{:<14}{:>10}{:>10}{:>10}{:>16}{:>16}{:>10}\n", "resource", "capacity", "taken", "free",
                      "a first block", "a second block", "room for");
  for (auto const& u : answer.uses)
    text += fmt::format("{:<14}{:>10}{:>10}{:>10}{:>16}{:>16}{:>10}\n", u.resource, u.capacity, u.resident,
                        u.free, u.one_first, u.one_second, u.room_for);
  if (!answer.remedies.empty()) text += "\nWhat would make room:\n";
  for (auto const& remedy_text : answer.remedies) text += "  - " + remedy_text + "\n";
  if (answer.second_beside > 0 && answer.first_division != answer.second_division)
    text += fmt::format(
        "\nBut by default an SM's memory is divided into L1 and shared memory as a kernel asks:\n"
        "  - {} KiB of shared memory for {}\n  - {} KiB for {}\n"
        "and blocks that ask for different divisions do not share an SM. Give both kernels the same\n"
        "cudaFuncAttributePreferredSharedMemoryCarveout (a plan's chain does).\n",
        answer.first_division / 1024, first, answer.second_division / 1024, second);
  return text;
}

}  // namespace tessera
