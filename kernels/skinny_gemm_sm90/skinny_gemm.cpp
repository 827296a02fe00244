// SPDX-License-Identifier: Apache-2.0
#include "skinny_gemm.hpp"

#include <algorithm>
#include <cstdint>

#include "instance.hpp"
#include "src/gpu/launch.hpp"
#include "src/gpu/tensor_map.hpp"

namespace tessera::skinny_gemm {
namespace {

constexpr int k_block = 64;  ///< numbers of the depth in a row of shared memory, 128 bytes
constexpr int k_most_shared = 227 * 1024;
/// Blocks of the depth to a stage, and bytes of the ring. With the smaller ring a block of this launch and
/// one of the next are on an SM together: weights of the next are on their way while this one ends. With the
/// larger ones more of them are. Which is faster depends on the sizes.
struct RingBytes {
  int stage_depth, bytes;
};
constexpr RingBytes k_rings[] = {{2, 104 * 1024}, {2, 208 * 1024}, {4, 160 * 1024}};
/// Beyond it a cut leaves too many SMs idle to be worth trying: fewer that read more can be as fast as all.
constexpr double k_most_uneven = 2.2;

int blocks_of(int depth) { return depth / k_block; }
int up(int value, int to) { return (value + to - 1) / to * to; }
int ceiling(int value, int by) { return (value + by - 1) / by; }

/// Columns of the instruction.
int instruction_columns(int rows) { return rows <= 16 ? 16 : rows <= 32 ? 32 : 64; }
Instance const& instance_of(int rows) {
  static Instance const all[] = {instance_16(), instance_32(), instance_64()};
  return all[rows <= 16 ? 0 : rows <= 32 ? 1 : 2];
}

int warpgroups_of(Config const& c) { return ceiling(c.columns, 64); }

struct Layout {
  int weights, stage, barriers, total;  ///< bytes
};
Layout layout_of(Problem const& problem, Config const& c) {
  int const rows = up(problem.rows, 8);
  Layout result{};
  result.weights = c.stage_depth * c.columns * 128;
  result.stage = result.weights + c.stage_depth * rows * 128;
  // Instructions read on behind the rows of both operands, in the ring's last stage, too.
  int const behind = std::max({(instruction_columns(problem.rows) - rows) * 128,
                               (warpgroups_of(c) * 64 - c.columns - c.stage_depth * rows) * 128, 0});
  int const partials = rows * (warpgroups_of(c) * 64 + 4) * 4;
  result.barriers = up(std::max(c.stages * result.stage + behind, partials), 8);
  result.total = result.barriers + 16 * c.stages;
  return result;
}

int steps_of(Problem const& problem, Config const& c) {
  return ceiling(blocks_of(problem.depth), c.split * c.stage_depth);
}

bool allowed(Problem const& problem, Config const& c) {
  auto const power = [](int value, int most) {
    return value >= 1 && value <= most && (value & (value - 1)) == 0;
  };
  return c.columns >= 16 && c.columns <= 128 && c.columns % 16 == 0 && power(c.split, 8) &&
         (c.stage_depth == 2 || c.stage_depth == 4) && c.stages >= 2 && c.stages <= k_most_stages &&
         layout_of(problem, c).total <= k_most_shared;
}

bool map_of(CUtensorMap* map, void const* matrix, int rows, int depth, int box_rows, int box_blocks,
            CUtensorMapL2promotion promotion) {
  auto const wide = [](int value) { return static_cast<cuuint64_t>(value); };
  cuuint64_t const sizes[] = {k_block, wide(rows), wide(blocks_of(depth))};
  cuuint64_t const strides[] = {wide(depth) * 2, k_block * 2};
  cuuint32_t const box[] = {k_block, static_cast<cuuint32_t>(box_rows), static_cast<cuuint32_t>(box_blocks)};
  return gpu::encode_tensor_map(map, gpu::ElementType::bf16, matrix, 3, sizes, strides, box, promotion);
}

}  // namespace

bool supports(Problem const& p) {
  return p.rows >= 1 && p.rows <= k_most_rows && p.columns >= 8 && p.columns % 8 == 0 && p.depth >= k_block &&
         p.depth % k_block == 0;
}

std::vector<Config> configs(Problem const& problem, int sms) {
  if (!supports(problem) || sms < 1) return {};
  struct Choice {
    Config config;
    double uneven;  ///< the work of the SM that has the most, times SMs, beside all work
  };
  std::vector<Choice> all;
  for (int const columns : {32, 48, 64, 96, 128})
    for (int const split : {1, 2, 4})
      for (auto const [stage_depth, bytes] : k_rings) {
        Config c{columns, split, stage_depth, 2};
        int const steps = steps_of(problem, c);
        if (steps < 2 && split > 1) continue;
        int const stages = std::min({bytes / layout_of(problem, c).stage, k_most_stages, steps});
        c.stages = std::max(stages, 2);
        if (!allowed(problem, c)) continue;
        int const blocks = ceiling(problem.columns, columns) * split;
        all.push_back({c, static_cast<double>(ceiling(blocks, sms)) * sms / blocks});
      }
  auto const least = std::min_element(all.begin(), all.end(),
                                      [](auto const& a, auto const& b) { return a.uneven < b.uneven; });
  std::vector<Config> result;
  for (auto const& one : all)
    if (one.uneven <= k_most_uneven * least->uneven) result.push_back(one.config);
  return result;
}

std::size_t shared_bytes(Problem const& problem, Config const& config) {
  return static_cast<std::size_t>(layout_of(problem, config).total);
}

cudaError_t load() {
  for (int const rows : {16, 32, 64})
    for (auto const* const kernel : instance_of(rows).kernels) {
      if (auto const e =
              cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, k_most_shared);
          e != cudaSuccess)
        return e;
      if (auto const e = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                              cudaSharedmemCarveoutMaxShared);
          e != cudaSuccess)
        return e;
    }
  return cudaSuccess;
}

