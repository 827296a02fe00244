// SPDX-License-Identifier: Apache-2.0
// Machine profiles: reading, checking and printing follow the table of measure/machine_fields.hpp.
#include "tessera/measure/machine_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <variant>

#include "diagnostic/nearest.hpp"
#include "json/json_text.hpp"
#include "json/kernel_timing.hpp"
#include "json/probe_json.hpp"
#include "json/reader.hpp"
#include "tessera/measure/machine_fields.hpp"
#include "tessera/shipped.hpp"

namespace tessera {
namespace {

using json::Document;
using json::ObjectReader;

constexpr char const* k_schema = "tessera.machine/1";
constexpr json::Codes k_codes{"E0601", "E0603", "E0604", "E0605"};
constexpr char const* k_unknown_machine = "E0602";
constexpr char const* k_other_version = "E0607";

/// Before the name of an overlap value's source: some are called as the machine's own.
constexpr char const* k_overlap_prefix = "overlap.";

/// "value", "unit" and "source" of one field. Returns the source.
template <class Owner>
std::string read_field(Document& document, json::Node const& node, MachineField<Owner> const& field,
                       Owner& machine) {
  ObjectReader reader(document, node, fmt::format("\"{}\"", field.name));
  auto const unit = reader.string("unit");
  if (!unit.empty() && unit != field.unit)
    document.report(node, k_codes.value,
                    fmt::format("\"{}\" is in \"{}\"; its unit is \"{}\"", field.name, unit, field.unit), {},
                    "convert the value and write the unit above");
  auto const source = reader.string("source");
  if (source.empty() && reader.has("source"))
    document.report(
        node, k_codes.value, fmt::format("\"{}\" has an empty source", field.name), {},
        "say where the value comes from: a document, a measurement, or an estimate and its reason");
  if (auto const* whole = std::get_if<int Owner::*>(&field.member))
    machine.** whole = static_cast<int>(reader.integer("value", static_cast<std::int64_t>(field.least),
                                                       static_cast<std::int64_t>(field.most)));
  else if (auto const* real = std::get_if<double Owner::*>(&field.member))
    machine.** real = reader.number("value", field.least, field.most);
  else if (!reader.has("value") || !reader.find("value")->is(json::Node::Kind::boolean))
    document.report(node, reader.has("value") ? k_codes.value : k_codes.missing,
                    fmt::format("\"{}\" needs a \"value\" of true or false", field.name));
  else
    machine.*std::get<bool Owner::*>(field.member) = reader.boolean_or("value", false);
  reader.finish();
  return source;
}

template <class Owner>
void read_fields(Document& document, json::Node const& node, char const* what,
                 std::span<MachineField<Owner> const> fields, Owner& owner, std::string const& prefix,
                 std::map<std::string, std::string>& sources) {
  ObjectReader reader(document, node, what);
  for (auto const& field : fields)
    if (auto const* one = field.optional ? reader.object_or(field.name) : reader.object(field.name))
      sources[prefix + field.name] = read_field(document, *one, field, owner);
  reader.finish();
}

/// Optional fields only where they are not as in a machine that has no such thing.
template <class Owner>
nlohmann::ordered_json print_fields(std::span<MachineField<Owner> const> fields, Owner const& owner,
                                    std::string const& prefix,
                                    std::map<std::string, std::string> const& sources) {
  nlohmann::ordered_json printed;
  Owner const none;
  for (auto const& field : fields) {
    auto const is_default = [&](auto member) { return owner.*member == none.*member; };
    if (field.optional && std::visit(is_default, field.member)) continue;
    auto& entry = printed[field.name];
    std::visit([&](auto member) { entry["value"] = owner.*member; }, field.member);
    entry["unit"] = field.unit;
    auto const source = sources.find(prefix + field.name);
    entry["source"] = source == sources.end() || source->second.empty() ? "not given" : source->second;
  }
  return printed;
}

/// A name that fits a line. What is not there at all was said by who reads it.
void check_name(Document& document, ObjectReader& reader, char const* hint) {
  auto const* name = reader.find("name");
  if (name == nullptr || !name->is(json::Node::Kind::string) || is_machine_name(name->text())) return;
  document.report(*name, k_codes.value, "\"name\" is empty, or has control characters in it", {}, hint);
}

void read_kernel(Document& document, json::Node const& node, MachineProfile& machine) {
  ObjectReader reader(document, node, "a kernel");
  auto const name = reader.string("name");
  auto timing = json::read_timing(reader);
  timing.source = reader.string("source");
  check_name(document, reader, "kernels without a name would take the times");
  reader.finish();
  if (!machine.kernels.emplace(name, std::move(timing)).second)
    document.report(node, k_codes.value, fmt::format("\"{}\" is listed twice", name.substr(0, 60)));
}

nlohmann::ordered_json print_kernel(std::string const& name, KernelTiming const& timing) {
  auto entry = json::print_timing(name, timing);
  entry["source"] = timing.source;
  return entry;
}

}  // namespace

bool is_machine_name(std::string_view name) {
  return !name.empty() && std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == 127;
  });
}

