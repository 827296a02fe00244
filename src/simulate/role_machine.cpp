// SPDX-License-Identifier: Apache-2.0
#include "tessera/simulate/role_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "tessera/measure/measured.hpp"

namespace tessera {
namespace {

constexpr double k_kib = 1024;
/// Of the H200 on which notes-skinny counted cycles.
constexpr double k_cycles_per_ns = 1.98;

InFlightCurve dram_share() {
  constexpr double most = 17.8;
  return {{46 * k_kib, 16.3 / most}, {69 * k_kib, 17.4 / most}, {92 * k_kib, 1}};
}

InFlightCurve late_load() {
  InFlightCurve curve;
  for (auto const& [kib, cycles] : {std::pair{0.0, 664.0},
                                    {46.0, 1300.0},
                                    {69.0, 2200.0},
                                    {92.0, 3400.0},
                                    {115.0, 4300.0},
                                    {138.0, 5250.0}})
    curve.push_back({kib * k_kib, cycles / k_cycles_per_ns});
  return curve;
}

using M = RoleMachine;
RoleFigure const k_figures[] = {
    {"dram_gbps", "1e9 byte/s", &M::dram_gbps,
     "machine profile: memory.dram.read of its probe, the slope without the launch; else dram_gbps"},
    {"l2_gbps", "1e9 byte/s", &M::l2_gbps, "machine profile: l2_gbps"},
    {"sm_load_gbps", "1e9 byte/s", &M::sm_load_gbps, "machine profile: sm_load_gbps"},
    {"load_ns", "ns", &M::load_ns,
     "machine profile: memory.dram.latency less memory.l2.hit of its probe, 204 on an H200, and 664 cycles "
     "of "
     "a load by the copy engine that hits L2 (notes-skinny.md); without a probe dram_latency_ns"},
    {"slowest_sm", "1", &M::slowest_sm,
     "notes-skinny.md, stamps of the hand-written kernel (GPT-3, one token): from the first load of weights "
     "at "
     "-1.7 us until the first GEMM is multiplied the SMs take 33.7 to 41.7 us, 36.9 in the mean"},
    {"fastest_sm", "1", &M::fastest_sm, "the same"},
    {"turn_ns", "ns", &M::turn_ns,
     "notes-tile-operations.md, parts left out: turns of the ring of weights alone"},
    {"late_turn_ns", "ns", &M::late_turn_ns,
     "the same: turns of both rings, 340, less those of the ring of weights"},
    {"load_issue_ns", "ns", &M::load_issue_ns,
     "notes-skinny.md: one thread issues a load every 300 to 570 cycles, however large; the middle at 1.98 "
     "GHz"},
    {"early_warps", "1", &M::early_warps, "k_early_warps of tessera/plan/role_rings.hpp"},
    {"token_copy_ns", "ns", &M::token_copy_ns,
     "notes-tile-operations.md: first word seen elsewhere to first activations"},
    {"hop_ns", "ns", &M::hop_ns,
     "notes-tile-operations.md: slowest store to the first word seen elsewhere, 1 to 1.4 us while weights "
     "are "
     "read"},
    {"look_ns", "ns", &M::look_ns, "machine profile: wait_ns"},
    {"post_ns", "ns", &M::post_ns, "machine profile: post_ns"},
    {"launch_ns", "ns", &M::launch_ns,
     "two loads from DRAM, one behind the other (memory.dram.latency, 350): what a stage is, and its "
     "matrix's description"},
};

RoleCurve const k_curves[] = {
    {"dram_share", "1", &M::dram_share,
     "notes-skinny.md, \"Few tokens again\": a kernel that only reads, by what an SM has on its way: 16.3, "
     "17.4 "
     "and at most 17.8 bytes a cycle and SM"},
    {"late_load_ns", "ns", &M::late_load_ns,
     "the same section: 664 to 5250 cycles of a load of 8 KB that hits L2, alone and behind weights; at 1.98 "
     "GHz"},
};

}  // namespace

std::span<RoleCurve const> role_curves() { return k_curves; }

std::string to_text(InFlightCurve const& curve) {
  std::string text;
  for (auto const& [bytes, value] : curve)
    text += fmt::format("{}{:.4g} KiB: {:.4g}", text.empty() ? "" : ", ", bytes / k_kib, value);
  return text;
}

double at_bytes(InFlightCurve const& curve, double bytes) {
  if (curve.empty()) return 0;
  auto const next = std::find_if(curve.begin(), curve.end(), [&](auto const& p) { return p.first >= bytes; });
  if (next == curve.begin()) return curve.front().second;
  if (next == curve.end()) return curve.back().second;
  auto const before = std::prev(next);
  auto const part = (bytes - before->first) / (next->first - before->first);
  return before->second + part * (next->second - before->second);
}

std::span<RoleFigure const> role_figures() { return k_figures; }

Expected<void> set_role_figure(RoleMachine& machine, std::string const& assignment) {
  auto const at = std::min(assignment.find('='), assignment.size());
  auto const figure = std::find_if(std::begin(k_figures), std::end(k_figures), [&](RoleFigure const& one) {
    return assignment.compare(0, at, one.name) == 0;
  });
  double value = 0;
  auto const* const begin = assignment.data() + std::min(at + 1, assignment.size());
  auto const* const end = assignment.data() + assignment.size();
  auto const [rest, error] = std::from_chars(begin, end, value);
  if (figure != std::end(k_figures) && error == std::errc() && rest == end) {
    machine.*figure->member = value;
    return {};
  }
  Diagnostic d;
  d.code = "E0506";
  d.message = fmt::format("\"{}\" gives no figure a value", assignment);
  auto& names = d.notes.emplace_back();
  for (auto const& one : k_figures) names += (names.empty() ? "figures: " : ", ") + one.name;
  d.suggestion = "write NAME=NUMBER";
  return refuse(std::move(d));
}

RoleMachine role_machine(MachineProfile const& machine) {
  auto const probed = [&](char const* id) {
    auto const* const figure = machine.probe ? find_figure(*machine.probe, id) : nullptr;
    return figure != nullptr ? figure->median : 0;
  };
  RoleMachine result;
  auto const read = probed("memory.dram.read");
  result.dram_gbps = read > 0 ? read : machine.dram_gbps;
  result.l2_gbps = machine.l2_gbps;
  result.sm_load_gbps = machine.sm_load_gbps;
  result.dram_share = dram_share();
  result.late_load_ns = late_load();
  auto const beyond_l2 = probed("memory.dram.latency") - probed("memory.l2.hit");
  result.load_ns = beyond_l2 > 0 ? beyond_l2 + result.late_load_ns.front().second : machine.dram_latency_ns;
  result.slowest_sm = 41.7 / 36.9;
  result.fastest_sm = 33.7 / 36.9;
  result.turn_ns = 120;
  result.late_turn_ns = 220;
  result.load_issue_ns = 435 / k_cycles_per_ns;
  result.early_warps = 3;
  result.token_copy_ns = 500;
  result.hop_ns = 1200;
  result.look_ns = machine.wait_ns;
  result.post_ns = machine.post_ns;
  result.launch_ns = 700;
  return result;
}

}  // namespace tessera
