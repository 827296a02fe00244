// SPDX-License-Identifier: Apache-2.0
#include "tessera/simulate/role_json.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "json/json_text.hpp"
#include "json/pipeline_json.hpp"
#include "json/reader.hpp"

namespace tessera {
namespace {

using json::Document;
using json::Node;
using json::ObjectReader;
using Json = nlohmann::ordered_json;

constexpr json::Codes k_codes{"E0201", "E0202", "E0203", "E0204"};
constexpr char const* k_schema = "tessera.roles/1";
constexpr std::int64_t k_most = 1 << 30;

int count(ObjectReader& reader, char const* name, int fallback, std::int64_t least) {
  return static_cast<int>(reader.integer_or(name, fallback, least, k_most));
}

RoleWork read_work(Document& document, Node const& node, std::string const& stage) {
  ObjectReader reader(document, node, fmt::format("the work of stage \"{}\"", stage));
  RoleWork work;
  work.slots = count(reader, "slots", 0, 0);
  work.slot_bytes = reader.number_or("slot_bytes", 0, 0);
  work.loads_per_slot = count(reader, "loads_per_slot", 1, 1);
  work.slots_per_late_slot = count(reader, "slots_per_late_slot", 1, 1);
  work.late_slot_bytes = reader.number_or("late_slot_bytes", 0, 0);
  work.late_warps = count(reader, "late_warps", 1, 1);
  work.late_slots_at_once = count(reader, "late_slots_at_once", 1, 1);
  work.whole_input = reader.boolean_or("whole_input", false);
  work.slot_ns = reader.number_or("slot_ns", 0, 0);
  work.end_ns = reader.number_or("end_ns", 0, 0);
  reader.finish();
  return work;
}

Json printed(RoleWork const& work) {
  return {{"slots", work.slots},
          {"slot_bytes", work.slot_bytes},
          {"loads_per_slot", work.loads_per_slot},
          {"slots_per_late_slot", work.slots_per_late_slot},
          {"late_slot_bytes", work.late_slot_bytes},
          {"late_warps", work.late_warps},
          {"late_slots_at_once", work.late_slots_at_once},
          {"whole_input", work.whole_input},
          {"slot_ns", work.slot_ns},
          {"end_ns", work.end_ns}};
}

}  // namespace

Expected<RoleFile> parse_roles(std::string_view text, std::string const& file) {
  auto parsed = Document::parse(text, file, k_codes);
  if (!parsed) return tl::make_unexpected(parsed.error());
  auto& document = *parsed;
  ObjectReader root(document, document.root(), "the file");
  if (document.failed()) return document.refusal();
  if (auto const schema = root.string("schema"); schema != k_schema) {
    auto const* const given = root.find("schema");
    document.report(given != nullptr ? *given : document.root(), "E0205",
                    fmt::format("schema \"{}\" is not \"{}\"", schema.substr(0, 60), k_schema));
    return document.refusal();
  }
  RoleFile result;
  if (auto const* workload = root.object("workload")) {
    ObjectReader reader(document, *workload, "the workload");
    result.loop = json::read_loop(document, *workload, reader);
  }
  for (auto const& item : root.array_or("tokens"))
    if (item.is(Node::Kind::string))
      result.tokens.push_back(item.text());
    else
      document.report(item, k_codes.value, "\"tokens\" has names of buffers");
  result.workers = count(root, "workers", 0, 0);
  if (auto const* rings = root.object("rings")) {
    ObjectReader reader(document, *rings, "the rings");
    result.rings.slots = static_cast<int>(reader.integer("slots", 1, k_most));
    result.rings.in_flight = count(reader, "in_flight", 0, 0);
    result.rings.in_flight_within = count(reader, "in_flight_within", 0, 0);
    result.rings.late_slots = static_cast<int>(reader.integer("late_slots", 1, k_most));
    reader.finish();
  }
  for (auto const& item : root.array_or("tile_bytes"))
    if (item.is(Node::Kind::integer))
      result.tile_bytes.push_back(item.integer);
    else
      document.report(item, k_codes.value, "\"tile_bytes\" has a whole number for each stage");
  if (auto const* work = root.object("work")) {
    ObjectReader reader(document, *work, "the work of stages");
    for (auto const& stage : result.loop.body.stages)
      if (auto const* const of_stage = reader.object(stage.name))
        result.work.push_back(read_work(document, *of_stage, stage.name));
    reader.finish();
  }
  root.finish();
  if (document.failed()) return document.refusal();
  return result;
}

std::string print_roles(RoleFile const& roles) {
  Json out = {{"schema", k_schema}, {"workload", Json::object()}, {"tokens", roles.tokens}};
  json::print_loop(roles.loop, out["workload"]);
  if (roles.workers > 0) out["workers"] = roles.workers;
  out["rings"] = {{"slots", roles.rings.slots},
                  {"in_flight", roles.rings.in_flight},
                  {"in_flight_within", roles.rings.in_flight_within},
                  {"late_slots", roles.rings.late_slots}};
  if (!roles.tile_bytes.empty()) out["tile_bytes"] = roles.tile_bytes;
  for (std::size_t s = 0; s < roles.work.size(); ++s)
    out["work"][roles.loop.body.stages[s].name] = printed(roles.work[s]);
  return json::pretty(out);
}

Expected<RoleLoop> plan_roles(RoleFile const& file, MachineProfile const& machine, long long iterations) {
  auto plan = plan_loop(file.loop, machine, file.workers > 0 ? file.workers : machine.sms, file.tokens);
  if (!plan) return tl::make_unexpected(plan.error());
  return RoleLoop{std::move(*plan), file.work, file.rings, iterations, file.tile_bytes};
}

}  // namespace tessera
