// SPDX-License-Identifier: Apache-2.0
#include "report/probe_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "report/text.hpp"

namespace tessera::report {

char const* const k_probe_style = R"css(
.curves{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(420px,100%),1fr));gap:4px 36px}.curves>div{min-width:0;overflow-x:auto}
td.u,th.u{white-space:nowrap}
.small{max-width:640px;display:block;width:100%;height:auto}
.wide .small{max-width:900px}
.small text{font-size:11px;fill:var(--soft)}.small .end{text-anchor:end}.small .mid{text-anchor:middle}
.l0,.l1,.l2,.l3,.l4,.l5,.l6,.l7{fill:none;stroke-width:2}
.l0{stroke:var(--c0)}.l1{stroke:var(--c1)}.l2{stroke:var(--c2)}.l3{stroke:var(--c3)}.l4{stroke:var(--c4)}.l5{stroke:var(--c5)}.l6{stroke:var(--c6)}.l7{stroke:var(--c7)}
table.heat{width:auto}table.heat td{text-align:right;padding:4px 7px;white-space:nowrap;font-size:.85rem;font-variant-numeric:tabular-nums}
.about{color:var(--soft);font-size:.9rem}code{font-size:.9em}
@media(max-width:680px){table.heat,table.heat tbody{display:table}table.heat tr{display:table-row}table.heat td,table.heat th{display:table-cell}}
)css";

namespace {

constexpr double k_width = 520, k_height = 220, k_left = 62, k_right = 12, k_top = 14, k_bottom = 34;
constexpr std::size_t k_colours = 8;

template <class... Arguments>
void append(std::string& out, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Arguments>(arguments)...);
}

/// A linear or a logarithmic axis over what it is to show.
struct Axis {
  bool logarithmic = false;
  double low = 0, high = 1, from = 0, to = 1;

  Axis(double least, double most, double begin, double end) : low(least), high(most), from(begin), to(end) {
    logarithmic = least > 0 && most > 10 * least;
    if (!logarithmic && least > 0) low = 0;
    if (high <= low) high = low + 1;
  }
  double at(double value) const {
    double const part = logarithmic ? std::log(std::max(value, low) / low) / std::log(high / low)
                                    : (value - low) / (high - low);
    return from + part * (to - from);
  }
  std::vector<double> marks() const {
    std::vector<double> result;
    if (logarithmic) {
      // One, two, five where the axis is short.
      double const step = high > 1e5 * low ? 100 : 10;
      for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= step)
        for (double factor : {1.0, 2.0, 5.0})
          if ((factor == 1 || high < 1000 * low) && factor * power >= low * 0.9999 &&
              factor * power <= high * 1.0001)
            result.push_back(factor * power);
      if (result.size() < 2) result = {low, high};
      return result;
    }
    double const power = std::pow(10, std::floor(std::log10((high - low) / 4)));
    double step = 10 * power;
    for (double factor : {5.0, 2.0, 1.0})
      if (factor * power >= (high - low) / 5) step = factor * power;
    for (double v = std::ceil(low / step) * step; v <= high + step * 1e-6; v += step) result.push_back(v);
    return result;
  }
};

/// Without `x_marks` the axis chooses.
std::string frame(Axis const& x, Axis const& y, std::string const& x_name, std::string const& y_name,
                  std::vector<double> const& x_marks = {}) {
  std::string out;
  for (double v : y.marks()) {
    append(out, "<line class=\"grid\" x1=\"{:.0f}\" x2=\"{:.0f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", k_left,
           k_width - k_right, y.at(v), y.at(v));
    append(out, "<text class=\"end\" x=\"{:.0f}\" y=\"{:.1f}\">{}</text>", k_left - 5, y.at(v) + 4,
           number_text(v));
  }
  for (double v : x_marks.empty() ? x.marks() : x_marks)
    append(out, "<text class=\"mid\" x=\"{:.1f}\" y=\"{:.0f}\">{}</text>", x.at(v), k_height - k_bottom + 15,
           html(x_name.find("bytes") != std::string::npos ? condition_value("bytes", v) : number_text(v)));
  append(out, "<text class=\"end\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>", k_width - k_right, k_height - 4,
         html(x_name));
  append(out, "<text x=\"{:.0f}\" y=\"10\">{}</text>", k_left + 4, html(y_name));
  return out;
}

std::string svg(std::string const& body, std::string const& label) {
  return fmt::format(
      "<svg class=\"small\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">{}</svg>", k_width,
      k_height, html(label), body);
}

/// Names that are empty keep their colour and are not shown.
std::string legend(std::vector<std::string> const& names) {
  std::string out = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!names[i].empty())
      append(
          out,
          "<li><svg width=\"12\" height=\"12\"><rect class=\"s{}\" width=\"12\" height=\"12\"/></svg>{}</li>",
          i % k_colours, html(names[i]));
  return out + "</ul>";
}

struct Range {
  double least = INFINITY, most = -INFINITY;
  void take(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
};

}  // namespace

