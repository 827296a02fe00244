// SPDX-License-Identifier: Apache-2.0
#include "soak/case.hpp"

#include <fmt/format.h>

#include <random>

namespace tessera::soak {

char const* to_text(Fault fault) {
  switch (fault) {
    case Fault::none: return "none";
    case Fault::held_sms: return "held_sms";
    case Fault::late_tile: return "late_tile";
    case Fault::exception: return "exception";
    case Fault::bad_enqueue: return "bad_enqueue";
  }
  return "";
}

Case case_of(std::uint64_t number) {
  std::mt19937_64 random(number);
  auto const below = [&](std::uint64_t most) { return static_cast<int>(random() % most); };
  Case one;
  one.number = number;
  one.chains = 1 + below(3);
  one.launches = 4 + below(60);
  one.graphs = below(2) == 0;
  // Faults take a deadline each: every fourth case has one.
  one.fault = below(4) == 0 ? static_cast<Fault>(1 + below(4)) : Fault::none;
  static constexpr int k_held[] = {1, 2, 17, 66, 131, 1000};  // of some 132
  one.held_sms = k_held[below(6)];
  return one;
}

std::string arguments_of(Case const& one) {
  return fmt::format("--case {} --chains {} --launches {} --graphs {} --fault {} --held {}", one.number,
                     one.chains, one.launches, one.graphs ? 1 : 0, to_text(one.fault), one.held_sms);
}

std::vector<Case> smaller_than(Case const& one) {
  std::vector<Case> smaller;
  for (int const chains : {1, 2})
    for (int const launches : {2, 8})
      for (bool const graphs : {false, true}) {
        auto next = one;
        next.chains = chains, next.launches = launches, next.graphs = graphs;
        if (chains <= one.chains && launches <= one.launches && (!graphs || one.graphs))
          smaller.push_back(next);
      }
  return smaller;
}

}  // namespace tessera::soak
