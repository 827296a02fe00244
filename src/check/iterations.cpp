// SPDX-License-Identifier: Apache-2.0
#include "check/iterations.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "check/names.hpp"

namespace tessera::check_detail {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

bool is_in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// unroll() calls stage "step" of iteration 3 "step_3", and copy 1 of buffer "u" "u#1". Takes both back.
class BodyNames {
 public:
  explicit BodyNames(Loop const& loop) {
    for (auto const& stage : loop.body.stages) {
      stages_.insert(stage.name);
      buffers_.insert(stage.output);
      for (auto const& operand : stage.operands) buffers_.insert(operand.buffer);
    }
  }

  std::string in(std::string_view text) const {
    std::string result;
    for (std::size_t at = 0; at < text.size();) {
      auto const end = end_of_number(text, at);
      bool const ends_a_name = end == text.size() || !is_in_name(text[end]);
      if (end > at + 1 && ends_a_name &&
          ((text[at] == '_' && ends_with_one_of(stages_, result)) ||
           (text[at] == '#' && ends_with_one_of(buffers_, result)))) {
        at = end;
        continue;
      }
      result += text[at++];
    }
    return result;
  }

 private:
  /// The end of a number behind the mark at `at`; at + 1: there is none.
  static std::size_t end_of_number(std::string_view text, std::size_t at) {
    auto end = at + 1;
    if (text[at] != '_' && text[at] != '#') return end;
    if (text[at] == '#' && end < text.size() && text[end] == '-') ++end;  // from before the loop
    auto const digits = end;
    while (end < text.size() && is_digit(text[end])) ++end;
    return end == digits ? at + 1 : end;
  }

  static bool ends_with_one_of(std::set<std::string> const& names, std::string_view text) {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string const& name) { return text.ends_with(name); });
  }

  std::set<std::string> stages_, buffers_;
};

std::string without_numbers(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), is_digit), text.end());
  return text;
}

}  // namespace

Diagnostics once_each(Diagnostics const& found, Loop const& loop, int further) {
  BodyNames const names(loop);
  using Key = std::tuple<std::string, std::string, int, std::string, std::string>;
  std::map<Key, std::size_t> kept_at;
  std::vector<std::int64_t> more;
  Diagnostics kept;
  for (auto const& one : found) {
    std::string notes;  // these number stages as they are written out
    for (auto const& note : one.notes) notes += without_numbers(names.in(note)) + '\n';
    auto const [known, is_new] = kept_at.try_emplace(
        Key{one.code, one.where.file, one.where.line, names.in(one.message), notes}, kept.size());
    if (is_new) {
      kept.push_back(one);
      more.push_back(0);
    } else {
      ++more[known->second];
    }
  }
  for (std::size_t i = 0; i < kept.size(); ++i)
    if (more[i] > 0)
      kept[i].notes.push_back("the same in " + count_text(more[i] + further, "later iteration"));
  return kept;
}

}  // namespace tessera::check_detail
