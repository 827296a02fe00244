// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <array>

#include "kernels/common/whole_launch.hpp"

namespace tessera::decode {
namespace {

constexpr std::array k_head_sizes{64, 96, 128};
constexpr int k_most_group = 8;  ///< query heads to a key head
/// What a launch takes beside its cached bytes at the memory's rate and what the simulator takes for a
/// launch: 2.6 to 3.7 us alone where up to 8 sequences are cut well, 1 to 2 with more (results/h200/
/// decode_launches*_ways.json, decode_shares*.json). Blocks wait for queries, for what is cached, and for
/// each other's sums. With this the 16 blocks of results/h200/attention_block_generation.json, chained and
/// not, are predicted best.
constexpr double k_fixed_ns = 2200;
constexpr int k_threads = 256, k_registers = 128, k_shared_bytes = 192 * 1024;

}  // namespace

std::vector<KernelEntry> catalogue() {
  std::vector<KernelEntry> result;
  for (int const size : k_head_sizes) {
    KernelEntry kernel;
    kernel.name = "cached_attention_" + std::to_string(size);
    kernel.family = "cached_attention";
    kernel.architectures = {"sm_90"};
    kernel.kind = OperatorKind::attention;
    kernel.whole = kernel.of_new_tokens = true;
    kernel.tile_m = k_most_group;
    kernel.tile_n = size;
    kernel.tile_k = 16;
    kernel.fixed_ns = k_fixed_ns;
    KernelForm form;
    form.types = {ElementType::bf16};
    form.epilogues = {Epilogue::none};
    form.resources = {k_threads, k_registers, k_shared_bytes};
    kernel.forms = {form};
    // Cached keys are on their way before the launches before it are complete. It waits for all of those.
    kernel.can = kernels::whole_launch();
    result.push_back(std::move(kernel));
  }
  return result;
}

}  // namespace tessera::decode
