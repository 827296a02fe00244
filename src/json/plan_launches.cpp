// SPDX-License-Identifier: Apache-2.0
#include "json/plan_launches.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "json/plan_words.hpp"

namespace tessera::json {
namespace {

constexpr char const* k_stage = "E0261";
constexpr char const* k_tickets = "E0262";
constexpr char const* k_launches = "E0263";
constexpr std::int64_t k_int = std::numeric_limits<int>::max();
/// Tickets are read from runs, so that a short text could ask for more than memory holds.
constexpr std::int64_t k_most_tickets = 1 << 24;

std::vector<Launch::Ticket> read_tickets(Document& document, ObjectReader& reader, std::size_t stages) {
  std::vector<Launch::Ticket> tickets;
  for (auto const& run : reader.array_or("tickets")) {
    if (!run.is(Node::Kind::array) || run.items().size() != 3) {
      document.report(run, k_plan_codes.value, "a run of tickets is [stage, first position, count]");
      return {};
    }
    auto const number = [&](std::size_t i, std::int64_t least, std::int64_t most) {
      return integer_item(document, run.items()[i], least, most);
    };
    auto const stage = number(0, 0, static_cast<std::int64_t>(stages) - 1);
    auto const first = number(1, 0, k_most_tickets);
    auto const count = number(2, 1, k_most_tickets - static_cast<std::int64_t>(tickets.size()));
    if (document.failed()) return {};
    for (std::int64_t i = 0; i < count; ++i)
      tickets.push_back({static_cast<std::int32_t>(stage), static_cast<std::int32_t>(first + i)});
  }
  return tickets;
}

int read_workers(ObjectReader& reader) { return static_cast<int>(reader.integer_or("workers", 0, 0, k_int)); }

/// Names of neighbouring stages, in their order.
void read_stages(Document& document, ObjectReader& reader, Pipeline const& pipeline, Launch& launch) {
  auto const& names = reader.array("stages");
  launch.stages = static_cast<int>(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    int const stage = find_stage(pipeline, names[i].text());
    if (stage < 0) {
      document.report(names[i], k_launches,
                      fmt::format("\"{}\" in \"stages\" of a launch is no stage", names[i].text()));
      return;
    }
    if (i == 0) launch.first = stage;
    if (stage == launch.first + static_cast<int>(i)) continue;
    document.report(names[i], k_launches,
                    fmt::format("{} does not follow {} in the pipeline, but does in a launch",
                                names[i].text(), names[i - 1].text()),
                    {}, "list the stages of a launch in the pipeline's order, without gaps");
    return;
  }
}

}  // namespace

void read_launches(Document& document, ObjectReader& root, Plan& plan) {
  for (auto const& item : root.array("launches")) {
    ObjectReader reader(document, item, fmt::format("launch {}", plan.launches.size()));
    Launch launch;
    read_stages(document, reader, plan.pipeline, launch);
    launch.start = reader.choice("start", k_start_words, k_start_values);
    launch.wait_kernel = reader.boolean_or("wait_kernel", false);
    launch.workers = read_workers(reader);
    launch.tickets = read_tickets(document, reader, plan.pipeline.stages.size());
    reader.finish();
    plan.launches.push_back(std::move(launch));
  }
}

void read_launches_1(Document& document, ObjectReader& root, std::vector<Stage1> const& stages,
                     std::vector<BufferReuse> const& reuses, Plan& plan) {
  auto const mechanism = root.choice("mechanism", k_mechanism_words, k_mechanism_values);
  int const workers = read_workers(root);
  auto tickets = read_tickets(document, root, plan.pipeline.stages.size());
  if (document.failed()) return;
  bool const fused = mechanism == Mechanism::fused;
  if (fused != (workers > 0))
    document.report(workers > 0 ? *root.find("workers") : root.node(), k_tickets,
                    fused
                        ? "a fused launch needs at least one worker"
                        : fmt::format("only a fused launch has workers, and this is {}", to_text(mechanism)));
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (stages[s].wait_kernel && (mechanism != Mechanism::wait_kernel || s == 0))
      document.report(*stages[s].node, k_stage,
                      fmt::format("{} has a wait kernel, {}", plan.pipeline.stages[s].name,
                                  s == 0 ? "but no stage comes before it"
                                         : "but the mechanism is " + std::string(to_text(mechanism))));
  plan.launches = launches_for(mechanism, static_cast<int>(plan.pipeline.stages.size()), workers);
  plan.launches.front().tickets = std::move(tickets);
  if (mechanism == Mechanism::wait_kernel)
    for (auto& launch : plan.launches)
      launch.wait_kernel = stages[static_cast<std::size_t>(launch.first)].wait_kernel;
  if (mechanism != Mechanism::pdl) return;
  for (auto const& reuse : reuses) {
    ReuseEdge const edge{reuse.writer, reuse.reader, reuse.buffer, -1};
    if (!reuse.covered &&
        std::find(plan.reuse_edges.begin(), plan.reuse_edges.end(), edge) == plan.reuse_edges.end())
      plan.reuse_edges.push_back(edge);
  }
}

}  // namespace tessera::json
