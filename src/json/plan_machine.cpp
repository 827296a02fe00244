// SPDX-License-Identifier: Apache-2.0
#include "json/plan_machine.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "json/kernel_timing.hpp"
#include "json/plan_words.hpp"
#include "tessera/measure/machine_fields.hpp"
#include "tessera/plan/machine_values.hpp"

namespace tessera::json {
namespace {

constexpr char const* k_machine_values = "E0265";
using Field = MachineField<MachineProfile>;

void read_value(ObjectReader& reader, Field const& field, MachineProfile& values) {
  if (field.optional && !reader.has(field.name)) return;
  if (auto const* whole = std::get_if<int MachineProfile::*>(&field.member))
    values.** whole = static_cast<int>(reader.integer(field.name, static_cast<std::int64_t>(field.least),
                                                      static_cast<std::int64_t>(field.most)));
  else if (auto const* real = std::get_if<double MachineProfile::*>(&field.member))
    values.** real = reader.number(field.name, field.least, field.most);
  else
    values.*std::get<bool MachineProfile::*>(field.member) = reader.boolean_or(field.name, false);
}

}  // namespace

MachineProfile read_machine_values(Document& document, Node const& node, std::string const& machine) {
  ObjectReader reader(document, node, "\"machine_values\"");
  MachineProfile values;
  values.name = machine;
  auto const hash = reader.string("hash");
  values.architecture = reader.string("architecture");
  values.provisional = reader.boolean_or("provisional", false);
  for (auto const& field : machine_fields()) read_value(reader, field, values);
  for (auto const& item : reader.array_or("kernels")) {
    ObjectReader entry(document, item, "a kernel");
    auto const name = entry.string("name");
    auto const timing = read_timing(entry);
    entry.finish();
    if (!values.kernels.emplace(name, timing).second)
      document.report(item, k_plan_codes.value, fmt::format("\"{}\" is listed twice", name.substr(0, 60)));
  }
  reader.finish();
  if (document.failed()) return values;
  for (auto const& found : contradictions(values))
    document.report(node, k_machine_values, found.message, {}, found.suggestion);
  if (auto const real = hash_of_values(values); hash != real)
    document.report(
        node, k_machine_values, "the values of this plan's machine are not those of its hash",
        {fmt::format("the file says \"{}\", and the values make \"{}\"", hash.substr(0, 40), real)},
        "make the plan again for the machine that is meant");
  return values;
}

nlohmann::ordered_json print_machine_values(MachineProfile const& values) {
  nlohmann::ordered_json out;
  out["hash"] = hash_of_values(values);
  out["architecture"] = values.architecture;
  if (values.provisional) out["provisional"] = true;
  MachineProfile const none;
  for (auto const& field : machine_fields())
    std::visit(
        [&](auto member) {
          if (!field.optional || values.*member != none.*member) out[field.name] = values.*member;
        },
        field.member);
  for (auto const& [name, timing] : values.kernels) out["kernels"].push_back(print_timing(name, timing));
  return out;
}

}  // namespace tessera::json
