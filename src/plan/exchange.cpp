// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace tessera {
namespace {

/// y by x.
using Line = std::map<double, double>;

enum class Beyond { keep, extend };

/// Between neighbours on a straight line, below the first as at the first, behind the last as at the last or
/// on along the last two. Precondition: not empty.
double at(Line const& line, double x, Beyond beyond = Beyond::keep) {
  auto const above = line.lower_bound(x);
  if (above == line.begin()) return above->second;
  if (above == line.end() && (beyond == Beyond::keep || line.size() < 2)) return line.rbegin()->second;
  auto const right = above == line.end() ? std::prev(line.end()) : above;
  auto const left = std::prev(right);
  return left->second + (right->second - left->second) * (x - left->first) / (right->first - left->first);
}

char const* figure_of(Exchange way) {
  switch (way) {
    case Exchange::semaphore: return "exchange.semaphore";
    case Exchange::words: return "exchange.words";
    case Exchange::cluster: return "exchange.cluster";
  }
  return "";
}

char const* name_of(Exchange way) {
  switch (way) {
    case Exchange::semaphore: return "semaphores";
    case Exchange::words: return "words";
    case Exchange::cluster: return "cluster";
  }
  return "";
}

double condition(Figure const& figure, char const* name) {
  auto const found = figure.at.find(name);
  return found == figure.at.end() ? 0 : found->second;
}

/// ns by bytes, by bytes in flight, by consumers, by senders.
using Curves = std::map<double, std::map<double, std::map<double, Line>>>;

Curves curves_of(Probe const& probe, Exchange way) {
  Curves curves;
  for (auto const& figure : probe.figures)
    if (figure.id == figure_of(way) && figure.verified && figure.median > 0)
      curves[condition(figure, "senders")][condition(figure, "consumers")]
            [condition(figure, "in_flight_bytes")][condition(figure, "bytes")] = figure.median;
  return curves;
}

int most_consumers(Curves const& curves) {
  double most = 0;
  for (auto const& [senders, by_consumers] : curves) most = std::max(most, by_consumers.rbegin()->first);
  return static_cast<int>(most);
}

double logarithm(double blocks) { return std::log2(std::max(1.0, blocks)); }

/// At so many bytes in flight all the time. By blocks on lines of their logarithms.
double interpolated(Curves const& curves, ExchangedEdge const& edge, double in_flight) {
  Line by_senders;
  for (auto const& [senders, curves_of_consumers] : curves) {
    Line by_consumers;
    for (auto const& [consumers, curves_in_flight] : curves_of_consumers) {
      Line by_flight;
      for (auto const& [flight, by_bytes] : curves_in_flight)
        by_flight[flight] = at(by_bytes, edge.bytes, Beyond::extend);
      by_consumers[logarithm(consumers)] = at(by_flight, in_flight);
    }
    by_senders[logarithm(senders)] = at(by_consumers, logarithm(edge.consumers));
  }
  return at(by_senders, logarithm(edge.senders));
}

/// Bytes that an SM loads in a nanosecond with so many on their way; 0: not measured.
double bytes_per_ns(MachineProfile const& machine, double in_flight) {
  Line rates{{0, 0}};
  for (auto const& figure : machine.probe->figures)
    if (figure.id == "exchange.stream") rates[condition(figure, "in_flight_bytes")] = figure.median;
  return machine.sms > 0 ? at(rates, in_flight) / machine.sms : 0;
}

std::string edges_text(std::vector<ExchangedEdge> const& readers, LoadAhead const& ahead) {
  std::string text;
  for (auto const& edge : readers)
    text += fmt::format("{}{:.0f} bytes of {} block{} to {}", text.empty() ? "" : ", ", edge.bytes,
                        edge.senders, edge.senders == 1 ? "" : "s", edge.consumers);
  if (ahead.in_flight_bytes <= 0) return text + "; memory at rest";
  text += fmt::format("; {:.0f} KB on their way on each SM", ahead.in_flight_bytes / 1024);
  return std::isfinite(ahead.room_bytes)
             ? text + fmt::format(", until {:.0f} KB are loaded", ahead.room_bytes / 1024)
             : text;
}

/// Of all readers; none where one has none.
std::optional<double> sum_of(MachineProfile const& machine, Exchange way,
                             std::vector<ExchangedEdge> const& readers, LoadAhead const& ahead) {
  double sum = 0;
  for (auto const& edge : readers) {
    auto const ns = exchange_ns(machine, way, edge, ahead);
    if (!ns) return std::nullopt;
    sum += *ns;
  }
  return sum;
}

}  // namespace

std::optional<double> exchange_ns(MachineProfile const& machine, Exchange way, ExchangedEdge const& edge,
                                  LoadAhead const& ahead) {
  if (!machine.probe || !(edge.bytes > 0)) return std::nullopt;
  auto const curves = curves_of(*machine.probe, way);
  if (curves.empty()) return std::nullopt;
  if (way == Exchange::cluster && edge.consumers > most_consumers(curves)) return std::nullopt;
  double const rest = interpolated(curves, edge, 0);
  if (ahead.in_flight_bytes <= 0 || ahead.room_bytes <= 0) return rest;
  double const loaded = interpolated(curves, edge, ahead.in_flight_bytes);
  if (std::isinf(ahead.room_bytes)) return loaded;
  double const rate = bytes_per_ns(machine, ahead.in_flight_bytes);
  if (rate <= 0) return std::nullopt;
  // As far as it comes while there is room to load, and the rest of the way with memory at rest.
  double const until_full = ahead.room_bytes / rate;
  return loaded <= until_full ? loaded : until_full + (1 - until_full / loaded) * rest;
}

ExchangeChoice choose_exchange(MachineProfile const& machine, std::vector<ExchangedEdge> const& readers,
                               LoadAhead const& ahead, ExchangeOffer const& offer) {
  ExchangeChoice choice;
  int most = 0;
  bool known = !readers.empty();
  for (auto const& edge : readers) {
    most = std::max(most, edge.consumers);
    known = known && edge.bytes > 0;
  }
  std::vector<Exchange> ways{Exchange::semaphore};
  if (offer.words) ways.push_back(Exchange::words);
  if (offer.cluster_blocks > most) ways.push_back(Exchange::cluster);
  for (auto const way : ways)
    if (auto const ns = sum_of(machine, way, readers, ahead)) choice.prices.push_back({way, *ns});

  if (ways.size() == 1) {
    choice.reason = "semaphores: nothing else is offered";
  } else if (!known) {
    choice.reason = "semaphores: how many bytes a tile reads is not known";
  } else if (choice.prices.size() < 2 || choice.prices.front().way != Exchange::semaphore) {
    choice.reason = fmt::format("semaphores: the profile {} has no figures of the exchanges that are offered",
                                machine.name);
    choice.prices.clear();
  } else {
    auto sorted = choice.prices;
    std::stable_sort(sorted.begin(), sorted.end(), [](auto const& a, auto const& b) { return a.ns < b.ns; });
    choice.way = sorted.front().way;
    for (auto const& price : sorted)
      choice.reason += fmt::format("{}{} {:.2f} us", choice.reason.empty() ? "" : ", ", name_of(price.way),
                                   price.ns / 1000);
    choice.reason += fmt::format(" ({})", edges_text(readers, ahead));
  }
  return choice;
}

}  // namespace tessera
