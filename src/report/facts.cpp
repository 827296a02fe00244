// SPDX-License-Identifier: Apache-2.0
#include "report/facts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/roof.hpp"
#include "report/text.hpp"

namespace tessera::report {
namespace {

constexpr std::int64_t k_count_limit = 100'000;  // consumer tiles; about 0.1 s

SemaphoreSet const* set_of(Plan const& plan, std::size_t dependence) {
  if (dependence >= plan.dependences.size()) return nullptr;
  int const set = plan.dependences[dependence].semaphore_set;
  if (set < 0 || static_cast<std::size_t>(set) >= plan.semaphores.size()) return nullptr;
  return &plan.semaphores[static_cast<std::size_t>(set)];
}

/// A name's parts between commas.
std::vector<std::string> parts_of(std::string const& text) {
  std::vector<std::string> out;
  std::size_t at = 0;
  while (at < text.size()) {
    auto const end = std::min(text.find(", ", at), text.size());
    if (end > at) out.push_back(text.substr(at, end - at));
    at = end + 2;
  }
  return out;
}

std::string join(std::vector<std::string> const& parts, std::string_view between) {
  return fmt::format("{}", fmt::join(parts, between));
}

}  // namespace

std::string policy_text(Plan const& plan) {
  std::vector<std::string> names;
  for (std::size_t d = 0; d < plan.dependences.size(); ++d)
    if (auto const* set = set_of(plan, d);
        set && std::find(names.begin(), names.end(), set->policy) == names.end())
      names.push_back(set->policy);
  return names.empty() ? "none" : join(names, " + ");
}

std::string kept_text(KeptBy kept) {
  switch (kept) {
    case KeptBy::completion: return "stream order";
    case KeptBy::grid_wait: return "PDL";
    case KeptBy::semaphores: return "semaphores";
    case KeptBy::nothing: return "nothing";
  }
  return "";
}

std::vector<std::string> launch_lines(Plan const& plan) {
  bool const mixed = !mechanism_of(plan);
  std::vector<std::string> lines;
  for (std::size_t l = 0; l < plan.launches.size(); ++l) {
    auto const& launch = plan.launches[l];
    if (!mixed && launch.workers == 0) continue;
    std::string text;
    for (int s = launch.first; s < launch.end(); ++s)
      text += (text.empty() ? "" : ", ") + plan.pipeline.stages[static_cast<std::size_t>(s)].name;
    if (!mixed) text = "all stages";
    if (launch.workers > 0)
      text = fmt::format("{} persistent blocks draw the tickets of {}", launch.workers, text);
    if (mixed) {
      switch (launch.start) {
        case LaunchStart::in_order: text += l == 0 ? "" : "; when all before is complete"; break;
        case LaunchStart::early: text += "; early"; break;
        case LaunchStart::beside:
          text += launch.wait_kernel ? "; beside, behind a wait kernel" : "; beside, at once";
          break;
      }
    }
    lines.push_back(text);
  }
  return lines;
}

std::string policy_of(Plan const& plan, std::size_t dependence) {
  if (auto const* set = set_of(plan, dependence)) return set->policy;
  return "by " + kept_text(kept_by(plan, plan.dependences[dependence]));
}

std::string kernel_text(Plan const& plan, std::size_t stage) {
  auto const& kernel = plan.pipeline.stages[stage].kernel;
  auto const& variant = plan.stages[stage].variant;
  auto const text = kernel.empty() ? "-" : kernel;
  return variant.empty() ? text : fmt::format("{} ({})", text, variant);
}

std::string options_text(Plan const& plan, std::size_t stage) {
  auto const& chosen = plan.stages[stage];
  std::vector<std::string> names;
  if (chosen.persistent_blocks > 0) names.push_back("persistent");
  // What a switch changes nothing about is not named: loads before a wait where nothing is awaited.
  auto const launch = launch_of(plan, static_cast<int>(stage));
  auto const& own = plan.launches[static_cast<std::size_t>(launch)];
  auto const group = group_of(plan, launch);
  bool const alone = group.end - group.first == 1 && own.workers == 0;
  if (alone) return names.empty() ? "-" : names.front();
  if (own.start == LaunchStart::beside && !own.wait_kernel) names.push_back("W");
  if (chosen.reorder_loads) names.push_back("R");
  if (!plan.semaphores.empty() && own.workers == 0 && !chosen.custom_order) names.push_back("T");
  if (chosen.plain_store) names.push_back("plain store");
  return names.empty() ? "-" : join(names, ", ");
}

std::string grid_text(Stage const& stage) {
  std::string text;
  for (auto const& dim : stage.grid) text += (text.empty() ? "" : " x ") + std::to_string(dim.extent);
  if (stage.splits > 1) text += fmt::format(" * {} splits", stage.splits);
  return text;
}

std::string waves_text(double waves) { return fmt::format("{:.2f}", waves); }

std::string summary_line(Plan const& plan) {
  std::string text = mechanism_text(plan);
  if (!plan.semaphores.empty()) text += ", " + policy_text(plan);
  return text;
}

std::string gain_text(Plan const& plan) {
  if (plan.predicted_us <= 0 || plan.stream_order_us <= 0) return "";
  double const gain = plan.stream_order_us - plan.predicted_us;
  if (is_stream_order(plan) || gain <= 0) return "nothing beats stream order here";
  double const share = gain / plan.stream_order_us;
  auto const text = fmt::format("{} ({}) faster", us(gain), percent(share));
  return share > k_model_error
             ? text
             : text + fmt::format(", below the model's error of {}", percent(k_model_error));
}

std::vector<Alternative> sorted_alternatives(Plan const& plan) {
  auto sorted = plan.alternatives;
  std::stable_sort(sorted.begin(), sorted.end(), [](Alternative const& a, Alternative const& b) {
    bool const a_priced = a.predicted_us > 0;
    bool const b_priced = b.predicted_us > 0;
    if (a_priced != b_priced) return a_priced;
    return a_priced && a.predicted_us < b.predicted_us;
  });
  return sorted;
}

std::optional<Alternative> runner_up(Plan const& plan) {
  auto sorted = sorted_alternatives(plan);
  if (sorted.empty() || sorted.front().predicted_us <= 0) return std::nullopt;
  auto const longer = std::find_if(sorted.begin(), sorted.end(), [&](Alternative const& other) {
    return other.predicted_us > 0 && !takes_as_long(plan, other);
  });
  return longer == sorted.end() ? sorted.front() : *longer;
}

bool takes_as_long(Plan const& plan, Alternative const& other) {
  return other.predicted_us > 0 && other.predicted_us - plan.predicted_us < 0.005;
}

bool says_the_same(Plan const& plan, Timeline const& run) {
  return plan.predicted_us <= 0 || us(plan.predicted_us) == us_of(run.end);
}

std::optional<Traffic> traffic(Plan const& plan, std::size_t dependence) {
  auto const& edge = plan.pipeline.dependences[dependence];
  auto const& consumer = plan.pipeline.stages[static_cast<std::size_t>(edge.consumer)];
  auto const& producer = plan.pipeline.stages[static_cast<std::size_t>(edge.producer)];
  if (consumer.tiles() > k_count_limit) return std::nullopt;
  Traffic counted;
  if (!set_of(plan, dependence)) return counted;
  std::int64_t looked = 0;
  for (std::int64_t tile = 0; tile < consumer.tiles(); ++tile) {
    auto const waits = static_cast<std::int64_t>(awaited_by(plan, static_cast<int>(dependence), tile).size());
    counted.waits += waits * consumer.splits;
    looked += waits + 1;
    if (looked > 10 * k_count_limit) return std::nullopt;
  }
  counted.posts = producer.blocks();
  return counted;
}

Labels split_names(std::vector<std::string> const& names) {
  std::vector<std::vector<std::string>> split;
  for (auto const& name : names) split.push_back(parts_of(name));
  Labels labels;
  if (split.size() < 2) {
    labels.own = names;
    return labels;
  }
  auto const shortest = std::min_element(split.begin(), split.end(), [](auto const& a, auto const& b) {
                          return a.size() < b.size();
                        })->size();
  auto const shared = [&](std::size_t limit, auto word) {
    std::size_t n = 0;
    while (n < limit && std::all_of(split.begin(), split.end(),
                                    [&](auto const& name) { return word(name, n) == word(split[0], n); }))
      ++n;
    return n;
  };
  auto const head = shared(shortest, [](auto const& name, std::size_t n) { return name[n]; });
  auto const tail =
      shared(shortest - head, [](auto const& name, std::size_t n) { return name[name.size() - 1 - n]; });
  auto const part = [](std::vector<std::string> const& name, std::size_t from, std::size_t to) {
    std::vector<std::string> piece(name.begin() + static_cast<std::ptrdiff_t>(from),
                                   name.begin() + static_cast<std::ptrdiff_t>(to));
    return join(piece, ", ");
  };
  auto const front = part(split[0], 0, head);
  auto const back = part(split[0], split[0].size() - tail, split[0].size());
  labels.common = front.empty() ? back : back.empty() ? front : front + ", " + back;
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto own = part(split[i], head, split[i].size() - tail);
    labels.own.push_back(own.empty() ? names[i] : own);
  }
  return labels;
}

}  // namespace tessera::report
