// SPDX-License-Identifier: Apache-2.0
#include "overlap/study_parts.hpp"
#include "tessera/overlap/parameters.hpp"

namespace tessera {

std::vector<TransformerModel> main_models(std::vector<TransformerModel> const& models) {
  std::vector<TransformerModel> kept;
  for (auto const& model : models) {
    auto main = model;
    std::erase_if(main.tensor_parallel, [](int tp) { return tp >= 32; });
    if (!main.tensor_parallel.empty()) kept.push_back(main);
  }
  return kept.empty() ? models : kept;
}

Expected<SubLayerMeans> sub_layer_means(OverlapStudySettings const& settings) {
  if (auto found = contradictions(settings.machine); !found.empty())
    return tl::make_unexpected(std::move(found));
  auto const runs =
      overlap::run_sub_layers(settings.machine, settings.models, {k_sub_layers.begin(), k_sub_layers.end()},
                              settings.options, settings.parallel);
  if (!runs) return tl::make_unexpected(runs.error());
  SubLayerMeans means;
  std::vector<double> ideal, t3, mca;
  std::map<int, std::vector<double>> reads;
  for (auto const& run : *runs) {
    ideal.push_back(run.speedup(run.ideal()));
    t3.push_back(run.speedup(run.fused()));
    mca.push_back(run.speedup(run.fused_mca()));
    means.traffic_saved += (1 - moved_fused(run) / moved_sequential(run)) / static_cast<double>(runs->size());
    reads[run.tensor_parallel].push_back(overlap::bytes_of(run.gemm, Traffic::gemm_read) /
                                         overlap::bytes_of(run.t3_mca, Traffic::gemm_read));
  }
  means.ideal = spread_of(ideal);
  means.t3 = spread_of(t3);
  means.t3_mca = spread_of(mca);
  for (auto const& [tp, values] : reads) means.gemm_reads[tp] = spread_of(values).mean;
  return means;
}

}  // namespace tessera
