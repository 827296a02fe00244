// SPDX-License-Identifier: Apache-2.0
#include "tessera/overlap/sub_layer_timeline.hpp"

#include <fmt/format.h>

#include "overlap/limits.hpp"
#include "tessera/describe/tile_relation.hpp"

namespace tessera {
namespace {

/// By tile: the chunk of the collective that it belongs to.
std::vector<std::int32_t> chunks_of(Pipeline const& pipeline) {
  auto const& dependence = pipeline.dependences.front();
  auto const& producer = pipeline.stages[static_cast<std::size_t>(dependence.producer)];
  auto const& consumer = pipeline.stages[static_cast<std::size_t>(dependence.consumer)];
  TileRelation const relation(pipeline, dependence);
  std::vector<std::int32_t> chunks(static_cast<std::size_t>(producer.tiles()));
  std::vector<std::int64_t> tiles;
  for (std::int64_t chunk = 0; chunk < consumer.tiles(); ++chunk) {
    relation.producers_of(chunk, tiles);
    for (auto const tile : tiles) chunks[static_cast<std::size_t>(tile)] = static_cast<std::int32_t>(chunk);
  }
  return chunks;
}

/// Tokens whose fused run can be recorded, near the most: chunks of whole rows of tiles. 0 if there are none.
std::int64_t recordable(std::int64_t columns, int gpus, GemmKernel const& kernel) {
  auto const each = overlap::recorded_on_ring(columns * gpus, gpus, kernel.wavefronts);
  return k_most_recorded / each * gpus * kernel.tile_m;
}

Expected<OverlapRun> fused(MachineProfile const& machine, GemmProblem const& problem, int gpus,
                           SubLayerOptions const& options) {
  auto const grid = overlap::tile_grid(problem, options.kernel);
  auto const count = overlap::recorded_on_ring(grid.tiles(), gpus, options.kernel.wavefronts);
  if (auto const room = overlap::check_recording(count, recordable(grid.columns, gpus, options.kernel));
      !room)
    return tl::make_unexpected(room.error());
  auto const pipeline = sub_layer_pipeline(problem, options.kernel, gpus);
  if (!pipeline) return tl::make_unexpected(pipeline.error());
  auto outputs = configure(*pipeline, Topology::ring, options.kernel.raster, options.kernel.splits);
  if (!outputs) return tl::make_unexpected(outputs.error());
  for (auto& output : *outputs) {
    output.chunk_of = chunks_of(*pipeline);
    for (auto& map : output.dma) map.granularity = options.granularity;
  }
  return run_gemm(machine, problem, options.kernel, *outputs, false, options.run);
}

Expected<OverlapRun> gathered(MachineProfile const& machine, GemmProblem const& problem, int gpus,
                              SubLayerOptions const& options) {
  auto const pipeline = gathered_pipeline(problem, options.kernel, gpus);
  if (!pipeline) return tl::make_unexpected(pipeline.error());
  auto const inputs = configure_gathered(*pipeline, Topology::ring, options.kernel.raster);
  if (!inputs) return tl::make_unexpected(inputs.error());
  return run_gathered_gemm(machine, problem, options.kernel, *inputs, options.run);
}

Expected<OverlapRun> recorded(MachineProfile const& machine, TransformerModel const& model,
                              int tensor_parallel, SubLayer layer, SubLayerRun run, SubLayerOptions options) {
  options.run.record = true;
  options.run.arbitration =
      run == SubLayerRun::t3_mca ? Arbitration::communication_aware : Arbitration::round_robin;
  auto const problem = sub_layer_gemm(model, tensor_parallel, layer);
  if (auto const sizes = overlap::check_sizes(problem, options.kernel, tensor_parallel); !sizes)
    return tl::make_unexpected(sizes.error());
  if (run == SubLayerRun::t3 || run == SubLayerRun::t3_mca)
    return fused(machine, problem, tensor_parallel, options);
  if (run == SubLayerRun::gathered)
    return gathered(machine, gathered_gemm(problem), tensor_parallel, options);
  if (run == SubLayerRun::gemm) {
    auto const grid = overlap::tile_grid(problem, options.kernel);
    return run_gemm(machine, problem, options.kernel,
                    {local_output(grid.columns, grid.rows, options.kernel.raster)}, true, options.run);
  }
  CollectiveProblem collective;
  collective.collective =
      run == SubLayerRun::all_gather ? Collective::all_gather : Collective::reduce_scatter;
  collective.gpus = tensor_parallel;
  collective.bytes = static_cast<double>(model.tokens() * model.hidden * 2);
  collective.bytes_per_thread = options.bytes_per_thread;
  return run_collective(machine, collective, options.run);
}

}  // namespace

char const* to_text(SubLayerRun run) {
  constexpr char const* names[] = {"gemm", "t3", "t3-mca", "reduce_scatter", "all_gather", "all_gather_gemm"};
  return names[static_cast<int>(run)];
}

Expected<Timeline> sub_layer_timeline(MachineProfile const& machine, TransformerModel const& model,
                                      int tensor_parallel, SubLayer layer, SubLayerRun run,
                                      SubLayerOptions const& options) {
  auto result = recorded(machine, model, tensor_parallel, layer, run, options);
  if (!result) return tl::make_unexpected(result.error());
  auto& timeline = result->timeline;
  timeline.pipeline =
      fmt::format("{} {}, {} tokens, {} GPUs", model.name, to_text(layer), model.tokens(), tensor_parallel);
  return std::move(timeline);
}

}  // namespace tessera