Expected<MachineProfile> parse_machine(std::string_view text, std::string const& file) {
  auto document = Document::parse(text, file, k_codes);
  if (!document) return tl::make_unexpected(document.error());
  ObjectReader root(*document, document->root());
  auto const schema = root.string("schema");
  if (!schema.empty() && schema != k_schema)
    document->report(document->root(), k_other_version,
                     fmt::format("schema is \"{}\"; this is \"{}\"", schema, k_schema), {},
                     "a machine profile begins with \"schema\": \"tessera.machine/1\"");
  if (document->failed()) return document->refusal();
  MachineProfile machine;
  machine.name = root.string("name");
  check_name(*document, root, "give the machine a name that fits a line: \"h200\"");
  machine.gpu = root.string("gpu");
  machine.architecture = root.string("architecture");
  static std::regex const architecture("sm_[1-9][0-9]{1,2}[af]?");
  if (!document->failed() && !std::regex_match(machine.architecture, architecture))
    document->report(*document->root().find("architecture"), k_codes.value,
                     fmt::format("\"{}\" is no architecture", machine.architecture.substr(0, 60)), {},
                     "write it as sm_90");
  machine.provisional = root.boolean_or("provisional", false);
  if (auto const* values = root.object("values"))
    read_fields(*document, *values, "\"values\"", machine_fields(), machine, "", machine.sources);
  if (auto const* values = root.object_or("overlap"))
    read_fields(*document, *values, "\"overlap\"", overlap_fields(), machine.overlap.emplace(),
                k_overlap_prefix, machine.sources);
  for (auto const& kernel : root.array_or("kernels")) read_kernel(*document, kernel, machine);
  if (auto const* probe = root.object_or("probe")) machine.probe = json::read_probe(*document, *probe);
  root.finish();
  if (!document->failed())
    for (auto const& found : contradictions(machine))
      document->report(document->root(), found.code, found.message, {}, found.suggestion);
  if (document->failed()) return document->refusal();
  return machine;
}

std::string print_machine(MachineProfile const& machine) {
  nlohmann::ordered_json root;
  root["schema"] = k_schema;
  root["name"] = machine.name;
  root["gpu"] = machine.gpu;
  root["architecture"] = machine.architecture;
  root["provisional"] = machine.provisional;
  root["values"] = print_fields(machine_fields(), machine, "", machine.sources);
  if (machine.overlap)
    root["overlap"] = print_fields(overlap_fields(), *machine.overlap, k_overlap_prefix, machine.sources);
  for (auto const& [name, timing] : machine.kernels) root["kernels"].push_back(print_kernel(name, timing));
  if (!machine.probe) return json::pretty(root);
  root["probe"] = json::probe_value(*machine.probe);
  return json::pretty(root, json::k_probe_width);
}

Expected<MachineProfile> machine(std::string const& name) {
  for (auto const& file : shipped_machines())
    if (file.name == name) return parse_machine(file.text, fmt::format("machines/{}.json", name));
  Diagnostic d;
  d.code = k_unknown_machine;
  d.message = fmt::format("there is no machine \"{}\"", name);
  std::vector<std::string> names;
  for (auto const& file : shipped_machines()) names.emplace_back(file.name);
  d.notes = {fmt::format("machines: {}", list_of(names))};
  d.suggestion = did_you_mean(name, names);
  if (d.suggestion.empty())
    d.suggestion = "give one of the machines above, or a profile file (machines/machine.schema.json)";
  return refuse(std::move(d));
}

}  // namespace tessera
