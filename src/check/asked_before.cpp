// SPDX-License-Identifier: Apache-2.0
#include "check/asked_before.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>

namespace tessera::check_detail {
namespace {

/// Of one key, so that looking is no longer than asking; and in all, some 2 MB.
constexpr std::size_t k_most_answers_of_key = 8;
constexpr std::size_t k_most_answers = 10'000;

std::string layout_of(Stage const& stage) {
  auto text = fmt::format("{:.17g}", stage.store_bytes_per_block);
  for (auto const& dim : stage.grid) text += fmt::format(" {}", dim.extent);
  return text;
}

std::string text_of(Dependence const& dependence, Stage const& producer) {
  static std::vector<std::string> const dims = {"x", "y", "z", "w"};
  auto text = fmt::format("\n{} {}:{} {}", dependence.consumer - dependence.producer,
                          dependence.operand.size(), dependence.operand, layout_of(producer));
  for (auto const& access : dependence.accesses)
    for (auto const& range : access.ranges)
      text += fmt::format(" {} : {}", to_text(range.begin, dims), to_text(range.end, dims));
  return text;
}

/// Which operands read a buffer.
std::vector<bool> readers_of(Stage const& stage, std::string const& buffer) {
  std::vector<bool> result;
  for (auto const& operand : stage.operands) result.push_back(operand.buffer == buffer);
  return result;
}

}  // namespace

AskedBefore::AskedBefore(Pipeline const& pipeline) : pipeline_(pipeline) {
  std::vector<std::string> texts;
  for (auto const& stage : pipeline.stages) {
    texts.push_back(layout_of(stage));
    for (auto const& operand : stage.operands)
      texts.back() += fmt::format("\n{}:{}", operand.name.size(), operand.name);
  }
  for (auto const& d : pipeline.dependences)
    texts[static_cast<std::size_t>(d.consumer)] +=
        text_of(d, pipeline.stages[static_cast<std::size_t>(d.producer)]);
  std::map<std::string, int> known;
  for (auto& text : texts)
    kinds_.push_back(known.try_emplace(std::move(text), static_cast<int>(known.size())).first->second);
}

AskedBefore::Key AskedBefore::key_of(BufferReuse const& question) const {
  return {question.writer - question.reader, kinds_[static_cast<std::size_t>(question.writer)],
          kinds_[static_cast<std::size_t>(question.reader)]};
}

bool AskedBefore::same(BufferReuse const& a, BufferReuse const& b) const {
  auto const& of_a = pipeline_.stages[static_cast<std::size_t>(a.reader)];
  auto const& of_b = pipeline_.stages[static_cast<std::size_t>(b.reader)];
  if ((of_a.output == a.buffer) != (of_b.output == b.buffer)) return false;
  if (readers_of(of_a, a.buffer) != readers_of(of_b, b.buffer)) return false;
  return std::equal(kinds_.begin() + a.reader, kinds_.begin() + a.writer + 1, kinds_.begin() + b.reader);
}

bool AskedBefore::answer(BufferReuse& question) const {
  auto const place = answers_.find(key_of(question));
  if (place == answers_.end()) return false;
  for (auto const& known : place->second)
    if (same(known, question)) {
      question.covered = known.covered;
      question.writer_tile = known.writer_tile;
      question.reader_tile = known.reader_tile;
      return true;
    }
  return false;
}

void AskedBefore::remember(BufferReuse const& answered) {
  if (remembered_ >= k_most_answers) return;
  auto& answers = answers_[key_of(answered)];
  if (answers.size() >= k_most_answers_of_key) return;
  answers.push_back(answered);
  ++remembered_;
}

}  // namespace tessera::check_detail
