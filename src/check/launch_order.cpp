// SPDX-License-Identifier: Apache-2.0
#include "check/launch_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <set>

#include "check/names.hpp"

namespace tessera::check_detail {
namespace {

using Edges = std::vector<std::vector<std::size_t>>;  // dependences by consumer

Edges edges_of(Pipeline const& pipeline) {
  Edges edges(pipeline.stages.size());
  for (std::size_t i = 0; i < pipeline.dependences.size(); ++i) {
    auto const consumer = static_cast<std::size_t>(pipeline.dependences[i].consumer);
    auto const producer = static_cast<std::size_t>(pipeline.dependences[i].producer);
    if (consumer < edges.size() && producer < edges.size()) edges[consumer].push_back(i);
  }
  return edges;
}

/// Dependences that lead from one stage to another, the shortest way; empty: none do.
std::vector<std::size_t> path(Pipeline const& pipeline, Edges const& edges, int from, int to) {
  constexpr auto unseen = static_cast<std::size_t>(-1);
  std::vector<std::size_t> reached_by(pipeline.stages.size(), unseen);
  std::vector<int> queue{from};
  for (std::size_t next = 0; next < queue.size(); ++next)
    for (auto const edge : edges[static_cast<std::size_t>(queue[next])]) {
      auto const producer = pipeline.dependences[edge].producer;
      auto& reached = reached_by[static_cast<std::size_t>(producer)];
      if (reached != unseen || producer == from) continue;
      reached = edge;
      queue.push_back(producer);
    }
  std::vector<std::size_t> result;
  for (int at = to; at != from;) {
    auto const edge = reached_by[static_cast<std::size_t>(at)];
    if (edge == unseen) return {};
    result.push_back(edge);
    at = pipeline.dependences[edge].consumer;
  }
  std::reverse(result.begin(), result.end());
  return result;
}

std::string link_text(Pipeline const& pipeline, Dependence const& dependence) {
  auto text = fmt::format("{} reads {}", name_of(pipeline, dependence.consumer),
                          name_of(pipeline, dependence.producer));
  if (dependence.where.line > 0)
    text += fmt::format(" ({}:{})", dependence.where.file, dependence.where.line);
  return text;
}

}  // namespace

void check_launch_order(Pipeline const& pipeline, Diagnostics& found) {
  auto const edges = edges_of(pipeline);
  std::set<std::set<int>> circles;
  for (auto const& of_stage : edges)
    for (auto const edge : of_stage) {
      auto const& dependence = pipeline.dependences[edge];
      auto const& [consumer, producer] = std::pair{dependence.consumer, dependence.producer};
      if (producer < consumer) continue;
      auto const consumer_name = name_of(pipeline, consumer);
      auto const producer_name = name_of(pipeline, producer);
      auto const back = path(pipeline, edges, producer, consumer);
      if (consumer == producer) {
        found.push_back({"E0104",
                         Severity::error,
                         place_of(pipeline, dependence),
                         fmt::format("{} depends on itself", consumer_name),
                         {},
                         "a stage reads only what other stages wrote; make it two stages"});
      } else if (!back.empty()) {
        std::set<int> stages{consumer};
        std::vector<std::string> notes{link_text(pipeline, dependence)};
        for (auto const link : back) {
          stages.insert(pipeline.dependences[link].consumer);
          notes.push_back(link_text(pipeline, pipeline.dependences[link]));
        }
        if (circles.insert(stages).second)
          found.push_back({"E0104", Severity::error, place_of(pipeline, dependence),
                           fmt::format("{} stages wait for each other in a circle", stages.size()),
                           std::move(notes), "remove one of these dependences"});
      } else {
        found.push_back({"E0104",
                         Severity::error,
                         place_of(pipeline, dependence),
                         fmt::format("{} reads {}, which is launched after it", consumer_name, producer_name),
                         {fmt::format("launch order: {} is stage {}, {} is stage {}", consumer_name, consumer,
                                      producer_name, producer)},
                         fmt::format("put {} before {}", producer_name, consumer_name)});
      }
    }
}

}  // namespace tessera::check_detail
