// SPDX-License-Identifier: Apache-2.0
#include "report/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tessera::report {
namespace {

std::string trimmed(std::string line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

/// Digits after the point so that about four digits are shown.
int decimals(double value) {
  double const size = std::abs(value);
  return size >= 1000 ? 0 : size >= 100 ? 1 : 2;
}

/// Lines of whole words, each up to `room` wide; at least one line. A word that is wider is cut.
std::vector<std::string> wrapped(std::string_view text, std::size_t room) {
  std::vector<std::string> lines(1);
  std::size_t used = 0;
  for (std::size_t at = 0; at < text.size();) {
    auto const end = std::min(text.find_first_of(" \n", at), text.size());
    auto const word = cut(std::string(text.substr(at, end - at)), room);
    at = end + 1;
    if (word.empty()) continue;
    auto const size = display_width(word);
    if (used > 0 && used + 1 + size > room) {
      lines.emplace_back();
      used = 0;
    }
    lines.back() += (used > 0 ? " " : "") + word;
    used += size + (used > 0 ? 1 : 0);
  }
  return lines;
}

}  // namespace

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string cut(std::string text, std::size_t width) {
  if (display_width(text) <= width) return text;
  std::size_t end = 0;
  std::size_t seen = 0;
  while (end < text.size()) {
    bool const starts = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (starts && ++seen > (width > 3 ? width - 3 : width)) break;
    ++end;
  }
  text.resize(end);
  return width > 3 ? text + "..." : text;
}

std::string table(std::vector<std::vector<std::string>> const& rows, std::vector<int> const& right,
                  int indent) {
  auto const to_right = [&](std::size_t column) {
    return std::find(right.begin(), right.end(), static_cast<int>(column)) != right.end();
  };
  std::vector<std::size_t> widths;
  for (auto const& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c >= widths.size()) widths.push_back(0);
      widths[c] = std::max(widths[c], display_width(row[c]));
    }
  // Names give way to numbers: the widest column of text shrinks first.
  auto const total = [&] {
    std::size_t sum = static_cast<std::size_t>(indent);
    for (auto const width : widths) sum += width + 2;
    return sum - 2;
  };
  while (!widths.empty() && total() > k_columns) {
    std::size_t widest = widths.size();
    for (std::size_t c = 0; c < widths.size(); ++c)
      if (!to_right(c) && widths[c] > 8 && (widest == widths.size() || widths[c] > widths[widest]))
        widest = c;
    if (widest == widths.size()) break;
    --widths[widest];
  }
  std::string text;
  for (auto const& row : rows) {
    std::string line(static_cast<std::size_t>(indent), ' ');
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c > 0) line += "  ";
      // A sentence in the last column goes on below; elsewhere there is no room for one.
      if (c > 0 && c + 1 == widths.size() && !to_right(c) && display_width(row[c]) > widths[c]) {
        std::string const hanging(display_width(line), ' ');
        auto const lines = wrapped(row[c], widths[c]);
        for (std::size_t i = 0; i < lines.size(); ++i) line += (i > 0 ? '\n' + hanging : "") + lines[i];
        continue;
      }
      auto const cell = cut(row[c], widths[c]);
      std::string const padding(widths[c] - display_width(cell), ' ');
      line += to_right(c) ? padding + cell : cell + padding;
    }
    text += trimmed(line) + '\n';
  }
  return text;
}

std::string labelled(std::string_view label, std::string_view text, int indent, int label_width, int width) {
  std::string const hanging(static_cast<std::size_t>(indent + label_width + 1), ' ');
  std::string out, line = fmt::format("{:{}}{:<{}} ", "", indent, label, label_width);
  for (auto const& part : wrapped(text, static_cast<std::size_t>(width) - hanging.size())) {
    out += trimmed(line + part) + '\n';
    line = hanging;
  }
  return out;
}

std::string us_number(double microseconds) {
  return fmt::format("{:.{}f}", microseconds, decimals(microseconds));
}
std::string us(double microseconds) { return us_number(microseconds) + " us"; }
std::string us_of(std::int64_t picoseconds) { return us(static_cast<double>(picoseconds) * 1e-6); }
std::string signed_us(double microseconds) {
  return fmt::format("{:+.{}f} us", microseconds, decimals(microseconds));
}
std::string percent(double share) { return fmt::format("{:.1f} %", share * 100); }
std::string plural(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string html(std::string_view text) {
  std::string out;
  for (char const c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  return out;
}

}  // namespace tessera::report
