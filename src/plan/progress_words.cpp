// SPDX-License-Identifier: Apache-2.0
#include "progress_words.hpp"

#include <fmt/format.h>

namespace tessera::progress {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

Diagnostic refusal(char const* code, SourceLine where, std::string message, std::string suggestion) {
  Diagnostic result;
  result.code = code;
  result.where = std::move(where);
  result.message = std::move(message);
  result.suggestion = std::move(suggestion);
  return result;
}

std::string count_of(std::int64_t count, char const* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string block_name(Plan const& plan, Block block) {
  auto const& stage = plan.pipeline.stages[at(block.stage)];
  auto const work = block_work(stage, plan.stages[at(block.stage)], block.index);
  auto text = tile_name(stage, work.tile);
  if (stage.splits > 1) text += fmt::format(" split {}", work.split);
  return text;
}

}  // namespace tessera::progress
