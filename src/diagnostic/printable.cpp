// SPDX-License-Identifier: Apache-2.0
#include "diagnostic/printable.hpp"

#include <fmt/format.h>

namespace tessera {

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto const c = static_cast<unsigned char>(text[i]);
    bool const control = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    // U+0080 to U+009F: terminals that know them take U+009B for an escape and a bracket.
    auto const next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0u;
    bool const wide_control = c == 0xc2 && next >= 0x80 && next < 0xa0;
    if (control) {
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
