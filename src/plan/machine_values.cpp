// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/machine_values.hpp"

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "describe/fingerprint.hpp"
#include "tessera/measure/machine_fields.hpp"

namespace tessera {
namespace {

using Named = std::map<std::string, std::string>;

/// No plan depends on how much memory there is: those that were made before profiles said it stay good.
bool is_planned_with(MachineField<MachineProfile> const& field) {
  return std::string_view(field.name) != "dram_gb";
}

/// Every value under its name, as the shortest text that reads back as the same number.
Named named_values(MachineProfile const& values) {
  Named named{{"architecture", values.architecture}};
  for (auto const& field : machine_fields())
    if (is_planned_with(field))
      std::visit([&](auto member) { named[field.name] = fmt::format("{}", values.*member); }, field.member);
  for (auto const& [name, timing] : values.kernels) {
    auto const add = [&](char const* what, auto value) {
      named[fmt::format("kernels.{}.{}", name, what)] = fmt::format("{}", value);
    };
    add("slice_cycles", timing.slice_cycles);
    add("tile_end_cycles", timing.tile_end_cycles);
    add("next_tile_cycles", timing.next_tile_cycles);
    add("waits_per_poll", timing.waits_per_poll);
    add("gelu_cycles", timing.gelu_cycles);
    add("cluster_rows", timing.cluster_rows);
    add("cluster_columns", timing.cluster_columns);
  }
  return named;
}

}  // namespace

MachineProfile planning_values(MachineProfile const& machine, Pipeline const& pipeline) {
  MachineProfile values;
  values.name = machine.name;
  values.architecture = machine.architecture;
  values.provisional = machine.provisional;
  for (auto const& field : machine_fields())
    if (is_planned_with(field))
      std::visit([&](auto member) { values.*member = machine.*member; }, field.member);
  for (auto const& stage : pipeline.stages)
    if (auto const kernel = machine.kernels.find(stage.kernel); kernel != machine.kernels.end()) {
      auto timing = kernel->second;
      timing.source.clear();
      values.kernels.emplace(kernel->first, std::move(timing));
    }
  return values;
}

bool are_of_a_profile(MachineProfile const& values) {
  for (auto const& field : machine_fields()) {
    bool const inside = std::visit(
        [&](auto member) {
          auto const value = static_cast<double>(values.*member);
          return value >= field.least && value <= field.most;
        },
        field.member);
    if (!inside) return false;
  }
  return contradictions(values).empty();
}

std::string hash_of_values(MachineProfile const& values) {
  std::string text;
  for (auto const& [name, value] : named_values(values)) text += name + '=' + value + '\n';
  return fmt::format("{:016x}", fingerprint_of(text));
}

std::vector<ValueDifference> value_differences(MachineProfile const& before, MachineProfile const& after) {
  auto const old_values = named_values(before), new_values = named_values(after);
  auto const value = [](Named const& of, std::string const& name) {
    auto const found = of.find(name);
    return found == of.end() ? "none" : found->second;
  };
  auto names = old_values;
  names.insert(new_values.begin(), new_values.end());
  std::vector<ValueDifference> differences;
  for (auto const& [name, ignored] : names)
    if (auto const was = value(old_values, name), is = value(new_values, name); was != is)
      differences.push_back({name, was, is});
  return differences;
}

}  // namespace tessera
