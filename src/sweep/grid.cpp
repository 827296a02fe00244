// SPDX-License-Identifier: Apache-2.0
#include "tessera/sweep/grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "sweep/finding.hpp"

namespace tessera {
namespace {

tl::unexpected<Diagnostics> no(char const* code, std::string message, std::string hint = {}) {
  return refuse(finding(code, std::move(message), std::move(hint)));
}

std::vector<std::string> split(std::string const& text, char at) {
  std::vector<std::string> parts{""};
  for (char const c : text)
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

/// The values of "50:150:25", each a multiple of the step from the first: no sum of roundings.
Expected<std::vector<std::string>> range(std::string const& name, std::string const& text) {
  auto const parts = split(text, ':');
  auto const hint = "first:last:step, such as 50:150:25";
  if (parts.size() != 3) return no("E0921", fmt::format("{}: \"{}\" is no range", name, text), hint);
  auto const first = number_of(parts[0]);
  auto const last = number_of(parts[1]);
  auto const step = number_of(parts[2]);
  if (!first || !last || !step)
    return no("E0921", fmt::format("{}: \"{}\" is not a range of three numbers", name, text), hint);
  double const steps = (*last - *first) / *step;
  if (*step == 0 || !(steps >= 0))
    return no("E0921", fmt::format("{}: the range {} never ends or holds no value", name, text), hint);
  if (steps >= static_cast<double>(k_most_points))
    return no("E0922",
              fmt::format("{}: the range {} has {:.0f} values, and a sweep at most {} points", name, text,
                          std::floor(steps) + 1, k_most_points),
              "take larger steps");
  std::vector<std::string> values;
  auto const count = static_cast<std::size_t>(std::floor(steps * (1 + 1e-12) + 1e-9)) + 1;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(fmt::format("{:.12g}", *first + static_cast<double>(i) * *step));
  return values;
}

}  // namespace

std::size_t SweepGrid::size() const {
  std::size_t points = 1;
  for (auto const& axis : axes) points *= axis.values.size();
  return points;
}

std::vector<SweepSetting> SweepGrid::point(std::size_t point) const {
  std::vector<SweepSetting> settings(axes.size());
  for (auto a = axes.size(); a-- > 0;) {
    auto const& values = axes[a].values;
    settings[a] = {axes[a].name, values[point % values.size()]};
    point /= values.size();
  }
  return settings;
}

Expected<SweepAxis> parse_axis(std::string const& text, std::vector<Parameter> const& parameters) {
  auto const equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return no("E0921", fmt::format("\"{}\" does not say which parameter takes which values", text),
              "name=50,75,100 or name=50:150:25");
  SweepAxis axis{text.substr(0, equals), {}};
  auto const list = text.substr(equals + 1);
  auto const parameter = parameter_by_name(parameters, axis.name);
  if (!parameter) return tl::make_unexpected(parameter.error());
  if (list.empty())
    return no("E0921", fmt::format("{}: the list of values is empty", axis.name),
              fmt::format("{0}=50,75,100 or {0}=50:150:25", axis.name));
  bool const numbers = parameter->kind == Parameter::Kind::whole || parameter->kind == Parameter::Kind::real;
  auto words = numbers && list.find(':') != std::string::npos
                   ? range(axis.name, list)
                   : Expected<std::vector<std::string>>(split(list, ','));
  if (!words) return tl::make_unexpected(words.error());
  std::unordered_set<std::string> listed;
  for (auto const& word : *words) {
    auto value = value_text(*parameter, word);
    if (!value) return tl::make_unexpected(value.error());
    if (!listed.insert(*value).second)
      return no("E0921", fmt::format("{}: {} is listed twice", axis.name, *value), "leave one of them out");
    axis.values.push_back(std::move(*value));
  }
  return axis;
}

Expected<SweepGrid> parse_grid(std::vector<std::string> const& axes,
                               std::vector<Parameter> const& parameters) {
  SweepGrid grid;
  double points = 1;
  for (auto const& text : axes) {
    auto axis = parse_axis(text, parameters);
    if (!axis) return tl::make_unexpected(axis.error());
    for (auto const& other : grid.axes)
      if (other.name == axis->name)
        return no("E0921", fmt::format("{} is set twice", axis->name), "put all of its values in one list");
    points *= static_cast<double>(axis->values.size());
    grid.axes.push_back(std::move(*axis));
  }
  if (points > static_cast<double>(k_most_points))
    return no("E0922",
              fmt::format("the grid has {:.0f} points, and a sweep at most {}", points, k_most_points),
              "take fewer values, or sweep one parameter after the other");
  return grid;
}

Expected<SweepShard> parse_shard(std::string const& text) {
  SweepShard shard;
  auto const parts = split(text, '/');
  auto const whole = [](std::string const& word, std::size_t& into) {
    auto const [end, error] = std::from_chars(word.data(), word.data() + word.size(), into);
    return error == std::errc{} && end == word.data() + word.size();
  };
  if (parts.size() != 2 || !whole(parts[0], shard.number) || !whole(parts[1], shard.of) || shard.number < 1 ||
      shard.number > shard.of || shard.of > k_most_points)
    return no("E0921", fmt::format("\"{}\" is no share of a sweep", text),
              "from 1/8 to 8/8 for eight shares");
  return shard;
}

}  // namespace tessera
