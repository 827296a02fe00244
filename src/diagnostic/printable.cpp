// SPDX-License-Identifier: Apache-2.0
#include "diagnostic/printable.hpp"

#include <fmt/format.h>

namespace tessera {
namespace {

/// What changes the order of the text behind it, ends a line or is not seen: U+061C, U+200B to U+200F, U+2028
/// to U+202E, U+2060 to U+206F and U+FEFF. Their bytes in UTF-8 are two or three; 0: it is none of them.
int misleading(std::string_view text, unsigned& point) {
  auto const byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  auto const follows = [&](std::size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  if (byte(0) == 0xd8 && byte(1) == 0x9c) {
    point = 0x61c;
    return 2;
  }
  if ((byte(0) & 0xf0u) != 0xe0u || !follows(1) || !follows(2)) return 0;
  point = (byte(0) & 0xfu) << 12 | (byte(1) & 0x3fu) << 6 | (byte(2) & 0x3fu);
  bool const is = (point >= 0x200b && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) ||
                  (point >= 0x2060 && point <= 0x206f) || point == 0xfeff;
  return is ? 3 : 0;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto const c = static_cast<unsigned char>(text[i]);
    bool const control = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    // U+0080 to U+009F: terminals that know them take U+009B for an escape and a bracket.
    auto const next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0u;
    bool const wide_control = c == 0xc2 && next >= 0x80 && next < 0xa0;
    unsigned point = 0;
    if (auto const bytes = misleading(text.substr(i, 3), point); bytes > 0) {
      out += fmt::format("\\u{:04x}", point);
      i += static_cast<std::size_t>(bytes) - 1;
    } else if (control) {
      out += fmt::format("\\x{:02x}", c);
    } else if (wide_control) {
      out += fmt::format("\\u{:04x}", next);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace tessera
