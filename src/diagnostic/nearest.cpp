// SPDX-License-Identifier: Apache-2.0
#include "diagnostic/nearest.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>

namespace tessera {
namespace {

constexpr std::size_t k_longest_compared = 64;  // bounds the work on hostile input

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

/// Two neighbours that changed places are one edit.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> last(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(last, above);
    std::swap(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      bool const same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
        row[j] = std::min(row[j], last[j - 2] + 1);
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

std::string slip_of(std::string_view word, std::vector<std::string> const& candidates) {
  constexpr std::size_t k_least_letters = 8, k_most_edits = 2;
  if (word.size() < k_least_letters || word.size() > k_longest_compared) return {};
  for (auto const& candidate : candidates)
    if (candidate.size() >= k_least_letters && candidate.size() <= k_longest_compared &&
        edit_distance(word, candidate) <= k_most_edits)
      return candidate;
  return {};
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
