// SPDX-License-Identifier: Apache-2.0
#include "soak/case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <random>

namespace tessera::soak {

char const* to_text(Fault fault) {
  switch (fault) {
    case Fault::none: return "none";
    case Fault::held_sms: return "held_sms";
    case Fault::held_tile: return "held_tile";
    case Fault::exception: return "exception";
    case Fault::bad_enqueue: return "bad_enqueue";
    case Fault::stall: return "stall";
  }
  return "";
}

char const* to_text(Workload workload) {
  switch (workload) {
    case Workload::none: return "none";
    case Workload::mlp: return "mlp";
    case Workload::sum: return "sum";
    case Workload::loop: return "loop";
    case Workload::loop_by_words: return "loop_by_words";
    case Workload::loop_in_pairs: return "loop_in_pairs";
    case Workload::convolution: return "convolution";
    case Workload::decoder: return "decoder";
    case Workload::lattice_boltzmann: return "lattice_boltzmann";
    case Workload::attention_block: return "attention_block";
    case Workload::layer: return "layer";
  }
  return "";
}

bool can_stall(Workload workload) {
  return workload != Workload::attention_block && workload != Workload::layer;
}

namespace {

constexpr auto k_last = Workload::layer;

void break_a_party(Case& one, std::mt19937_64& random) {
  auto const below = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  int const parties =
      one.chains + one.loops + (one.workload != Workload::none && can_stall(one.workload) ? 1 : 0);
  if (parties == 0) return;
  one.faulty = below(parties);
  if (one.faulty < one.chains) {
    static constexpr Fault k_faults[] = {Fault::held_tile, Fault::held_tile, Fault::held_tile,
                                         Fault::held_sms,  Fault::exception, Fault::bad_enqueue};
    one.fault = k_faults[below(6)];
  } else {
    one.fault = one.faulty < one.chains + one.loops ? Fault::held_tile : Fault::stall;
  }
  one.at = below(one.launches);
  one.times = 1 + below(4);
  static constexpr int k_held[] = {1, 2, 17, 66, 131, 1000};  // of some 132
  one.held_sms = k_held[below(6)];
}

/// Without one of its parties; chains only from either end.
bool drop(Case& one, int party) {
  bool const faulty = one.fault != Fault::none && party == one.faulty;
  if (party < one.chains) {
    if (party != 0 && party != one.chains - 1) return false;
    one.first += party == 0 ? 1 : 0;
    --one.chains;
  } else if (party < one.chains + one.loops) {
    one.loops = 0;
  } else {
    one.workload = Workload::none;
  }
  if (faulty)
    one.fault = Fault::none, one.faulty = one.at = 0, one.times = 1;
  else if (one.fault != Fault::none && party < one.faulty)
    --one.faulty;
  return one.parties() > 0;
}

/// One party alone.
Case only(Case one, int party) {
  bool const faulty = one.fault != Fault::none && party == one.faulty;
  auto const workload = one.workload;
  int const chains = one.chains, loops = one.loops;
  one.workload = Workload::none, one.chains = one.loops = 0;
  if (party < chains)
    one.chains = 1, one.first += party;
  else if (party < chains + loops)
    one.loops = 1;
  else
    one.workload = workload;
  one.faulty = 0;
  if (!faulty) one.fault = Fault::none, one.at = 0, one.times = 1;
  return one;
}

}  // namespace

Case case_of(std::uint64_t number) {
  std::mt19937_64 random(number);
  auto const below = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  Case one;
  one.number = number;
  one.chains = 1 + below(3);
  one.launches = 4 + below(60);
  one.graphs = below(2) == 0;
  one.threads = below(3) == 0 ? 2 + below(2) : 1;
  one.loops = below(4) == 0 ? 1 : 0;
  if (below(3) == 0) one.workload = static_cast<Workload>(1 + below(static_cast<int>(k_last)));
  // Alone: a workload may be replayed by a graph then.
  if (one.workload != Workload::none && below(2) == 0) one.chains = one.loops = 0;
  if (below(2) == 0) break_a_party(one, random);
  return one;
}

std::string kind_of(Case const& one) {
  std::string const fault = to_text(one.fault);
  if (one.fault == Fault::none) return "";
  if (one.faulty < one.chains) return fault;
  return fault + "_of_" + (one.faulty < one.chains + one.loops ? "loop_plan" : to_text(one.workload));
}

namespace {

struct Number {
  char const* name;
  int Case::*member;
};
constexpr Number k_numbers[] = {{"--first", &Case::first},     {"--chains", &Case::chains},
                                {"--loops", &Case::loops},     {"--launches", &Case::launches},
                                {"--threads", &Case::threads}, {"--faulty", &Case::faulty},
                                {"--at", &Case::at},           {"--times", &Case::times},
                                {"--held", &Case::held_sms}};

template <class T>
bool read_number(std::string const& text, T& number) {
  auto const* const end = text.data() + text.size();
  auto const read = std::from_chars(text.data(), end, number);
  return !text.empty() && read.ec == std::errc() && read.ptr == end && number >= 0;
}

template <class Enum>
bool read_name(std::string const& text, Enum last, Enum& value) {
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (text == to_text(static_cast<Enum>(i))) {
      value = static_cast<Enum>(i);
      return true;
    }
  return false;
}

}  // namespace

std::string arguments_of(Case const& one) {
  auto text = fmt::format("--case {}", one.number);
  for (auto const& [name, member] : k_numbers) text += fmt::format(" {} {}", name, one.*member);
  return text + fmt::format(" --graphs {} --workload {} --fault {}", one.graphs ? 1 : 0,
                            to_text(one.workload), to_text(one.fault));
}

bool set_argument(Case& one, std::string_view name, std::string const& value) {
  for (auto const& [known, member] : k_numbers)
    if (name == known) return read_number(value, one.*member);
  if (name == "--case") {
    if (!read_number(value, one.number)) return false;
    one = case_of(one.number);
    return true;
  }
  if (name == "--graphs") {
    one.graphs = value == "1";
    return value == "0" || value == "1";
  }
  if (name == "--workload") return read_name(value, k_last, one.workload);
  return name == "--fault" && read_name(value, Fault::stall, one.fault);
}

std::vector<Case> smaller_than(Case const& one) {
  std::vector<Case> smaller;
  auto const add = [&](Case const& next) {
    if (next != one && std::find(smaller.begin(), smaller.end(), next) == smaller.end())
      smaller.push_back(next);
  };
  auto const with_less = [&](Case const& parties) {
    for (int const launches : {2, 8, one.launches})
      for (int const threads : {1, one.threads})
        for (bool const graphs : {false, one.graphs}) {
          auto next = parties;
          next.launches = std::min(launches, one.launches), next.threads = threads, next.graphs = graphs;
          next.at = std::min(next.at, next.launches - 1), next.times = 1;
          add(next);
        }
  };
  for (int party = 0; party < one.parties(); ++party) with_less(only(one, party));
  for (int party = 0; party < one.parties(); ++party) {
    auto next = one;
    if (drop(next, party)) with_less(next);
  }
  with_less(one);
  return smaller;
}

}  // namespace tessera::soak
