// SPDX-License-Identifier: Apache-2.0
// Everything that may be changed in T3's study, by name, and what comes out of one choice of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "../sweep/parameter.hpp"
#include "study.hpp"

namespace tessera {

/// The machine's numbers (those that the study does not look at with `read` false), the GEMM kernel
/// (tile_m, ..., raster), the models (tokens, tp, hidden), and how they are run (bytes_per_thread, ...).
std::vector<Parameter> overlap_parameters();

/// What `name` is now; empty where the models differ in it, or the machine has no such number.
std::string overlap_value(OverlapStudySettings const& settings, std::string const& name);

/// Precondition: one of overlap_parameters() with a value_text() of it.
void change(OverlapStudySettings& settings, SweepSetting const& setting);

/// The models with the numbers of GPUs for which is_main() holds; all, where that leaves none.
std::vector<TransformerModel> main_models(std::vector<TransformerModel> const& models);

/// Speed-ups over all sub-layers of all models.
struct SubLayerMeans {
  Spread ideal, t3, t3_mca;
  double traffic_saved = 0;          ///< mean of 1 - bytes moved by T3-MCA over those moved in sequence
  std::map<int, double> gemm_reads;  ///< by number of GPUs: times fewer bytes read by the GEMM in T3-MCA
};

/// Refused if a sub-layer is: E0543 where tiles do not divide the output among the GPUs, E0606 for a machine
/// that contradicts itself.
Expected<SubLayerMeans> sub_layer_means(OverlapStudySettings const& settings);

}  // namespace tessera
