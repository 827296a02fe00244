// SPDX-License-Identifier: Apache-2.0
#include "tessera/overlap/sub_layer.hpp"

#include <fmt/format.h>

#include "overlap/limits.hpp"
#include "tessera/describe/dsl.hpp"

namespace tessera {
namespace {

/// How a grid of tiles is cut into chunks: along one side, into whole lines of tiles or parts of one.
struct Cut {
  bool by_columns = false;
  std::int64_t outer = 0, inner = 0;
};

/// Chunks in the order of production where they come out whole; rows of tiles otherwise. Precondition: gpus
/// is positive.
Cut cut_of(overlap::TileGrid const& grid, Raster raster, int gpus) {
  bool const by_columns = raster == Raster::column && grid.columns % gpus == 0;
  return by_columns ? Cut{true, grid.columns, grid.rows} : Cut{false, grid.rows, grid.columns};
}

bool is_whole(Cut const& cut, int gpus) {
  return cut.outer % gpus == 0 || (gpus % cut.outer == 0 && cut.inner % (gpus / cut.outer) == 0);
}

bool is_whole(GemmProblem const& problem, GemmKernel const& kernel, int gpus) {
  return is_whole(cut_of(overlap::tile_grid(problem, kernel), kernel.raster, gpus), gpus);
}

// As tessera simulate's --tp.
constexpr int k_fewest_gpus = 3;
constexpr int k_most_gpus = 256;

/// Numbers near these with which the output divides.
std::string that_divide(GemmProblem const& problem, GemmKernel const& kernel, int gpus) {
  std::vector<std::string> counts;
  int fewer = gpus - 1, more = gpus + 1;
  while (fewer >= k_fewest_gpus && !is_whole(problem, kernel, fewer)) --fewer;
  while (more <= k_most_gpus && !is_whole(problem, kernel, more)) ++more;
  if (fewer >= k_fewest_gpus) counts.push_back(std::to_string(fewer));
  if (more <= k_most_gpus) counts.push_back(std::to_string(more));
  std::string text;
  if (!counts.empty()) text = fmt::format("they do on {} GPUs", fmt::join(counts, " or "));
  // No larger, so that an SM holds it too.
  for (int const m : {kernel.tile_m, 128, 64, 32})
    for (int const n : {kernel.tile_n, 128, 64, 32}) {
      auto smaller = kernel;
      smaller.tile_m = std::min(kernel.tile_m, m);
      smaller.tile_n = std::min(kernel.tile_n, n);
      if (!is_whole(problem, smaller, gpus)) continue;
      return fmt::format(
          "{0}{1}tiles of {2} x {3} do on {4} (tessera sweep --set tile_m={2} --set tile_n={3})", text,
          text.empty() ? "" : "; ", smaller.tile_m, smaller.tile_n, gpus);
    }
  return text.empty() ? "choose a tile shape that divides the output evenly among the GPUs" : text;
}

}  // namespace

// Pati et al., T3, ASPLOS 2024, Table 2; "12K", "18K" and "20K" read as multiples of 1024.
std::vector<TransformerModel> t3_models() {
  return {{"Mega-GPT-2", 3072, 74, 1024, 16, {8, 16}},
          {"T-NLG", 4256, 78, 1024, 8, {8, 16}},
          {"GPT-3", 12 * 1024, 96, 1024, 2, {32}},
          {"PALM", 18 * 1024, 118, 1024, 2, {32}},
          {"MT-NLG", 20 * 1024, 105, 1024, 2, {32}}};
}

std::vector<TransformerModel> t3_future_models() {
  return {{"1T", 25600, 128, 1024, 2, {64}}, {"10T", 64 * 1024, 194, 1024, 2, {64}}};
}

char const* to_text(SubLayer layer) {
  constexpr char const* names[] = {"OP", "FC-2", "FC-1", "IP"};
  return names[static_cast<int>(layer)];
}

GemmProblem sub_layer_gemm(TransformerModel const& model, int tensor_parallel, SubLayer layer) {
  auto const share = [&](std::int64_t width) { return (width + tensor_parallel - 1) / tensor_parallel; };
  auto const inner = model.inner > 0 ? model.inner : 4 * model.hidden;
  bool const forward = layer == SubLayer::output_projection || layer == SubLayer::fc2;
  auto const depth = [&] {
    switch (layer) {
      case SubLayer::output_projection:
        return model.heads > 0 ? share(model.heads) * model.head_dim : share(model.hidden);
      case SubLayer::fc2: return share(inner);
      // The gradients of gate and up stand beside each other.
      case SubLayer::fc1: return share(inner) * (model.gated ? 2 : 1);
      default:
        return model.heads > 0 ? (share(model.heads) + 2 * share(model.kv_heads)) * model.head_dim
                               : share(3 * model.hidden);
    }
  };
  return {model.tokens(), model.hidden, depth(), forward};
}

GemmProblem gathered_gemm(GemmProblem const& sub_layer) {
  return {sub_layer.m, sub_layer.k, sub_layer.n, !sub_layer.b_contiguous_in_k};
}

GemmKernel default_gemm_kernel(MachineProfile const& machine) {
  // 256x128 with fp32 accumulators fills half of an SM's registers: one work-group. Two stages, because Volta
  // has no asynchronous copies. sm_90: the shape of the shipped GEMM.
  GemmKernel kernel;
  if (machine.architecture == "sm_90") {
    kernel.tile_m = 128;
    kernel.tile_n = 256;
    kernel.tile_k = 64;
    kernel.stages = 4;
  } else if (machine.architecture == "sm_80") {
    kernel.stages = 3;
  }
  return kernel;
}

Expected<Pipeline> sub_layer_pipeline(GemmProblem const& problem, GemmKernel const& kernel, int gpus,
                                      Collective collective) {
  if (gpus < 2 || gpus > overlap::k_most_gpus) {
    Diagnostic d;
    d.code = "E0544";
    d.message = fmt::format("a collective of {} GPUs", gpus);
    d.suggestion = fmt::format("2 to {} GPUs", overlap::k_most_gpus);
    return refuse(std::move(d));
  }
  if (auto const sizes = overlap::check_sizes(problem, kernel, gpus); !sizes)
    return tl::make_unexpected(sizes.error());
  auto const grid = overlap::tile_grid(problem, kernel);
  auto const cut = cut_of(grid, kernel.raster, gpus);
  if (!is_whole(cut, gpus)) {
    Diagnostic d;
    d.code = "E0543";
    d.message = fmt::format("{} x {} tiles do not make {} equal chunks of whole rows or parts of one",
                            grid.columns, grid.rows, gpus);
    d.suggestion = that_divide(problem, kernel, gpus);
    return refuse(std::move(d));
  }
  constexpr char const* names[] = {"reduce_scatter", "all_gather", "all_to_all", "all_reduce"};
  std::string const name = names[static_cast<int>(collective)];
  bool const reduces = collective == Collective::reduce_scatter || collective == Collective::all_reduce;
  PipelineBuilder p("gemm_" + name);
  auto [x, y, chunk] = p.dims("x", "y", "chunk");
  auto gemm = p.stage("gemm", {x = grid.columns, y = grid.rows});
  auto scatter = p.stage(name, {chunk = gpus});
  scatter.kernel(name);
  bool const by_columns = cut.by_columns;
  auto const depends = [&](auto const& along, auto const& across) {
    auto handle = by_columns ? p.depends(scatter(chunk), gemm(across, along))
                             : p.depends(scatter(chunk), gemm(along, across));
    handle.on_complete(reduces ? OnComplete::reduce_into_peer : OnComplete::start_peer_copy);
  };
  if (cut.outer % gpus == 0) {  // whole rows (or columns) of tiles
    auto const each = cut.outer / gpus;
    depends(all(by_columns ? y : x), range(chunk * each, chunk * each + each));
  } else {  // parts of one
    auto const parts = gpus / cut.outer;
    auto const width = cut.inner / parts;
    depends(range((chunk % parts) * width, (chunk % parts) * width + width), chunk / parts);
  }
  return p.build();
}

Expected<Pipeline> gathered_pipeline(GemmProblem const& problem, GemmKernel const& kernel, int gpus) {
  auto const columns = (problem.n + kernel.tile_n - 1) / kernel.tile_n;
  auto const rows = (problem.m + kernel.tile_m - 1) / kernel.tile_m;
  if (gpus < 1 || rows % gpus != 0) {
    Diagnostic d;
    d.code = "E0543";
    d.message = fmt::format("{} rows of tiles do not make {} equal chunks", rows, gpus);
    // A sub-layer has a row for each token.
    auto const each = std::max<std::int64_t>(1, rows / std::max(1, gpus));
    if (gpus > 0)
      d.suggestion = fmt::format("{} rows (tokens) do", each * gpus * kernel.tile_m);
    else
      d.suggestion = "2 GPUs or more";
    return refuse(std::move(d));
  }
  auto const each = rows / gpus;
  PipelineBuilder p("all_gather_gemm");
  auto [x, y, chunk] = p.dims("x", "y", "chunk");
  auto panels = p.stage("panels", {y = rows});
  auto gather = p.stage("gather", {chunk = gpus});
  auto gemm = p.stage("gemm", {x = columns, y = rows});
  gather.kernel("all_gather");
  p.depends(gather(chunk), panels(range(chunk * each, chunk * each + each)))
      .on_complete(OnComplete::start_peer_copy);
  p.depends(gemm(x, y), gather(y / each));
  return p.build();
}

Expected<FusedSetup> fused_setup(GemmProblem const& problem, int gpus, SubLayerOptions const& options,
                                 Collective collective, Topology topology) {
  auto const& kernel = options.kernel;
  auto const pipeline = sub_layer_pipeline(problem, kernel, gpus, collective);
  if (!pipeline) return tl::make_unexpected(pipeline.error());
  auto outputs = configure(*pipeline, topology, kernel.raster, kernel.splits);
  if (!outputs) return tl::make_unexpected(outputs.error());
  for (auto& output : *outputs)
    for (auto& map : output.dma) map.granularity = options.granularity;
  auto const& grid = pipeline->stages[0].grid;
  return FusedSetup{std::move(*outputs), local_output(grid[0].extent, grid[1].extent, kernel.raster)};
}

Expected<CollectiveRuns> run_collectives(MachineProfile const& machine, TransformerModel const& model,
                                         int tensor_parallel, SubLayerOptions const& options) {
  CollectiveProblem problem;
  problem.gpus = tensor_parallel;
  problem.bytes = static_cast<double>(model.tokens() * model.hidden * 2);
  problem.bytes_per_thread = options.bytes_per_thread;
  auto scatter = run_collective(machine, problem, options.run);
  if (!scatter) return tl::make_unexpected(scatter.error());
  problem.near_memory = true;
  auto near = run_collective(machine, problem, options.run);
  if (!near) return tl::make_unexpected(near.error());
  problem.near_memory = false;
  problem.collective = Collective::all_gather;
  auto gather = run_collective(machine, problem, options.run);
  if (!gather) return tl::make_unexpected(gather.error());
  return CollectiveRuns{std::move(*scatter), std::move(*near), std::move(*gather)};
}

Expected<SubLayerRuns> run_gemm_with_ring(MachineProfile const& machine, SubLayerRuns out,
                                          SubLayerOptions const& options) {
  auto const setup = fused_setup(out.problem, out.tensor_parallel, options);
  if (!setup) return tl::make_unexpected(setup.error());
  auto const& kernel = options.kernel;
  auto gemm = run_gemm(machine, out.problem, kernel, {setup->alone}, true, options.run);
  if (!gemm) return tl::make_unexpected(gemm.error());
  auto run = options.run;
  if (run.arbitration == Arbitration::communication_aware) run.arbitration = Arbitration::round_robin;
  auto fused = run_gemm(machine, out.problem, kernel, setup->fused, false, run);
  if (!fused) return tl::make_unexpected(fused.error());
  run.arbitration = Arbitration::communication_aware;
  auto aware = run_gemm(machine, out.problem, kernel, setup->fused, false, run);
  if (!aware) return tl::make_unexpected(aware.error());
  out.gemm = std::move(*gemm);
  out.t3 = std::move(*fused);
  out.t3_mca = std::move(*aware);
  return out;
}

Expected<SubLayerRuns> run_sub_layer(MachineProfile const& machine, TransformerModel const& model,
                                     int tensor_parallel, SubLayer layer, SubLayerOptions const& options,
                                     CollectiveRuns const& collectives) {
  SubLayerRuns out;
  out.model = model.name;
  out.tensor_parallel = tensor_parallel;
  out.layer = layer;
  out.problem = sub_layer_gemm(model, tensor_parallel, layer);
  out.collectives = collectives;
  return run_gemm_with_ring(machine, std::move(out), options);
}

}  // namespace tessera
