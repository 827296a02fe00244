// SPDX-License-Identifier: Apache-2.0
#include "message.hpp"

#include <algorithm>
#include <cstdint>

namespace tessera::ranks {
namespace {

/// In front of every message, so that another program's bytes are told from one.
constexpr std::string_view k_mark = "tsr1";
constexpr std::size_t k_head = 4 + 1 + 4;  // mark, kind, length of the rest
/// No call says more. A longer one is no message.
constexpr std::uint32_t k_most_bytes = 64u << 20;

void put(std::string& to, std::size_t number) {
  for (int i = 0; i < 4; ++i) to.push_back(static_cast<char>(number >> (8 * i) & 0xff));
}
std::uint32_t get(std::string_view from) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i)
    number |= static_cast<std::uint32_t>(static_cast<unsigned char>(from[i])) << (8 * i);
  return number;
}

}  // namespace

std::string encode(Message const& message) {
  std::string rest;
  for (auto const& word : message.words) {
    put(rest, word.size());
    rest += word;
  }
  std::string result(k_mark);
  result.push_back(static_cast<char>(message.kind));
  put(result, rest.size());
  return result + rest;
}

std::optional<Message> Decoder::next() {
  auto const known = std::min(bytes_.size(), k_mark.size());
  if (bytes_.compare(0, known, k_mark, 0, known) != 0) strange_ = true;
  if (strange_ || bytes_.size() < k_head) return std::nullopt;
  std::string_view const all = bytes_;
  auto const kind = static_cast<unsigned char>(all[4]);
  auto const length = get(all.substr(5));
  if (kind < static_cast<unsigned char>(Kind::hello) || kind > static_cast<unsigned char>(Kind::goodbye) ||
      length > k_most_bytes) {
    strange_ = true;
    return std::nullopt;
  }
  if (all.size() < k_head + length) return std::nullopt;
  Message message{static_cast<Kind>(kind), {}};
  for (auto rest = all.substr(k_head, length); !rest.empty();) {
    if (rest.size() < 4 || get(rest) > rest.size() - 4) {
      strange_ = true;
      return std::nullopt;
    }
    message.words.emplace_back(rest.substr(4, get(rest)));
    rest.remove_prefix(4 + get(rest));
  }
  bytes_.erase(0, k_head + length);
  return message;
}

Message failure_of(Diagnostic const& diagnostic) {
  Message message{Kind::failure, {diagnostic.code, diagnostic.message, diagnostic.suggestion}};
  message.words.insert(message.words.end(), diagnostic.notes.begin(), diagnostic.notes.end());
  return message;
}

Diagnostic diagnostic_of(Message const& failure) {
  Diagnostic one;
  auto const& words = failure.words;
  if (words.size() < 3) {
    one.code = "E0586";
    one.message = "the group has ended, and did not say why";
    return one;
  }
  one.code = words[0];
  one.message = words[1];
  one.suggestion = words[2];
  one.notes.assign(words.begin() + 3, words.end());
  return one;
}

}  // namespace tessera::ranks
