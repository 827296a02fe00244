// SPDX-License-Identifier: Apache-2.0
#include "diagnostic/nearest.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace tessera {
namespace {

constexpr std::size_t k_longest_compared = 64;  // bounds the work on hostile input

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    auto diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      auto const replaced = diagonal + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, std::vector<std::string> const& candidates) {
  std::string best;
  if (word.size() > k_longest_compared) return best;
  std::size_t best_distance = k_longest_compared;
  for (auto const& candidate : candidates) {
    if (candidate.size() > k_longest_compared) continue;
    auto const distance = edit_distance(word, candidate);
    auto const allowed = std::max<std::size_t>(1, std::max(word.size(), candidate.size()) / 3);
    if (distance <= allowed && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::vector<std::string> const& candidates) {
  auto const best = nearest(word, candidates);
  return best.empty() ? best : "did you mean \"" + best + "\"?";
}

std::string list_of(std::vector<std::string> const& words, std::string_view last_joint) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0 && i + 1 == words.size()) {
      text += ' ';
      text += last_joint;
      text += ' ';
    } else if (i > 0) {
      text += ", ";
    }
    text += words[i];
  }
  return text;
}

}  // namespace tessera