cudaError_t launch(Problem const& problem, Config const& config, Operands const& operands,
                   cudaStream_t stream) {
  auto const aligned = [](void const* at) {
    return at != nullptr && reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
  };
  if (!supports(problem) || !allowed(problem, config) || !aligned(operands.input) ||
      !aligned(operands.weights) || !aligned(operands.to))
    return cudaErrorInvalidValue;
  auto const layout = layout_of(problem, config);
  Parameters p;
  p.to = operands.to;
  p.rows = problem.rows, p.columns = problem.columns, p.result = problem.result;
  p.tile = config.columns, p.split = config.split, p.steps = steps_of(problem, config);
  p.stages = config.stages, p.stage_depth = config.stage_depth;
  p.stage_bytes = layout.stage, p.weights_bytes = layout.weights;
  p.box_rows = up(problem.rows, 8), p.barriers_at = layout.barriers;
  if (!map_of(&p.weights, operands.weights, problem.columns, problem.depth, config.columns,
              config.stage_depth, CU_TENSOR_MAP_L2_PROMOTION_L2_256B) ||
      !map_of(&p.input, operands.input, problem.rows, problem.depth, p.box_rows, config.stage_depth,
              CU_TENSOR_MAP_L2_PROMOTION_L2_256B))
    return cudaErrorInvalidValue;
  gpu::Shape shape;
  shape.blocks = static_cast<unsigned>(ceiling(problem.columns, config.columns) * config.split);
  shape.threads = static_cast<unsigned>(warpgroups_of(config) * 128 + 64);
  shape.shared = static_cast<std::size_t>(layout.total);
  shape.cluster = static_cast<unsigned>(config.split);
  shape.programmatic = true;
  void* parameters[] = {&p};
  return gpu::try_launch(shape, stream, instance_of(problem.rows).kernels[warpgroups_of(config) - 1],
                         parameters);
}

}  // namespace tessera::skinny_gemm
