// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "report/facts.hpp"
#include "tessera/report/report.hpp"

namespace tessera {
namespace {

std::string quoted(std::string const& text) {
  std::string out = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace

std::string dot(Plan const& plan) {
  std::string text =
      fmt::format("digraph {} {{\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n",
                  quoted(plan.pipeline.name));
  for (std::size_t s = 0; s < plan.pipeline.stages.size(); ++s) {
    auto const& stage = plan.pipeline.stages[s];
    // DOT reads \n inside quotes as a line break, so it goes in after quoting.
    auto label = quoted(stage.name);
    label.insert(label.size() - 1,
                 fmt::format("\\n{} tiles\\n{:.2f} waves", report::grid_text(stage), plan.stages[s].waves));
    text += fmt::format("  s{} [label={}];\n", s, label);
  }
  for (std::size_t d = 0; d < plan.pipeline.dependences.size(); ++d) {
    auto const& edge = plan.pipeline.dependences[d];
    auto label = quoted(edge.operand);
    label.insert(label.size() - 1, "\\n" + report::policy_of(plan, d));
    text += fmt::format("  s{} -> s{} [label={}];\n", edge.producer, edge.consumer, label);
  }
  for (auto const& edge : plan.reuse_edges)
    text += fmt::format("  s{} -> s{} [style=dashed, label={}];\n", edge.reader, edge.writer,
                        quoted("reuse of " + edge.buffer));
  return text + "}\n";
}

}  // namespace tessera