std::string curve_plot(ProbeCurve const& curve, std::vector<NamedProbe> const& probes) {
  if (curve.varying.size() != 1 || curve.points.size() < 3) return "";
  auto const& name = curve.varying.front();
  Range xs, ys;
  std::vector<std::vector<std::pair<double, double>>> lines(probes.size());
  for (auto const& point : curve.points) {
    auto const at = point.at.find(name);
    if (at == point.at.end()) continue;
    for (std::size_t p = 0; p < probes.size(); ++p)
      if (point.values[p] != nullptr) {
        lines[p].emplace_back(at->second, point.values[p]->median);
        xs.take(at->second);
        ys.take(point.values[p]->median);
      }
  }
  if (!(xs.least < xs.most)) return "";
  Axis const x(xs.least, xs.most, k_left, k_width - k_right),
      y(ys.least, ys.most, k_height - k_bottom, k_top);
  std::set<double> measured;
  for (auto const& line : lines)
    for (auto const& [a, b] : line) measured.insert(a);
  std::vector<double> marks;
  if (measured.size() <= 9)
    for (double v : measured)
      if (marks.empty() || x.at(v) - x.at(marks.back()) > 30) marks.push_back(v);
  auto body = frame(x, y, condition_name(name), curve.figure->unit, marks);
  std::vector<std::string> names;
  for (std::size_t p = 0; p < probes.size(); ++p) {
    names.push_back(lines[p].empty() ? "" : probes[p].name);
    std::sort(lines[p].begin(), lines[p].end());
    append(body, "<polyline class=\"l{}\" points=\"", p % k_colours);
    for (auto const& [a, b] : lines[p]) append(body, "{:.1f},{:.1f} ", x.at(a), y.at(b));
    body += "\"/>";
    for (auto const& [a, b] : lines[p])
      append(body, "<circle class=\"s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{}: {}</title></circle>",
             p % k_colours, x.at(a), y.at(b), html(condition_value(name, a)), number_text(b));
  }
  return (measured_by(curve).size() > 1 ? legend(names) : "") + svg(body, curve.figure->what);
}

std::string heat_map(ProbeCurve const& curve) {
  if (curve.varying.size() != 2) return "";
  auto const &rows = curve.varying[0], &columns = curve.varying[1];
  std::set<double> row_values, column_values;
  std::map<std::pair<double, double>, double> values;
  Range range;
  for (auto const& point : curve.points) {
    auto const r = point.at.find(rows), c = point.at.find(columns);
    if (r == point.at.end() || c == point.at.end() || point.values.front() == nullptr) continue;
    row_values.insert(r->second);
    column_values.insert(c->second);
    values[{r->second, c->second}] = point.values.front()->median;
    range.take(point.values.front()->median);
  }
  if (row_values.size() < 2 || column_values.size() < 2 ||
      2 * values.size() < row_values.size() * column_values.size())
    return "";
  std::string out = fmt::format("<table class=\"heat\"><tbody><tr><th>{} \\ {}</th>",
                                html(condition_name(rows)), html(condition_name(columns)));
  for (double c : column_values) append(out, "<th class=\"n\">{}</th>", html(condition_value(columns, c)));
  out += "</tr>\n";
  for (double r : row_values) {
    append(out, "<tr><th class=\"n\">{}</th>", html(condition_value(rows, r)));
    for (double c : column_values) {
      auto const found = values.find({r, c});
      if (found == values.end()) {
        out += "<td></td>";
        continue;
      }
      double const part =
          range.most > range.least ? (found->second - range.least) / (range.most - range.least) : 0;
      append(out, "<td style=\"background:color-mix(in srgb,var(--c4) {:.0f}%,transparent)\">{}</td>",
             5 + 65 * part, number_text(found->second));
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

std::string tau_plot(std::vector<TauModel> const& models) {
  Range xs, ys;
  auto const each = [&](auto const& take) {
    for (std::size_t m = 0; m < models.size(); ++m)
      for (auto const* list : {&models[m].samples, &models[m].kept_back})
        for (auto const& s : *list)
          if (s.syncs > 0 && s.work > 0 && s.iterations > 0)
            take(m, s.work / s.syncs, (s.ns - models[m].fit.start_ns) / (s.iterations * s.work), list);
  };
  each([&](std::size_t, double iota, double tau, auto const*) {
    if (tau > 0) xs.take(iota), ys.take(tau);
  });
  if (!(xs.least < xs.most)) return "";
  Axis const x(xs.least, xs.most, k_left, k_width - k_right),
      y(ys.least, ys.most, k_height - k_bottom, k_top);
  auto body = frame(x, y, "units of work for one synchronization", "ns for a unit of work");
  std::vector<std::string> names;
  for (std::size_t m = 0; m < models.size(); ++m) {
    auto const& fit = models[m].fit;
    append(body, "<polyline class=\"l{}\" points=\"", m % k_colours);
    for (int i = 0; i <= 40; ++i) {
      double const iota = xs.least * std::pow(xs.most / xs.least, i / 40.0);
      double const tau = fit.work_ns + fit.sync_ns / iota;
      if (tau >= y.low && tau <= y.high) append(body, "{:.1f},{:.1f} ", x.at(iota), y.at(tau));
    }
    body += "\"/>";
    names.push_back(fmt::format("{}: {} ns", models[m].mechanism, number_text(fit.sync_ns)));
  }
  each([&](std::size_t m, double iota, double tau, auto const* list) {
    if (tau <= 0) return;
    bool const kept = list == &models[m].kept_back;
    append(body, "<circle class=\"{}{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>", kept ? 'l' : 's',
           m % k_colours, x.at(iota), y.at(tau));
  });
  return legend(names) + svg(body, "measured points over the fitted law");
}

}  // namespace tessera::report
