// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "commands.hpp"
#include "load_plan.hpp"
#include "report/text.hpp"
#include "report/tracks.hpp"
#include "tessera/measure/machine_fields.hpp"
#include "tessera/report/json_text.hpp"
#include "tessera/report/report.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::cli {
namespace {

struct DiffArguments {
  std::string before, after;
  bool machines = false;
};

Expected<Timeline> timeline_of(Session const& session, std::string const& path) {
  auto loaded = load_plan_or_timeline(session, path);
  if (!loaded) return tl::make_unexpected(loaded.error());
  if (loaded->timeline) return std::move(*loaded->timeline);
  return simulate(loaded->plan->plan, loaded->plan->machine);
}

void write(JsonWriter& json, Timeline const& timeline) {
  json.begin_object().member("pipeline", timeline.pipeline).member("machine", timeline.machine);
  json.member("mechanism", timeline.mechanism).member("measured", timeline.measured);
  json.member("end_ps", timeline.end).member("waves", timeline.waves).member("busy", timeline.busy);
  json.key("stages").begin_array();
  for (std::size_t s = 0; s < timeline.stages.size(); ++s) {
    std::int64_t waiting = 0;
    for (auto const& tile : timeline.tiles)
      if (static_cast<std::size_t>(tile.stage) == s) waiting += tile.waiting;
    auto const& stage = timeline.stages[s];
    json.begin_object().member("name", stage.name).member("first_start_ps", stage.first_start);
    json.member("last_end_ps", stage.last_end).member("waiting_ps", waiting);
    if (!stage.variant.empty()) json.member("variant", stage.variant);
    if (report::tells_causes(timeline)) {
      json.key("slot_time").begin_array();
      for (auto const& part : report::time_parts(timeline, s))
        json.begin_object().member("part", part.name).member("us", part.us).end_object();
      json.end_array().key("boundaries_us").begin_array();
      for (double const ps : report::boundaries(timeline, s)) json.value(ps * 1e-6);
      json.end_array();
    }
    json.end_object();
  }
  json.end_array();
  if (!timeline.tracks.empty()) {
    json.key("tracks").begin_array();
    auto const totals = report::totals_of_tracks(timeline);
    for (std::size_t t = 0; t < totals.size(); ++t) {
      json.begin_object().member("name", report::track_name(timeline, timeline.tracks[t]));
      json.member("first_ps", totals[t].first).member("last_ps", totals[t].last);
      json.member("busy_ps", totals[t].busy).member("bytes", totals[t].bytes).end_object();
    }
    json.end_array();
  }
  json.end_object();
}

struct Difference {
  MachineNumber number;
  std::optional<double> before, after;
};

std::string value_text(Difference const& difference, std::optional<double> const& value) {
  if (!value) return "-";
  if (difference.number.kind == NumberKind::flag) return *value != 0 ? "true" : "false";
  return fmt::format("{}", *value);
}

/// What a profile's column is called: by its file where both have one name.
std::string column_name(char const* side, MachineProfile const& machine, std::string const& given,
                        bool same_name) {
  return fmt::format("{}: {}", side, same_name ? given : machine.name);
}

/// Two profiles number by number; what they are called and where values come from is not compared.
int run_machines(Session const& session, DiffArguments const& arguments) {
  auto const before = load_machine(arguments.before);
  if (!before) return session.fail(before.error());
  auto const after = load_machine(arguments.after);
  if (!after) return session.fail(after.error());
  JsonWriter json;
  json.begin_object().member("schema", "tessera.machine_diff/1").member("before", before->name);
  json.member("after", after->name).key("numbers").begin_array();
  bool const same = before->name == after->name;
  std::vector<std::vector<std::string>> rows{{"parameter", "unit",
                                              column_name("before", *before, arguments.before, same),
                                              column_name("after", *after, arguments.after, same)}};
  for (auto const& number : machine_numbers()) {
    Difference const one{number, machine_number(*before, number.name), machine_number(*after, number.name)};
    if (one.before == one.after) continue;
    rows.push_back({number.name, number.unit, value_text(one, one.before), value_text(one, one.after)});
    json.begin_object().member("name", number.name).member("unit", number.unit);
    if (one.before) json.member("before", *one.before);
    if (one.after) json.member("after", *one.after);
    json.end_object();
  }
  auto const text = rows.size() > 1
                        ? report::table(rows, {2, 3}, 0)
                        : fmt::format("{} and {} have the same numbers\n", before->name, after->name);
  session.print(session.json ? json.end_array().end_object().text() + '\n' : text);
  return k_ok;
}

int run(Session const& session, DiffArguments const& arguments) {
  if (arguments.before == "-" && arguments.after == "-")
    return session.fail(complaint("E0906", "standard input is given twice, and can be read once",
                                  "give one of the two as a file"));
  if (arguments.machines) return run_machines(session, arguments);
  auto const before = timeline_of(session, arguments.before);
  if (!before) return session.fail(before.error());
  auto const after = timeline_of(session, arguments.after);
  if (!after) return session.fail(after.error());
  auto const in_both = [&](StageSpan const& stage) {
    return std::any_of(after->stages.begin(), after->stages.end(),
                       [&](StageSpan const& other) { return other.name == stage.name; });
  };
  if (!before->stages.empty() && std::none_of(before->stages.begin(), before->stages.end(), in_both))
    session.say("note: the two have no stage in common, so their times say nothing about each other");
  if (!session.json) {
    session.print(diff(*before, *after));
    return k_ok;
  }
  JsonWriter json;
  json.begin_object().member("schema", "tessera.diff/1").member("end_change_ps", after->end - before->end);
  json.key("before");
  write(json, *before);
  json.key("after");
  write(json, *after);
  session.print(json.end_object().text() + '\n');
  return k_ok;
}

}  // namespace

void add_diff(CLI::App& app, Session const& session, Action& action) {
  auto* command = app.add_subcommand(
      "diff", "What moved between two runs: totals and times of each stage; or how two machines differ");
  auto arguments = std::make_shared<DiffArguments>();
  command->add_option("before", arguments->before, "A timeline's JSON, or a plan's, which is then simulated")
      ->required();
  command->add_option("after", arguments->after, "The same")->required();
  command->add_flag("--machines", arguments->machines,
                    "Instead: two machine profiles, by name or file, and the numbers in which they differ");
  command->footer(
      "Examples:\n"
      "  tessera diff old-timeline.json new-timeline.json\n"
      "  tessera diff row-sync-plan.json tile-sync-plan.json\n"
      "  tessera diff t3.json t3-mca.json\n"
      "  tessera diff --machines a100 h200");
  command->callback([arguments, &session, &action] {
    action = [arguments, &session] { return run(session, *arguments); };
  });
}

}  // namespace tessera::cli
