// SPDX-License-Identifier: Apache-2.0
#include "tessera/report/json_text.hpp"

#include <fmt/format.h>

#include <cmath>

namespace tessera {
namespace {

constexpr std::size_t k_broken_levels = 2;  // levels whose items stand on their own lines

/// Length of the valid UTF-8 sequence at the start of `text`, or 0.
std::size_t sequence_length(std::string_view text) {
  auto const first = static_cast<unsigned char>(text[0]);
  std::size_t const length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  if (length > 2) {
    auto const second = static_cast<unsigned char>(text[1]);
    bool const overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
    bool const outside = (first == 0xED && second >= 0xA0) || (first == 0xF4 && second >= 0x90);
    if (overlong || outside) return 0;
  }
  return length;
}

}  // namespace

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    auto const length = sequence_length(text);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      text.remove_prefix(1);
      continue;
    }
    char const c = text[0];
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      default:
        if (length == 1 && static_cast<unsigned char>(c) < 0x20)
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        else
          out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out + '"';
}

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  return fmt::format("{}", value);
}

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (has_items_.empty()) return;
  if (has_items_.back()) text_ += ',';
  has_items_.back() = true;
  if (has_items_.size() <= k_broken_levels)
    text_ += '\n' + std::string(2 * has_items_.size(), ' ');
  else if (text_.back() == ',')
    text_ += ' ';
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  text_ += json_quoted(name);
  text_ += ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  text_ += json;
  return *this;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  text_ += bracket;
  has_items_.push_back(false);
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  bool const had_items = has_items_.back();
  has_items_.pop_back();
  if (had_items && has_items_.size() < k_broken_levels)
    text_ += '\n' + std::string(2 * has_items_.size(), ' ');
  text_ += bracket;
  return *this;
}

}  // namespace tessera
