// SPDX-License-Identifier: Apache-2.0
#include "tessera/sweep/parameter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "diagnostic/nearest.hpp"
#include "sweep/finding.hpp"

namespace tessera {
namespace {

std::vector<std::string> const k_flags{"false", "true"};

Parameter parameter_of(MachineNumber const& number) {
  Parameter parameter{number.name, number.unit, Parameter::Kind::real, number.least, number.most, {}, true};
  if (number.kind == NumberKind::whole) parameter.kind = Parameter::Kind::whole;
  if (number.kind == NumberKind::flag) parameter.kind = Parameter::Kind::flag, parameter.words = k_flags;
  return parameter;
}

}  // namespace

Parameter whole_parameter(std::string name, std::string unit, double least, double most) {
  return {std::move(name), std::move(unit), Parameter::Kind::whole, least, most, {}, true};
}

Parameter word_parameter(std::string name, std::vector<std::string> words) {
  return {std::move(name), "", Parameter::Kind::word, 0, 0, std::move(words), true};
}

std::vector<Parameter> machine_parameters() {
  std::vector<Parameter> parameters;
  for (auto const& number : machine_numbers()) parameters.push_back(parameter_of(number));
  return parameters;
}

std::string number_text(double value) { return fmt::format("{}", value); }

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool const whole = error == std::errc{} && end == text.data() + text.size() && std::isfinite(value);
  return whole ? std::optional(value) : std::nullopt;
}

Expected<Parameter> parameter_by_name(std::vector<Parameter> const& parameters, std::string const& name) {
  std::vector<std::string> names;
  for (auto const& parameter : parameters) {
    if (parameter.name == name) return parameter;
    names.push_back(parameter.name);
  }
  auto hint = did_you_mean(name, names);
  // "link_gbps" is a near miss of "overlap.link_gbps" that letters alone do not show.
  for (auto const& known : names)
    if (known == "overlap." + name) hint = fmt::format("did you mean \"{}\"?", known);
  if (hint.empty()) hint = "tessera sweep --parameters lists what there is";
  return refuse(
      finding("E0920", fmt::format("there is no parameter \"{}\" to sweep", name), std::move(hint)));
}

Expected<std::string> value_text(Parameter const& parameter, std::string const& text) {
  auto const no = [&](std::string const& what) -> tl::unexpected<Diagnostics> {
    return refuse(finding("E0921", fmt::format("{}: \"{}\" {}", parameter.name, text, what)));
  };
  if (parameter.kind == Parameter::Kind::flag || parameter.kind == Parameter::Kind::word) {
    auto const& words = parameter.words;
    if (text.empty()) return no("is no word");
    if (words.empty() || std::find(words.begin(), words.end(), text) != words.end()) return text;
    return no("is not " + list_of(words, "or"));
  }
  auto const value = number_of(text);
  if (!value) return no("is no number");
  if (parameter.kind == Parameter::Kind::whole && *value != std::floor(*value))
    return no("is not a whole number");
  if (*value < parameter.least || *value > parameter.most)
    return no(fmt::format("is not from {} to {}", number_text(parameter.least), number_text(parameter.most)));
  return number_text(*value);
}

std::string machine_value(MachineProfile const& machine, std::string const& name) {
  auto const value = machine_number(machine, name);
  if (!value) return "";
  for (auto const& number : machine_numbers())
    if (number.name == name && number.kind == NumberKind::flag) return k_flags[*value != 0 ? 1 : 0];
  return number_text(*value);
}

bool change_machine(MachineProfile& machine, SweepSetting const& setting) {
  auto const value = setting.value == "true"    ? 1
                     : setting.value == "false" ? 0
                                                : number_of(setting.value).value_or(0);
  return set_machine_number(machine, setting.name, value);
}

}  // namespace tessera
