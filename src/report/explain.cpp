// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "report/facts.hpp"
#include "report/text.hpp"
#include "tessera/report/report.hpp"

namespace tessera {
namespace {

using namespace report;

std::string times(Plan const& plan) {
  if (plan.predicted_us <= 0) return "no time predicted";
  auto text = "predicted " + us(plan.predicted_us);
  if (plan.stream_order_us > 0) text += ", stream order " + us(plan.stream_order_us);
  if (auto const gain = gain_text(plan); !gain.empty()) text += ": " + gain;
  return text;
}

std::string stage_table(Plan const& plan) {
  std::vector<std::vector<std::string>> rows{
      {"stage", "tiles", "blocks", "per SM", "waves", "kernel", "order", "options"}};
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    auto const& stage = plan.pipeline.stages[s];
    auto const& chosen = plan.stages[s];
    rows.push_back({stage.name, grid_text(stage), std::to_string(stage.blocks()),
                    std::to_string(chosen.occupancy), waves_text(chosen.waves), kernel_text(plan, s),
                    chosen.order.name, options_text(plan, s)});
  }
  return table(rows, {2, 3, 4}, 2);
}

std::string dependence_table(Plan const& plan) {
  if (plan.pipeline.dependences.empty()) return "";
  std::vector<std::vector<std::string>> rows{
      {"dependence", "operand", "policy", "semaphores", "waits", "posts"}};
  for (std::size_t d = 0; d < plan.pipeline.dependences.size(); ++d) {
    auto const& edge = plan.pipeline.dependences[d];
    auto const& stages = plan.pipeline.stages;
    auto const counted = traffic(plan, d);
    int const set = plan.dependences[d].semaphore_set;
    rows.push_back({stages[static_cast<std::size_t>(edge.producer)].name + " -> " +
                        stages[static_cast<std::size_t>(edge.consumer)].name,
                    edge.operand, policy_of(plan, d),
                    set < 0 ? "0" : std::to_string(plan.semaphores[static_cast<std::size_t>(set)].count),
                    counted ? std::to_string(counted->waits) : "many",
                    counted ? std::to_string(counted->posts) : "many"});
  }
  return table(rows, {3, 4, 5}, 2);
}

std::string not_taken(Plan const& plan, int most) {
  auto const sorted = sorted_alternatives(plan);
  if (sorted.empty() || most <= 0) return "";
  std::string text = "\n  not taken\n";
  int shown = 0;
  for (auto const& alternative : sorted) {
    if (shown++ == most) break;
    auto const cost =
        alternative.predicted_us > 0 ? signed_us(alternative.predicted_us - plan.predicted_us) : "-";
    auto const reason = alternative.reason.empty() ? alternative.description
                                                   : alternative.description + ": " + alternative.reason;
    text += labelled(fmt::format("{:>10}", cost), reason, 4, 11);
  }
  auto const left = static_cast<std::int64_t>(sorted.size()) - most;
  if (left > 0) text += fmt::format("    and {} more\n", left);
  return text;
}

std::string margin(Plan const& plan) {
  auto const next = runner_up(plan);
  if (!next || plan.predicted_us <= 0) return "";
  double const lead = next->predicted_us - plan.predicted_us;
  return fmt::format("{} ({}) to the next that is slower: {}", us(lead), percent(lead / plan.predicted_us),
                     next->description);
}

std::string reuse_text(Plan const& plan) {
  std::string text;
  for (auto const& edge : plan.reuse_edges) {
    auto const& stages = plan.pipeline.stages;
    text += fmt::format(
        "{}{} overwrites {} after {} is done with it ({})", text.empty() ? "" : "; ",
        stages[static_cast<std::size_t>(edge.writer)].name, edge.buffer,
        stages[static_cast<std::size_t>(edge.reader)].name,
        edge.semaphore_set < 0 ? "ordered by " + kept_text(kept_by(plan, edge)) : "waits before its stores");
  }
  return text;
}

}  // namespace

std::string explain(Plan const& plan, int max_alternatives) {
  auto const name = cut(plan.pipeline.name, 60) + ",";
  std::string text = labelled(name, fmt::format("{}: {}", plan.machine, summary_line(plan)), 0,
                              static_cast<int>(display_width(name)));
  text += labelled("time", times(plan));
  text += '\n' + stage_table(plan) + '\n' + dependence_table(plan);
  if (!plan.pipeline.dependences.empty()) text += '\n';
  if (!plan.why.empty()) text += labelled("why", plan.why);
  for (auto const& line : launch_lines(plan)) text += labelled("launch", line);
  if (!plan.bound_by.empty()) text += labelled("bound by", plan.bound_by);
  if (auto const lead = margin(plan); !lead.empty()) text += labelled("margin", lead);
  if (auto const reuse = reuse_text(plan); !reuse.empty()) text += labelled("reuse", reuse);
  if (!plan.proof.empty()) text += labelled("proof", plan.proof);
  return text + not_taken(plan, max_alternatives);
}

std::string explain_table(std::vector<Plan> const& plans) {
  if (plans.empty()) return "";
  std::vector<std::string> names;
  for (auto const& plan : plans) names.push_back(plan.pipeline.name);
  auto const labels = split_names(names);
  std::vector<std::vector<std::string>> rows{
      {"size", "blocks", "waves", "mechanism", "policy", "us", "stream", "gain", "bound by"}};
  for (std::size_t p = 0; p < plans.size(); ++p) {
    auto const& plan = plans[p];
    std::string blocks;
    double waves = 0;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      blocks += (s > 0 ? "+" : "") + std::to_string(plan.pipeline.stages[s].blocks());
      waves += plan.stages[s].waves;
    }
    bool const compared = plan.stream_order_us > 0 && plan.predicted_us > 0;
    rows.push_back({labels.own[p], blocks, waves_text(waves), mechanism_text(plan),
                    plan.semaphores.empty() ? "-" : policy_text(plan), us_number(plan.predicted_us),
                    compared ? us_number(plan.stream_order_us) : "-",
                    compared ? percent(1 - plan.predicted_us / plan.stream_order_us) : "-", plan.bound_by});
  }
  auto const title = labels.common.empty() ? std::string() : labels.common + ", ";
  return fmt::format("{}{}\n\n", cut(title, 80), cut(plans.front().machine, 18)) +
         table(rows, {2, 5, 6, 7}, 2);
}

}  // namespace tessera
