// SPDX-License-Identifier: Apache-2.0
#include "json/kernel_timing.hpp"

#include <nlohmann/json.hpp>

namespace tessera::json {

KernelTiming read_timing(ObjectReader& reader) {
  KernelTiming timing;
  timing.slice_cycles = reader.number("slice_cycles", 1, 1e9);
  timing.tile_end_cycles = reader.number("tile_end_cycles", 0, 1e9);
  timing.next_tile_cycles = reader.number("next_tile_cycles", 0, 1e9);
  timing.waits_per_poll = static_cast<int>(reader.integer_or("waits_per_poll", 1, 1, 1024));
  timing.gelu_cycles = reader.number_or("gelu_cycles", 0, 0);
  timing.cluster_rows = static_cast<int>(reader.integer_or("cluster_rows", 1, 1, 16));
  timing.cluster_columns = static_cast<int>(reader.integer_or("cluster_columns", 1, 1, 16));
  return timing;
}

nlohmann::ordered_json print_timing(std::string const& name, KernelTiming const& timing) {
  nlohmann::ordered_json entry = {{"name", name},
                                  {"slice_cycles", timing.slice_cycles},
                                  {"tile_end_cycles", timing.tile_end_cycles},
                                  {"next_tile_cycles", timing.next_tile_cycles}};
  if (timing.waits_per_poll != 1) entry["waits_per_poll"] = timing.waits_per_poll;
  if (timing.cluster_rows != 1) entry["cluster_rows"] = timing.cluster_rows;
  if (timing.cluster_columns != 1) entry["cluster_columns"] = timing.cluster_columns;
  if (timing.gelu_cycles != 0) entry["gelu_cycles"] = timing.gelu_cycles;
  return entry;
}

}  // namespace tessera::json
