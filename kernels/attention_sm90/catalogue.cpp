// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <algorithm>
#include <array>

namespace tessera::attention_sm90 {
namespace {

/// As shape.cuh has it, which a test holds this to.
struct Tile {
  int head_size, queries, keys, stages;
  bool both_types;
};

// Preferred first, of each head size.
constexpr std::array k_tiles{Tile{64, 128, 128, 3, true},  Tile{80, 128, 128, 2, true},
                             Tile{96, 128, 128, 2, true},  Tile{128, 128, 128, 2, true},
                             Tile{128, 64, 128, 3, false}, Tile{128, 192, 64, 4, false},
                             Tile{256, 128, 64, 2, true}};

constexpr int k_usual_queries = 128;

int shared_bytes_of(Tile const& tile) {
  constexpr int k_chunk_columns = 64, k_line_bytes = 128, k_alignment = 1024;
  int const chunks = (tile.head_size + k_chunk_columns - 1) / k_chunk_columns;
  int const barriers = 1 + 4 * tile.stages + 1;  // the last for a flag
  return chunks * k_line_bytes * (tile.queries + 2 * tile.stages * tile.keys) + 8 * barriers + k_alignment;
}

KernelEntry entry(Tile const& tile) {
  constexpr int k_group_threads = 128, k_group_queries = 64, k_registers_per_sm = 65536,
                k_most_registers = 255;
  int const threads = k_group_threads * (1 + tile.queries / k_group_queries);
  KernelEntry kernel;
  kernel.name = "attention_" + std::to_string(tile.head_size);
  if (tile.queries != k_usual_queries) kernel.name += "_" + std::to_string(tile.queries);
  kernel.family = "attention_sm90";
  kernel.architectures = {"sm_90"};
  kernel.kind = OperatorKind::attention;
  kernel.tile_m = tile.queries;
  kernel.tile_n = tile.head_size;
  kernel.tile_k = tile.keys;
  KernelForm form;
  form.types = {ElementType::bf16};
  if (tile.both_types) form.types.push_back(ElementType::fp16);
  form.epilogues = {Epilogue::none};
  form.pipeline_stages = tile.stages;
  form.resources = {threads, std::min(k_registers_per_sm / threads / 8 * 8, k_most_registers),
                    shared_bytes_of(tile)};
  kernel.forms = {form};
  // A block computes one tile, and waits for all that it reads before it loads.
  kernel.can.persist = kernel.can.bands = kernel.can.load_early = kernel.can.fuse = false;
  return kernel;
}

}  // namespace

std::vector<KernelEntry> catalogue() {
  std::vector<KernelEntry> result;
  for (auto const& tile : k_tiles) result.push_back(entry(tile));
  return result;
}

}  // namespace tessera::attention_sm90
