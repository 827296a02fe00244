// SPDX-License-Identifier: Apache-2.0
#include "check/names.hpp"

#include <fmt/format.h>

#include <cstddef>

namespace tessera::check_detail {
SourceLine place_of(Pipeline const& pipeline, Stage const& stage) {
  return stage.where.file.empty() ? pipeline.where : stage.where;
}

SourceLine place_of(Pipeline const& pipeline, Dependence const& dependence) {
  if (!dependence.where.file.empty()) return dependence.where;
  auto const consumer = static_cast<std::size_t>(dependence.consumer);
  return consumer < pipeline.stages.size() ? place_of(pipeline, pipeline.stages[consumer]) : pipeline.where;
}

std::string name_of(Pipeline const& pipeline, int stage) {
  auto const index = static_cast<std::size_t>(stage);
  auto const& name = pipeline.stages[index].name;
  return name.empty() ? fmt::format("stage {}", stage) : name;
}

std::string grid_text(Stage const& stage) {
  std::string text;
  for (auto const& dim : stage.grid) text += fmt::format("{}{}", text.empty() ? "" : " x ", dim.extent);
  return text;
}

std::string count_text(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace tessera::check_detail
