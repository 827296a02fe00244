// SPDX-License-Identifier: Apache-2.0
#include "tessera/report/generation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tessera/measure/statistics.hpp"

namespace tessera {
namespace {

std::string counted(std::size_t count, char const* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string prompts_text(Generation const& g) {
  int least = 0, most = 0;
  for (auto const& one : g.sequences) {
    least = least == 0 ? one.prompt : std::min(least, one.prompt);
    most = std::max(most, one.prompt);
  }
  auto const each = least == most ? counted(static_cast<std::size_t>(most), "token")
                                  : fmt::format("{} to {} tokens", least, most);
  return fmt::format("{} of {}", counted(g.sequences.size(), "prompt"), each);
}

std::size_t new_count(Generation const& g) {
  std::size_t count = 0;
  for (auto const& one : g.sequences) count += one.tokens.size() - static_cast<std::size_t>(one.prompt);
  return count;
}

}  // namespace

std::string new_tokens(Generation const& g) {
  std::string text;
  for (auto const& one : g.sequences) {
    for (auto i = static_cast<std::size_t>(one.prompt); i < one.tokens.size(); ++i)
      text += fmt::format("{}{}", i > static_cast<std::size_t>(one.prompt) ? " " : "", one.tokens[i]);
    text += '\n';
  }
  return text;
}

std::string summary(Generation const& g) {
  auto text = fmt::format("{} ({}), {}, {} new: {:.1f} ms until the first\n", g.model, g.weights,
                          prompts_text(g), counted(new_count(g), "token"), g.prompt_us / 1e3);
  double steps = 0, us = 0;
  for (std::size_t i = 0; i < g.step_us.size(); ++i) {
    steps += g.steps[i];
    us += g.steps[i] * g.step_us[i];
  }
  if (us > 0) {
    double const step = median(g.step_us);
    // Those that the prompts' steps have found are no part of these.
    auto const firsts = std::min(g.sequences.size(), new_count(g));
    text += fmt::format("{:.1f} tokens a second; a step takes {:.1f} us ({:.1f} to {:.1f}, {} steps)\n",
                        1e6 * static_cast<double>(new_count(g) - firsts) / us, step, quantile(g.step_us, 0.1),
                        quantile(g.step_us, 0.9), steps);
    text += fmt::format("it reads {:.1f} MB, {:.0f} GB/s", g.step_bytes / 1e6, g.step_bytes / step / 1e3);
    text += g.floor_us > 0 ? fmt::format("; reading them alone takes {:.1f} us: {:.2f} times that\n",
                                         g.floor_us, step / g.floor_us)
                           : std::string("\n");
  }
  if (!g.operators.empty()) {
    text += fmt::format("{:<20} {:>6} {:>6} {:>6} {:>6} {:>6}\n", fmt::format("a layer of {}, us:", g.layers),
                        "waits", "reads", "ends", "apart", "all");
    double all = 0;
    for (auto const& one : g.operators) {
      text += fmt::format("  {:<18} {:6.2f} {:6.2f} {:6.2f} {:6.2f} {:6.2f}\n", one.name, one.waits,
                          one.reads, one.ends, one.apart, one.all());
      all += one.all();
    }
    text += fmt::format("  {:<18} {:>34.2f}\n", "", all);
  }
  if (!g.alone.empty()) {
    text += fmt::format("{:<20} {:>6}\n", fmt::format("a layer of {}, us:", g.layers), "alone");
    double all = 0;
    for (auto const& one : g.alone) {
      text += fmt::format("  {:<18} {:6.2f}\n", one.name, one.us);
      all += one.us;
    }
    text += fmt::format("  {:<18} {:6.2f}\n", "", all);
  }
  auto const& i = g.identity;
  text += fmt::format("{}, driver {}", i.gpu, i.driver);
  if (i.sm_clock_ghz > 0) text += fmt::format(", {:.2f} GHz", i.sm_clock_ghz);
  return text + '\n';
}

}  // namespace tessera
