// SPDX-License-Identifier: Apache-2.0
// How headlines are put together: rows with their tolerances, and the controls that they are held to.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "overlap/study_parts.hpp"

namespace tessera::overlap {

inline double over(std::int64_t a, std::int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

inline Control at_most(std::string name, double value, double bound) {
  return {std::move(name), value, fmt::format("at most {:.3f}", bound), value <= bound};
}
inline Control at_least(std::string name, double value, double bound) {
  return {std::move(name), value, fmt::format("at least {:.3f}", bound), value >= bound};
}
inline Control about(std::string name, double value, double centre, double tolerance) {
  return {std::move(name), value, fmt::format("{:.3f} to {:.3f}", centre - tolerance, centre + tolerance),
          std::abs(value - centre) <= tolerance};
}
/// For readers only: nothing depends on it.
inline Control shown(std::string name, double value) { return {std::move(name), value, "", true}; }

struct HeadlineRows {
  bool own = false;  ///< the paper's machine and models; otherwise no row has a number to be compared with
  std::vector<Headline> rows;

  void add(std::string name, double value, double paper, double tolerance, std::vector<Control> controls) {
    add_band(std::move(name), value, paper, paper - tolerance, paper + tolerance, std::move(controls));
  }
  void add_band(std::string name, double value, double paper, double least, double most,
                std::vector<Control> controls) {
    rows.push_back({std::move(name), value, own ? paper : 0, least, most, std::move(controls)});
  }
};

/// A main sub-layer with its controls.
struct MainCase {
  SubLayerRuns const* runs;
  ControlRuns const* control;
  bool is(char const* model, int gpus, SubLayer layer) const {
    return runs->model == model && runs->tensor_parallel == gpus && runs->layer == layer;
  }
};

void speed_up_rows(HeadlineRows& out, std::vector<MainCase> const& cases);
void larger_rows(HeadlineRows& out, OverlapStudy const& study);
void traffic_rows(HeadlineRows& out, std::vector<MainCase> const& cases);
void near_memory_rows(HeadlineRows& out, std::vector<MainCase> const& cases);
void sm_split_rows(HeadlineRows& out, OverlapStudy const& study);
void twice_the_sms_rows(HeadlineRows& out, OverlapStudy const& study);

}  // namespace tessera::overlap
