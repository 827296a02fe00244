// SPDX-License-Identifier: Apache-2.0
// Which clock a predicted time is for, where two commands say different times of one plan.
#include <fmt/format.h>

#include "report/facts.hpp"
#include "report/text.hpp"
#include "tessera/report/report.hpp"

namespace tessera {

using namespace report;

std::string clock_of_candidates(Plan const& plan, Turn const& alone) {
  if (says_the_same(plan, alone.timeline)) return "";
  return labelled("clock",
                  fmt::format("all candidates at one clock, as where they run in turns; alone, again "
                              "and again, this plan goes at {:.2f} GHz and takes {}, as tessera "
                              "simulate says",
                              alone.clock_ghz, us_of(alone.timeline.end)));
}

std::string clock_of_run(Plan const& plan, Turn const& alone) {
  if (says_the_same(plan, alone.timeline)) return "";
  return labelled("clock",
                  fmt::format("{:.2f} GHz, where this plan runs alone, again and again; the plan itself says "
                              "{}, at the one clock at which its candidates were compared",
                              alone.clock_ghz, us(plan.predicted_us)));
}

}  // namespace tessera
