// SPDX-License-Identifier: Apache-2.0
// The schema's fields are those of the tables; TESSERA_UPDATE_GOLDEN=1 writes them into it.
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/golden.hpp"
#include "tessera/measure/machine_fields.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
  return value == std::floor(value) ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

template <class Owner>
Json schema_of(MachineField<Owner> const& field) {
  Json value;
  if (std::holds_alternative<bool Owner::*>(field.member))
    value = {{"type", "boolean"}};
  else
    value = {{"type", std::holds_alternative<int Owner::*>(field.member) ? "integer" : "number"},
             {"minimum", number(field.least)},
             {"maximum", number(field.most)}};
  return {{"type", "object"},
          {"additionalProperties", false},
          {"required", {"value", "unit", "source"}},
          {"properties",
           {{"value", value},
            {"unit", {{"const", field.unit}}},
            {"source", {{"type", "string"}, {"minLength", 1}}}}}};
}

template <class Owner>
void write(Json& into, std::span<MachineField<Owner> const> fields) {
  into["required"] = Json::array();
  into["properties"] = Json::object();
  for (auto const& field : fields) {
    if (!field.optional) into["required"].push_back(field.name);
    into["properties"][field.name] = schema_of(field);
  }
}

TEST(MachineSchema, HasTheFieldsOfTheTables) {
  auto schema = Json::parse(read_text(TESSERA_SOURCE_DIR "/machines/machine.schema.json"));
  write(schema["properties"]["values"], machine_fields());
  write(schema["properties"]["overlap"], overlap_fields());
  expect_golden(schema.dump(1) + "\n", "machines/machine.schema.json");
}

}  // namespace
}  // namespace tessera
