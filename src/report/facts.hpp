// SPDX-License-Identifier: Apache-2.0
// What text, table and page reports all say about a plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/plan/plan.hpp"
#include "tessera/timeline.hpp"

namespace tessera::report {

std::string policy_text(Plan const& plan);  ///< "RowSync", "RowSync + TileSync", "none"
std::string policy_of(Plan const& plan,
                      std::size_t dependence);  ///< "RowSync"; "by stream order" without semaphores
std::string kept_text(KeptBy kept);             ///< "stream order", "PDL", "semaphores"
/// Of a mixed plan: each launch's stages and when it starts. Of any other: its persistent launch, if it is
/// one.
std::vector<std::string> launch_lines(Plan const& plan);
std::string kernel_text(Plan const& plan,
                        std::size_t stage);  ///< "gemm_128x256x64 (algorithm 7)"; "-" for none
std::string options_text(Plan const& plan, std::size_t stage);  ///< "W, R, plain store"; "-" for none
std::string grid_text(Stage const& stage);                      ///< "24 x 4", " * 2 splits" added
std::string waves_text(double waves);                           ///< "1.45"
std::string summary_line(Plan const& plan);                     ///< "PDL + tiles, RowSync"

/// "28.6 us (11.9 %) faster than stream order", or why there is no such figure.
std::string gain_text(Plan const& plan);

/// Priced alternatives by time, then those that were ruled out, in their own order.
std::vector<Alternative> sorted_alternatives(Plan const& plan);

/// Less than can be told apart.
bool takes_as_long(Plan const& plan, Alternative const& other);

/// A run that is printed as the time that the plan predicts, or a plan that predicts none.
bool says_the_same(Plan const& plan, Timeline const& run);

/// The cheapest priced alternative that takes longer than the plan; if there is none, the cheapest.
std::optional<Alternative> runner_up(Plan const& plan);

/// Waits (semaphores looked at, once per block) and posts in one launch of one dependence; nullopt when the
/// plan is so large that counting would be felt.
struct Traffic {
  std::int64_t waits = 0;
  std::int64_t posts = 0;
};
std::optional<Traffic> traffic(Plan const& plan, std::size_t dependence);

/// What the pipelines' names have in common ("llama-65b mlp, tp 8") and what is left of each.
struct Labels {
  std::string common;
  std::vector<std::string> own;
};
Labels split_names(std::vector<std::string> const& names);

}  // namespace tessera::report
