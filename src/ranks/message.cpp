// SPDX-License-Identifier: Apache-2.0
#include "message.hpp"

#include <algorithm>
#include <cstdint>

#include "tessera/ranks/pack.hpp"

namespace tessera::ranks {
namespace {

/// In front of every message, so that another program's bytes are told from one.
constexpr std::string_view k_mark = "tsr1";
constexpr std::size_t k_head = 4 + 1 + 4;  // mark, kind, length of the rest
/// No call says more. A longer one is no message.
constexpr std::uint32_t k_most_bytes = 64u << 20;

std::uint32_t length_at(std::string_view from) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i)
    number |= static_cast<std::uint32_t>(static_cast<unsigned char>(from[i])) << (8 * i);
  return number;
}

}  // namespace

std::string encode(Message const& message) {
  auto const rest = pack({pack(message.words)});
  std::string result(k_mark);
  result.push_back(static_cast<char>(message.kind));
  return result + rest;
}

std::optional<Message> Decoder::next() {
  auto const known = std::min(bytes_.size(), k_mark.size());
  if (bytes_.compare(0, known, k_mark, 0, known) != 0) strange_ = true;
  if (strange_ || bytes_.size() < k_head) return std::nullopt;
  std::string_view const all = bytes_;
  auto const kind = static_cast<unsigned char>(all[4]);
  auto const length = length_at(all.substr(5));
  if (kind < static_cast<unsigned char>(Kind::hello) || kind > static_cast<unsigned char>(Kind::goodbye) ||
      length > k_most_bytes) {
    strange_ = true;
    return std::nullopt;
  }
  if (all.size() < k_head + length) return std::nullopt;
  auto words = unpack(all.substr(k_head, length));
  strange_ = !words;
  if (strange_) return std::nullopt;
  bytes_.erase(0, k_head + length);
  return Message{static_cast<Kind>(kind), std::move(*words)};
}

Message failure_of(Diagnostic const& diagnostic) { return {Kind::failure, {pack(Diagnostics{diagnostic})}}; }

Diagnostic diagnostic_of(Message const& failure) {
  if (auto found = failure.words.empty() ? Diagnostics{} : unpack_diagnostics(failure.words.front());
      !found.empty())
    return std::move(found.front());
  Diagnostic one;
  one.code = "E0586";
  one.message = "the group has ended, and did not say why";
  return one;
}

}  // namespace tessera::ranks
