// SPDX-License-Identifier: Apache-2.0
// Any bytes as a model's config.json, with sizes also taken from the bytes: a refusal with diagnostics, or an
// operator graph that prints, reads back the same and can be tiled.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/describe/decoder_config.hpp"
#include "tessera/describe/tile_relation.hpp"
#include "tessera/describe/workload_json.hpp"
#include "tessera/shipped_kernels.hpp"

namespace {

void tile_it(tessera::OperatorGraph const& graph) {
  static auto const catalogue = tessera::shipped_kernels().for_architecture("sm_90");
  std::vector<tessera::TileChoice> choices;
  for (auto const& op : graph.operators)
    for (auto const& kernel : catalogue)
      if (kernel.kind == op.kind && tessera::find_form(kernel, op.epilogue, graph.type) != nullptr) {
        choices.push_back({kernel, 1});
        break;
      }
  auto const pipeline = tessera::tile(graph, choices);
  if (!pipeline) {
    if (pipeline.error().empty()) std::abort();
    return;
  }
  for (auto const& dependence : pipeline->dependences) {
    tessera::TileRelation const relation(*pipeline, dependence);
    std::vector<tessera::TileRelation::Box> boxes;
    auto const tiles = relation.consumer_grid().tiles();
    for (auto const tile :
         {std::int64_t{0}, static_cast<std::int64_t>(tiles / 2), static_cast<std::int64_t>(tiles - 1)})
      relation.boxes_of(tile, boxes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  // Sizes depend on the input's length, so that one input always means the same.
  tessera::BlockOptions options;
  options.block = size % 2 == 0 ? "mlp" : "attention";
  options.tokens = 1 + static_cast<std::int64_t>(size % 97) * 13;
  options.sequences = 1 + static_cast<std::int64_t>(size % 3);
  options.cached = size % 5 == 0 ? 512 : 0;
  options.tensor_parallel = size % 7 == 0 ? 8 : 1;

  auto const decoder = tessera::import_hf_decoder(text, "config.json");
  if (!decoder && decoder.error().empty()) std::abort();
  auto const graph = tessera::import_hf_config(text, "config.json", options);
  if (!graph) {
    if (graph.error().empty()) std::abort();
    return 0;
  }
  auto const printed = tessera::print_workload(*graph);
  auto const again = tessera::parse_workload(printed, "again.json");
  if (!again || tessera::print_workload(*again) != printed) std::abort();
  tile_it(*graph);
  return 0;
}
