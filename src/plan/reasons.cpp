// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "plan/outcome.hpp"

namespace tessera {
namespace {

/// 2304 -> "2,304".
std::string grouped(std::int64_t n) {
  auto text = std::to_string(n);
  for (auto i = static_cast<std::ptrdiff_t>(text.size()) - 3; i > 0; i -= 3)
    text.insert(static_cast<std::size_t>(i), ",");
  return text;
}

std::string waits(std::int64_t n) { return grouped(n) + (n == 1 ? " wait" : " waits"); }

/// " and gemm2 starts 3.1 us later": the stage whose start moved most, if it moved.
std::string start_shift(Outcome const& loser, Outcome const& winner) {
  if (loser.starts_us.size() != winner.starts_us.size()) return "";
  std::size_t most = 0;
  double shift = 0;
  for (std::size_t s = 0; s < loser.starts_us.size(); ++s) {
    double const d = loser.starts_us[s] - winner.starts_us[s];
    if (std::abs(d) > std::abs(shift)) shift = d, most = s;
  }
  if (std::abs(shift) < 0.05) return "";
  return fmt::format("{} starts {:.1f} us {}", loser.stages[most], std::abs(shift),
                     shift > 0 ? "later" : "earlier");
}

std::string against_stream_order(Outcome const& winner) {
  if (winner.stages.size() < 2) return "the same single stage";
  return fmt::format("every stage waits for the whole one before it: {} waves, {} if last waves were shared",
                     winner.stream_waves, winner.filled_waves);
}

/// What is worse of the loser's tiles. Where waves and bytes are only fewer, a wave takes longer. Empty if
/// neither tells the shapes apart.
std::string shapes_differ(Outcome const& loser, Outcome const& winner) {
  double const filled = loser.filled, winners = winner.filled;
  double const more_mb = loser.loaded_mb - winner.loaded_mb;
  std::string text;
  bool const looks_equal = loser.filled_waves == winner.filled_waves;
  if ((!looks_equal && filled > winners) || (looks_equal && loser.stream_waves > winner.stream_waves))
    text = fmt::format("{} waves filled and {} in stream order instead of {} and {}", loser.filled_waves,
                       loser.stream_waves, winner.filled_waves, winner.stream_waves);
  if (more_mb >= 0.5)
    text += fmt::format("{}{:.0f} MB loaded through L2{}", text.empty() ? "" : "; ", loser.loaded_mb,
                        text.empty() ? fmt::format(" instead of {:.0f}", winner.loaded_mb)
                                     : fmt::format(", not {:.0f}", winner.loaded_mb));
  bool const fewer =
      (!looks_equal && filled < winners) || loser.stream_waves < winner.stream_waves || more_mb <= -0.5;
  if (!text.empty() || !fewer || filled <= 0 || winners <= 0) return text;
  return fmt::format("a wave of {} takes {:.3g} us instead of {:.3g}", loser.kernels, loser.us / filled,
                     winner.us / winners) +
         (loser.filled_waves != winner.filled_waves
              ? fmt::format(", and {} are filled instead of {}", loser.filled_waves, winner.filled_waves)
              : "");
}

std::string policies_differ(Outcome const& loser, Outcome const& winner) {
  auto const shift = start_shift(loser, winner);
  auto const and_shift = shift.empty() ? "" : ", and " + shift;
  if (loser.waits < winner.waits && loser.posts_per_value > winner.posts_per_value)
    return fmt::format("a value counts up to {} posts instead of {}, so that a tile waits for more{}",
                       grouped(loser.posts_per_value), grouped(winner.posts_per_value), and_shift);
  if (loser.waits == winner.waits)
    return fmt::format("{} instead of {}, with as many waits{}", loser.policies, winner.policies, and_shift);
  return fmt::format("{} instead of {}{}", waits(loser.waits), grouped(winner.waits),
                     shift.empty() ? ", for no earlier start" : and_shift);
}

std::string mechanism_differs(Outcome const& loser, Outcome const& winner) {
  auto const shift = start_shift(loser, winner);
  auto const and_shift = shift.empty() ? "" : "; " + shift;
  if (!loser.mechanism) return "its launches are cut elsewhere" + and_shift;
  switch (*loser.mechanism) {
    case Mechanism::stream_order: return against_stream_order(loser) + and_shift;
    case Mechanism::pdl:
      return "every block waits for the whole stage before it, not for its tiles" + and_shift;
    case Mechanism::wait_kernel:
      return fmt::format("a stream for each stage{}, {}{}", loser.wait_kernels ? " behind a wait kernel" : "",
                         waits(loser.waits), and_shift);
    case Mechanism::pdl_tiles:
      return fmt::format("{}, and a block keeps its place until the stage before it is complete{}",
                         waits(loser.waits), and_shift);
    case Mechanism::fused:
      return fmt::format("{} workers, {} on each SM, take a ticket for each block, with {}{}",
                         grouped(loser.workers), loser.workers_per_sm, waits(loser.waits), and_shift);
  }
  return "";
}

/// Letters of `a` that `b` lacks.
std::string missing(std::string const& a, std::string const& b) {
  std::string text;
  for (char const c : a)
    if (c != '+' && b.find(c) == std::string::npos) text += c;
  return text;
}

std::string optimizations_differ(Outcome const& loser, Outcome const& winner) {
  std::string text;
  auto const add = [&](std::string const& part) { text += (text.empty() ? "" : "; ") + part; };
  for (char const c : missing(winner.optimizations, loser.optimizations)) {
    if (c == 'W') add("without W the second stream waits for a wait kernel");
    if (c == 'R') add("without R operands that have no producer load only after the wait");
    if (c == 'T') add("without T every block draws a ticket for its tile");
    if (c == 'S') add("without S a single post is an atomic add instead of a store");
  }
  for (char const c : missing(loser.optimizations, winner.optimizations)) {
    if (c == 'W') add("with W later stages may take places that earlier ones need");
    if (c == 'R') add("with R early loads take bandwidth from the stage before");
    if (c == 'T') add("with T tiles follow the block index");
    if (c == 'S') add("with S a single post is a store");
  }
  return text;
}

std::string difference(Outcome const& loser, Outcome const& winner) {
  if (loser.kernels != winner.kernels)
    if (auto const text = shapes_differ(loser, winner); !text.empty()) return text;
  if (loser.mechanism != winner.mechanism) return mechanism_differs(loser, winner);
  if (loser.policies != winner.policies || loser.waits != winner.waits) return policies_differ(loser, winner);
  auto const shift = start_shift(loser, winner);
  auto const and_shift = shift.empty() ? "" : "; " + shift;
  if (loser.as_needed != winner.as_needed)
    return (loser.as_needed ? "tiles as needed cost a look-up and a ticket each"
                            : "row major brings tiles late that are needed early") +
           and_shift;
  if (loser.merged != winner.merged)
    return (loser.merged ? "merged tickets hand out tiles whose producers still run"
                         : "stage by stage leaves consumers to the end that could run before") +
           and_shift;
  if (loser.forms != winner.forms) {
    auto const words = [](std::string const& forms) {
      return forms.empty() ? "row by row, a block a tile" : forms;
    };
    return fmt::format("tiles and grids {} instead of {}", words(loser.forms), words(winner.forms)) +
           and_shift;
  }
  auto const text = optimizations_differ(loser, winner);
  if (!text.empty()) return text + and_shift;
  if (loser.kernels != winner.kernels)
    return fmt::format("{} makes as many waves and loads as much as {}{}", loser.kernels, winner.kernels,
                       and_shift);
  return "differs in nothing that costs time";
}

}  // namespace

std::string reason(Outcome const& loser, Outcome const& winner) {
  double const more = loser.us - winner.us;
  auto const text = difference(loser, winner);
  if (more < 0.005) return "no faster: " + text;
  return fmt::format("+{:.{}f} us: {}", more, more < 0.1 ? 2 : 1, text);
}

std::string choice_in_words(Outcome const& winner, Outcome const& stream, Outcome const* next,
                            std::string const& limiter, std::string const& no_early_start) {
  std::string text;
  double const gain = stream.us - winner.us;
  if (winner.mechanism == Mechanism::stream_order)
    text = fmt::format("{} is predicted at {:.1f} us", winner.description, winner.us) +
           (!no_early_start.empty() ? ", and " + no_early_start + "."
            : next != nullptr       ? ", and nothing that starts a stage early is predicted faster."
                                    : ".");
  else if (gain >= 0)
    text = fmt::format(
        "{} is predicted at {:.1f} us, {:.1f} us ({:.1f} %) less than stream order at its best ({:.1f} us).",
        winner.description, winner.us, gain, stream.us > 0 ? gain / stream.us * 100 : 0, stream.us);
  else
    text = fmt::format(
        "{} was asked for; it is predicted at {:.1f} us, {:.1f} us more than stream order ({:.1f} us).",
        winner.description, winner.us, -gain, stream.us);
  if (winner.stages.size() > 1)
    text += fmt::format(" Its stages take {} waves one after another, {} if they share their last ones.",
                        winner.stream_waves, winner.filled_waves);
  text += fmt::format(" It is bound by {}.", limiter);
  if (next != nullptr) text += fmt::format(" Next: {}, {}.", next->description, reason(*next, winner));
  return text;
}

}  // namespace tessera
