// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <array>

#include "kernels/common/whole_launch.hpp"
#include "sizes.hpp"

namespace tessera::skinny_gemm {
namespace {

/// `fixed_ns`: what a product takes beside its weights at the memory's rate and what the simulator takes for
/// a launch. Up to 16 rows: fitted to the blocks of results/h200/attention_block_generation.json. 32 and 64
/// rows: products alone take 0.8 to 2.8 us and 2.3 to 3.7 us of it, in layers of Llama-3.2-1B and LLaMA-65B
/// (results/h200/decode_launches_ways.json, decode_shares_parts.json; weights read by 256 bytes).
struct Form {
  int rows, registers;
  double fixed_ns;
};
constexpr std::array k_forms{Form{16, 56, 200}, Form{32, 64, 1500}, Form{64, 96, 3000}};
/// Of a block of one warpgroup that multiplies, beside which are the warps that load and those of a norm.
constexpr int k_threads = 320;

}  // namespace

std::vector<KernelEntry> catalogue() {
  std::vector<KernelEntry> result;
  int fewest = 1;
  for (auto const& [rows, registers, fixed_ns] : k_forms) {
    KernelEntry kernel;
    kernel.name = "skinny_gemm_" + std::to_string(rows);
    kernel.family = "skinny_gemm";
    kernel.architectures = {"sm_90"};
    kernel.kind = OperatorKind::gemm;
    kernel.whole = true;
    kernel.tile_m = fewest, kernel.most_rows = rows;
    fewest = rows + 1;
    kernel.tile_n = 8;
    kernel.tile_k = k_block;
    kernel.fixed_ns = fixed_ns;
    KernelForm form;
    form.types = {ElementType::bf16};
    form.epilogues = {Epilogue::none, Epilogue::gelu, Epilogue::swiglu, Epilogue::residual};
    form.resources = {k_threads, registers, 104 * 1024};
    kernel.forms = {form};
    // Its weights are on their way before the launches before it are complete. It waits for all of those.
    kernel.can = kernels::whole_launch();
    result.push_back(std::move(kernel));
  }
  return result;
}

}  // namespace tessera::skinny_gemm
