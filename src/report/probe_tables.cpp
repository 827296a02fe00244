// SPDX-License-Identifier: Apache-2.0
#include "report/probe_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tessera/measure/measured.hpp"

namespace tessera::report {
namespace {

struct Level {
  char const *prefix, *title, *about;
};

Level const k_levels[] = {
    {"check.", "Two methods, one figure", "What two independent methods say of the same cost."},
    {"timer.", "Clocks", "How finely time can be told; stamps of less than ten steps say little."},
    {"warp.", "Warp", "Groups of threads of one warp. Cycles of the SM's clock."},
    {"block.", "Block", "Threads of one block. Throughput counts warps that were synchronized."},
    {"cluster.", "Cluster", "Blocks of one cluster, which reach each other's shared memory."},
    {"grid.", "Grid", "All blocks of a kernel, which are all resident."},
    {"pair.", "Pair of blocks", "One block posts, another waits: semaphores through L2."},
    {"exchange.", "Exchange in a persistent launch",
     "Blocks hand data to others, with memory at rest and while all SMs stream it."},
    {"tau.", "A step of work and a synchronization", "What the model below is fitted to says of each way."},
    {"kernel.", "Kernel boundary", "What it takes to go from one kernel to the next, and to launch one."},
    {"pdl.", "Programmatic dependent launch",
     "When blocks of the next kernel start, by where the trigger stands."},
    {"order.", "Which block starts first", "What the hardware was seen to do, and how often not."},
    {"residency.", "What is resident together",
     "Blocks that an SM really holds, against what the rules say."},
    {"peer.", "Several GPUs", "Flags and barriers through peer memory, and what else is offered."},
    {"memory.", "Memory", "What loads take and how fast memory is read."},
    {"reduce.", "Reduction", "The sum of many numbers, by every level that can share the work."},
    {"switch.", "Switch points", "From which size on more workers pay though they must synchronize."},
    {"", "Other", ""},
};

std::size_t level_of(std::string const& id) {
  std::size_t level = 0;
  while (id.rfind(k_levels[level].prefix, 0) != 0) ++level;
  return level;
}

/// Do two sets of conditions speak of the same? One may name more of them than the other.
bool compatible(std::map<std::string, double> const& a, std::map<std::string, double> const& b) {
  auto const& smaller = a.size() <= b.size() ? a : b;
  auto const& larger = a.size() <= b.size() ? b : a;
  return std::all_of(smaller.begin(), smaller.end(), [&](auto const& one) {
    auto const other = larger.find(one.first);
    return other != larger.end() && other->second == one.second;
  });
}

ProbePoint& point_for(ProbeCurve& curve, Figure const& figure, std::size_t probe, std::size_t probes) {
  ProbePoint* loose = nullptr;
  for (auto& point : curve.points) {
    if (point.values[probe] != nullptr) continue;
    if (point.at == figure.at) return point;
    if (loose == nullptr && compatible(point.at, figure.at)) loose = &point;
  }
  if (loose != nullptr) return *loose;
  curve.points.push_back({figure.at, std::vector<Figure const*>(probes, nullptr)});
  return curve.points.back();
}

/// Does each value of `a` go with one of `b` only, and the other way round? Blocks of a grid and blocks of an
/// SM do.
bool say_the_same(ProbeCurve const& curve, std::string const& a, std::string const& b) {
  std::map<double, double> forth, back;
  for (auto const& point : curve.points) {
    auto const x = point.at.find(a), y = point.at.find(b);
    if (x == point.at.end() || y == point.at.end()) return false;
    if (forth.emplace(x->second, y->second).first->second != y->second) return false;
    if (back.emplace(y->second, x->second).first->second != x->second) return false;
  }
  return true;
}

void find_varying(ProbeCurve& curve) {
  std::map<std::string, std::set<double>> seen;
  std::map<std::string, std::size_t> times;
  for (auto const& point : curve.points)
    for (auto const& [name, value] : point.at) {
      seen[name].insert(value);
      ++times[name];
    }
  for (auto const& [name, values] : seen)
    if (values.size() > 1 || times[name] != curve.points.size())
      curve.varying.push_back(name);
    else
      curve.fixed[name] = *values.begin();
  auto& varying = curve.varying;
  for (std::size_t i = 0; i < varying.size(); ++i)
    for (std::size_t j = i + 1; j < varying.size(); ++j)
      if (say_the_same(curve, varying[i], varying[j])) {
        varying.erase(varying.begin() + static_cast<std::ptrdiff_t>(i--));
        break;
      }
}

}  // namespace

std::vector<ProbeSection> probe_sections(std::vector<NamedProbe> const& probes) {
  std::vector<ProbeSection> sections;
  for (auto const& level : k_levels) sections.push_back({level.title, level.about, {}});
  for (std::size_t p = 0; p < probes.size(); ++p)
    for (auto const& figure : probes[p].probe.figures) {
      auto& curves = sections[level_of(figure.id)].curves;
      auto curve = std::find_if(curves.begin(), curves.end(), [&](auto const& c) {
        return c.figure->id == figure.id && c.figure->unit == figure.unit;
      });
      if (curve == curves.end()) {
        curves.push_back({&figure, {}, {}, {}});
        curve = curves.end() - 1;
      }
      point_for(*curve, figure, p, probes.size()).values[p] = &figure;
    }
  for (auto& section : sections)
    for (auto& curve : section.curves) find_varying(curve);
  sections.erase(
      std::remove_if(sections.begin(), sections.end(), [](auto const& s) { return s.curves.empty(); }),
      sections.end());
  return sections;
}

std::vector<std::size_t> measured_by(ProbeCurve const& curve) {
  std::vector<std::size_t> result;
  for (std::size_t p = 0; p < curve.points.front().values.size(); ++p)
    if (std::any_of(curve.points.begin(), curve.points.end(),
                    [&](auto const& point) { return point.values[p] != nullptr; }))
      result.push_back(p);
  return result;
}

std::string condition_name(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::vector<Headline> headlines(Probe const& probe) {
  double const sms = probe.identity.sms;
  struct Wanted {
    char const *what, *id;
    std::map<std::string, double> at;
  };
  Wanted const all[] = {
      {"__syncthreads, 256 threads", "block.syncthreads", {{"threads", 256}}},
      {"hop between two SMs, release add", "pair.hop.add", {}},
      {"hop, release store", "pair.hop.store", {}},
      {"grid barrier, cooperative groups", "grid.barrier.cooperative", {{"blocks", sms}}},
      {"grid barrier, Tessera's", "grid.barrier.own", {{"blocks", sms}}},
      {"next kernel, stream order", "kernel.gap.stream", {{"blocks", sms}}},
      {"next kernel, graph", "kernel.gap.graph", {{"blocks", sms}}},
      {"grid-wide wait, programmatic launch", "kernel.grid_wait", {{"blocks", sms}}},
      {"hop to another GPU", "peer.hop.store", {}},
      {"DRAM, read", "memory.dram.read.whole", {}},
      {"L2, read", "memory.l2.read", {}},
  };
  std::vector<Headline> found;
  for (auto const& wanted : all)
    if (auto const* figure = find_figure(probe, wanted.id, wanted.at))
      found.push_back({wanted.what, number_text(figure->median) + " " +
                                        (figure->unit == "1e9 byte/s" ? "GB/s" : figure->unit)});
  return found;
}

std::vector<SharedRow> shared_rows(std::vector<ProbeSection> const& sections) {
  std::vector<SharedRow> rows;
  for (auto const& section : sections)
    for (auto const& curve : section.curves)
      for (auto const& point : curve.points)
        if (point.values.front() != nullptr && std::any_of(point.values.begin() + 1, point.values.end(),
                                                           [](auto const* f) { return f != nullptr; }))
          rows.push_back({&curve, &point});
  return rows;
}

std::string number_text(double value) {
  double const size = std::fabs(value);
  if ((value == std::floor(value) && size < 1e12) || size >= 1000) return fmt::format("{:.0f}", value);
  return fmt::format("{:.4g}", value);
}

std::string condition_value(std::string const& name, double value) {
  if (name.find("bytes") == std::string::npos || value < 1024) return number_text(value);
  constexpr char const* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  return fmt::format("{:.4g} {}", value, units[unit]);
}

std::string conditions_text(std::map<std::string, double> const& at) {
  std::string text;
  for (auto const& [name, value] : at)
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", condition_name(name), condition_value(name, value));
  return text;
}

std::string value_text(Figure const& figure) {
  auto text = number_text(figure.median);
  if (figure.deviation > std::fabs(figure.median) * 0.0005)
    text += figure.deviation >= 100 ? fmt::format(" ± {:.0f}", figure.deviation)
                                    : fmt::format(" ± {:.2g}", figure.deviation);
  return text;
}

std::vector<IdentityRow> identity_rows(std::vector<NamedProbe> const& probes) {
  std::vector<IdentityRow> rows;
  auto const add = [&](std::string name, auto const& text_of) {
    IdentityRow row{std::move(name), {}};
    for (auto const& one : probes) row.values.push_back(text_of(one.probe));
    if (std::any_of(row.values.begin(), row.values.end(), [](auto const& v) { return !v.empty(); }))
      rows.push_back(std::move(row));
  };
  auto const number = [](double value, char const* unit) {
    return value > 0 ? fmt::format("{} {}", number_text(value), unit) : std::string();
  };
  add("GPU", [](Probe const& p) { return p.identity.gpu; });
  add("driver", [](Probe const& p) { return p.identity.driver; });
  add("toolkit", [](Probe const& p) { return p.identity.toolkit; });
  add("Tessera", [](Probe const& p) {
    return p.identity.library + (p.identity.commit.empty() ? "" : ", " + p.identity.commit.substr(0, 12));
  });
  add("date", [](Probe const& p) { return p.identity.date; });
  add("SMs", [](Probe const& p) { return p.identity.sms > 0 ? fmt::format("{}", p.identity.sms) : ""; });
  add("SM clock, measured", [&](Probe const& p) { return number(p.identity.sm_clock_ghz, "GHz"); });
  add("SM clock, highest", [&](Probe const& p) { return number(p.identity.highest_sm_ghz, "GHz"); });
  add("memory clock", [&](Probe const& p) { return number(p.identity.memory_clock_ghz, "GHz"); });
  add("power limit", [&](Probe const& p) { return number(p.identity.power_limit_w, "W"); });
  add("GPUs that reach each other", [](Probe const& p) { return fmt::format("{}", p.identity.gpus); });
  add("figures also from", [](Probe const& p) {
    std::string text;
    for (auto const& one : p.also)
      text += fmt::format("{}{}{}, {}", text.empty() ? "" : "; ", one.date,
                          one.commit.empty() ? "" : ", " + one.commit.substr(0, 12),
                          one.gpus == 1 ? "one GPU" : fmt::format("{} GPUs", one.gpus));
    return text;
  });
  add("took", [&](Probe const& p) { return number(p.seconds, p.quick ? "s, quick" : "s"); });
  return rows;
}

std::vector<VerdictRow> verdict_rows(std::vector<NamedProbe> const& probes) {
  std::vector<VerdictRow> rows;
  for (std::size_t p = 0; p < probes.size(); ++p)
    for (auto const& verdict : probes[p].probe.verdicts) {
      auto row = std::find_if(rows.begin(), rows.end(),
                              [&](auto const& r) { return r.id == verdict.id && r.values[p] == nullptr; });
      if (row == rows.end()) {
        rows.push_back({verdict.id, verdict.what, std::vector<Verdict const*>(probes.size(), nullptr)});
        row = rows.end() - 1;
      }
      row->values[p] = &verdict;
    }
  return rows;
}

}  // namespace tessera::report
