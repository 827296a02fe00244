// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <array>
#include <utility>

#include "kernels/common/whole_launch.hpp"

namespace tessera::norm_rope {
namespace {

constexpr int k_threads = 256;

/// A block holds a row in registers, 4 columns of each thread at a time.
struct Rows {
  int most_columns, registers;
};
// Registers as the compiler gives them out (nvcc 13.0, sm_90).
constexpr std::array k_rows{Rows{1024, 26}, Rows{2048, 30}, Rows{4096, 40}, Rows{8192, 48}, Rows{16384, 92}};
constexpr int k_sums_bytes = 64, k_columns_at_once = 4;

constexpr std::array k_head_sizes{64, 80, 96, 128, 256};
constexpr int k_turn_registers = 37;

/// Neither waits for tiles nor posts them. Both may be launched early, and then wait for the kernels before
/// them as a whole.
KernelEntry entry(OperatorKind kind, std::string name, Resources const& resources) {
  KernelEntry kernel;
  kernel.name = std::move(name);
  kernel.family = "norm_rope";
  kernel.architectures = {"sm_90"};
  kernel.kind = kind;
  KernelForm form;
  form.types = {ElementType::bf16};
  form.epilogues = {Epilogue::none};
  form.pipeline_stages = 1;
  form.resources = resources;
  kernel.forms = {form};
  kernel.can = kernels::whole_launch();
  return kernel;
}

}  // namespace

std::vector<KernelEntry> catalogue() {
  std::vector<KernelEntry> result;
  int fewest = k_columns_at_once;
  for (auto const& [most, registers] : k_rows) {
    auto kernel =
        entry(OperatorKind::norm, "norm_" + std::to_string(most), {k_threads, registers, k_sums_bytes});
    kernel.tile_m = 1;
    kernel.tile_n = most;
    kernel.tile_k = fewest;
    fewest = most + k_columns_at_once;
    result.push_back(std::move(kernel));
  }
  for (int const size : k_head_sizes) {
    auto kernel = entry(OperatorKind::turn_heads, "turn_heads_" + std::to_string(size),
                        {k_threads, k_turn_registers, 0});
    // Blocks have heads of several rows, or a part of one.
    kernel.whole = true;
    // All that loading and storing reach: docs/design/notes-predict.md has it beside a record.
    kernel.efficiency = 1;
    kernel.tile_n = size;
    result.push_back(std::move(kernel));
  }
  return result;
}

}  // namespace tessera::norm_rope
