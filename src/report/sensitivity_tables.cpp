// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tessera/report/json_text.hpp"
#include "tessera/report/sweep.hpp"

namespace tessera {
namespace {

std::string change_text(std::optional<double> const& there, double base) {
  if (!there || base == 0) return "-";
  return fmt::format("{:+.2f} %", 100 * (*there / base - 1));
}

}  // namespace

StudyDocument study_document(std::vector<Sensitivity> const& sensitivities, std::string const& title,
                             std::string const& result) {
  StudyTable table{
      "sensitivity",
      fmt::format("What {} depends on", result),
      "How far the result is from its value with nothing changed, and the elasticity: percent of the "
      "result for a percent of the number.",
      {"number", "unit", "value", "from", "to", "at from", "at to", "elasticity"},
      {},
      {}};
  for (auto const& s : sensitivities)
    table.rows.push_back({s.nudge.parameter.name, s.nudge.parameter.unit, s.nudge.value,
                          s.nudge.lower.empty() ? "-" : s.nudge.lower,
                          s.nudge.higher.empty() ? "-" : s.nudge.higher, change_text(s.at_lower, s.base),
                          change_text(s.at_higher, s.base),
                          s.elasticity ? fmt::format("{:+.3f}", *s.elasticity) : std::string("-")});
  return {title, {}, {table}, ""};
}

std::string sensitivities_json(std::vector<Sensitivity> const& sensitivities, std::string const& result) {
  JsonWriter json;
  json.begin_object().member("schema", "tessera.sensitivity/1").member("result", result);
  json.key("numbers").begin_array();
  auto const optional = [&](char const* name, std::optional<double> const& value) {
    if (value) json.member(name, *value);
  };
  for (auto const& s : sensitivities) {
    json.begin_object().member("name", s.nudge.parameter.name).member("unit", s.nudge.parameter.unit);
    optional("value", number_of(s.nudge.value));
    json.member("base", s.base);
    optional("lower", number_of(s.nudge.lower));
    optional("at_lower", s.at_lower);
    optional("higher", number_of(s.nudge.higher));
    optional("at_higher", s.at_higher);
    optional("elasticity", s.elasticity);
    json.end_object();
  }
  return json.end_array().end_object().text() + '\n';
}

std::string sensitivities_csv(std::vector<Sensitivity> const& sensitivities) {
  auto const text = [](std::optional<double> const& value) { return value ? number_text(*value) : ""; };
  std::string out = "name,unit,value,base,lower,at_lower,higher,at_higher,elasticity\n";
  for (auto const& s : sensitivities)
    out += fmt::format("{},{},{},{},{},{},{},{},{}\n", s.nudge.parameter.name, s.nudge.parameter.unit,
                       s.nudge.value, number_text(s.base), s.nudge.lower, text(s.at_lower), s.nudge.higher,
                       text(s.at_higher), text(s.elasticity));
  return out;
}

}  // namespace tessera
