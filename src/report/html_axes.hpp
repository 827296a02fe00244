// SPDX-License-Identifier: Apache-2.0
// What all drawings over time in a page are made of: an axis, lines at its marks, boxes from one time to
// another.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace tessera::report {

template <class... Arguments>
void append(std::string& out, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Arguments>(arguments)...);
}

inline double share(std::int64_t ps, std::int64_t scale) {
  return scale > 0 ? 100.0 * static_cast<double>(ps) / static_cast<double>(scale) : 0;
}

/// 1, 2 or 5 times a power of ten, so that the axis has about six marks.
inline double tick_step(double us) {
  if (us <= 0) return 1;
  double const raw = us / 7;
  double const power = std::pow(10, std::floor(std::log10(raw)));
  for (double const factor : {1.0, 2.0, 5.0})
    if (factor * power >= raw) return factor * power;
  return 10 * power;
}

inline std::string axis(std::int64_t scale) {
  double const us_total = static_cast<double>(scale) * 1e-6;
  double const step = tick_step(us_total);
  std::string out = "<div class=\"axis\">";
  for (int i = 0; i * step <= us_total * 1.0001; ++i) {
    double const at = us_total > 0 ? 100 * i * step / us_total : 0;
    bool const last = at > 92;
    append(out, "<span style=\"left:{:.2f}%\"{}>{:g}{}</span>", at, last ? " class=\"end\"" : "", i * step,
           i == 0 ? " us" : "");
    if (us_total <= 0) break;
  }
  return out + "</div>";
}

inline std::string grid_lines(std::int64_t scale, int height) {
  double const us_total = static_cast<double>(scale) * 1e-6;
  double const step = tick_step(us_total);
  std::string out;
  for (int i = 1; us_total > 0 && i * step <= us_total; ++i)
    append(out, "<line class=\"grid\" x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y1=\"0\" y2=\"{1}\"/>",
           100 * i * step / us_total, height);
  return out;
}

/// An SVG as wide as its place. `label`: HTML already, for who does not see it.
inline std::string svg_head(int height, std::string_view label) {
  return fmt::format("<svg height=\"{}\" role=\"img\" aria-label=\"{}\">", height, label);
}

inline void rect(std::string& out, std::string_view css, std::int64_t from, std::int64_t to,
                 std::int64_t scale, double y, int height) {
  if (to <= from) return;
  append(out, "<rect class=\"{}\" x=\"{:.3f}%\" width=\"{:.3f}%\" y=\"{}\" height=\"{}\"/>", css,
         share(from, scale), share(to - from, scale), y, height);
}

}  // namespace tessera::report
