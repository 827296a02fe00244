// SPDX-License-Identifier: Apache-2.0
#include "tessera/measure/measured.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {
namespace {

using P = MachineProfile;

/// A field and the figure that means the same. `full` asks for the figure of one block on every SM, which is
/// what the planner prices; figures without that condition hold anyway.
struct Mapping {
  char const* field;
  double P::*member;
  char const* figure;
  std::map<std::string, double> at = {};
  bool full = false;
};

std::vector<Mapping> const& mappings() {
  static std::vector<Mapping> const all = {
      {"dram_gbps", &P::dram_gbps, "memory.dram.read.whole"},
      {"launch_ns", &P::launch_ns, "kernel.first_block", {}, true},
      {"stream_gap_ns", &P::stream_gap_ns, "kernel.gap.stream", {}, true},
      {"pdl_gap_ns", &P::pdl_gap_ns, "kernel.gap.pdl", {{"trigger_ns", 0}}, true},
      {"pdl_grid_wait_ns", &P::pdl_grid_wait_ns, "kernel.grid_wait_last", {{"trigger_ns", 0}}, true},
      {"stream_start_ns", &P::stream_start_ns, "kernel.stream_start", {}, true},
      {"trigger_ns", &P::trigger_ns, "kernel.trigger", {}, true},
      {"ticket_ns", &P::ticket_ns, "pair.ticket", {}, true},
      {"post_ns", &P::post_ns, "pair.post"},
      {"store_post_ns", &P::store_post_ns, "pair.post.store"},
      {"wait_ns", &P::wait_ns, "pair.wait_met"},
  };
  return all;
}

Figure const* figure_for(Mapping const& mapping, Probe const& probe) {
  auto at = mapping.at;
  if (mapping.full) at["blocks"] = probe.identity.sms;
  return find_figure(probe, mapping.figure, at);
}

std::string conditions(Figure const& figure) {
  std::string text;
  for (auto const& [name, value] : figure.at)
    text += fmt::format("{}{} {:.10g}", text.empty() ? "" : ", ", name, value);
  return text;
}

std::string source_of(Figure const& figure, Probe const& probe) {
  auto text = fmt::format("probe: {}", figure.id);
  if (auto const at = conditions(figure); !at.empty()) text += fmt::format(" ({})", at);
  text += fmt::format(", {}, {} samples from {:g} to {:g}", figure.method, figure.samples, figure.p05,
                      figure.p95);
  if (!probe.identity.date.empty()) text += fmt::format(", {}", probe.identity.date.substr(0, 10));
  return text;
}

}  // namespace

Figure const* find_figure(Probe const& probe, std::string_view id, std::map<std::string, double> const& at) {
  auto const found = std::find_if(probe.figures.begin(), probe.figures.end(), [&](Figure const& figure) {
    return figure.id == id && std::all_of(at.begin(), at.end(), [&](auto const& wanted) {
             auto const given = figure.at.find(wanted.first);
             return given != figure.at.end() && given->second == wanted.second;
           });
  });
  return found == probe.figures.end() ? nullptr : &*found;
}

MachineProfile with_measured(MachineProfile base, Probe const& probe) {
  for (auto const& mapping : mappings()) {
    auto const* figure = figure_for(mapping, probe);
    if (figure == nullptr || figure->median < 0) continue;
    base.*mapping.member = figure->median;
    base.sources[mapping.field] = source_of(*figure, probe);
  }
  if (probe.identity.sms > 0) {
    base.sms = probe.identity.sms;
    base.sources["sms"] = "probe: device query";
  }
  if (not_measured(probe).empty()) base.provisional = false;
  base.probe = probe;
  return base;
}

std::vector<std::string> not_measured(Probe const& probe) {
  std::vector<std::string> missing;
  for (auto const& mapping : mappings())
    if (figure_for(mapping, probe) == nullptr)
      missing.push_back(fmt::format("{}: {}", mapping.field, mapping.figure));
  return missing;
}

}  // namespace tessera
