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

char const* to_text(Workload workload) {
  switch (workload) {
    case Workload::none: return "none";
    case Workload::mlp: return "mlp";
    case Workload::sum: return "sum";
    case Workload::loop: return "loop";
    case Workload::loop_by_words: return "loop_by_words";
    case Workload::loop_in_pairs: return "loop_in_pairs";
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
  if (below(3) != 0 || one.fault == Fault::held_sms) return one;
  one.workload = static_cast<Workload>(1 + below(5));
  if (one.fault == Fault::none && below(2) == 0) one.chains = 0;  // faults are chains'
  return one;
}

std::string arguments_of(Case const& one) {
  return fmt::format("--case {} --chains {} --launches {} --graphs {} --fault {} --held {} --workload {}",
                     one.number, one.chains, one.launches, one.graphs ? 1 : 0, to_text(one.fault),
                     one.held_sms, to_text(one.workload));
}

std::vector<Case> smaller_than(Case const& one) {
  std::vector<Case> smaller;
  for (auto const workload : {Workload::none, one.workload})
    for (int const chains : {0, 1, 2})
      for (int const launches : {2, 8})
        for (bool const graphs : {false, true}) {
          auto next = one;
          next.chains = chains, next.launches = launches, next.graphs = graphs, next.workload = workload;
          bool const runs = chains > 0 || (workload != Workload::none && one.fault == Fault::none);
          if (runs && chains <= one.chains && launches <= one.launches && (!graphs || one.graphs))
            smaller.push_back(next);
        }
  return smaller;
}

}  // namespace tessera::soak
