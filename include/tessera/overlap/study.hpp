// SPDX-License-Identifier: Apache-2.0
// T3's study: every sub-layer of every model in all configurations.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sub_layer.hpp"

namespace tessera {

/// Runs job(0) ... job(count - 1), in any order or at once: the caller brings the threads.
using Parallel = std::function<void(std::size_t count, std::function<void(std::size_t)> const& job)>;

struct OverlapStudySettings {
  MachineProfile machine;
  std::vector<TransformerModel> models;
  SubLayerOptions options;
  Parallel parallel;  ///< empty: one after the other
};

struct OverlapStudy {
  MachineProfile machine;
  std::vector<TransformerModel> models;
  SubLayerOptions options;
  std::vector<SubLayerRuns> sub_layers;
};

/// Refused as a whole if a run is refused.
Expected<OverlapStudy> study_overlap(OverlapStudySettings const& settings);

/// Geometric mean and largest value.
struct Spread {
  double mean = 0;
  double most = 0;
  int count = 0;
};
Spread spread_of(std::vector<double> const& values);

/// What a study says in one line each, and what the paper states.
struct Headline {
  std::string name;
  double value = 0;
  double paper = 0;      ///< 0: the paper states none
  double tolerance = 0;  ///< around `paper` that counts as reproduced
  bool reproduced() const { return paper > 0 && value >= paper - tolerance && value <= paper + tolerance; }
};
std::vector<Headline> headlines(OverlapStudy const& study);

/// Bytes that one GPU's memory moves in a sub-layer, all-gather included.
double moved_sequential(SubLayerRuns const& runs);
double moved_fused(SubLayerRuns const& runs);

}  // namespace tessera
