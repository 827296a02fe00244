// SPDX-License-Identifier: Apache-2.0
// The loop of role_tiles::Mixing: its plan, its numbers, and what should come out.
#pragma once

#include <random>
#include <vector>

#include "gpu/tensor_map.hpp"
#include "run_gpu/role_launch.hpp"
#include "tessera/describe/dsl.hpp"

namespace tessera::role_tiles {

using vector_chain::device_copy;
using vector_chain::DeviceArray;

inline Expected<LoopPlan> mixing_plan(Mixing const& of, MachineProfile const& machine, int workers) {
  PipelineBuilder builder("mixing");
  auto [t] = builder.dims("t");
  auto mix = builder.stage("mix", {t = of.tiles()}).output("y");
  auto reverse = builder.stage("reverse", {t = of.tiles()}).output("z");
  builder.depends(mix(t), earlier(reverse(range(0, of.tiles())))).through("z");
  builder.depends(reverse(t), mix(t)).through("y");
  builder.copies("y", of.y_copies);
  builder.copies("z", of.z_copies);
  for (auto* stage : {&mix, &reverse}) stage->resources(block());
  auto const loop = builder.build_loop();
  if (!loop) return tl::make_unexpected(loop.error());
  return plan_loop(*loop, machine, workers);
}

/// Its numbers on the device and on the host.
class Mixer {
 public:
  Mixer(Mixing const& of, unsigned seed) : mixing(of), random_(seed) {
    w_ = numbers(of.w_copies * of.features * of.features);
    z_ = numbers(of.tokens * of.features);
    w_at_ = device_copy(w_);
    std::vector<CUtensorMap> maps(static_cast<std::size_t>(1 + of.z_copies));
    auto const wide = static_cast<cuuint64_t>(of.features);
    cuuint64_t const w_sizes[] = {wide, wide * static_cast<cuuint64_t>(of.w_copies)},
                     strides[] = {2 * wide, 128};
    cuuint32_t const w_box[] = {k_columns, static_cast<cuuint32_t>(of.rows)};
    encode(&maps[0], w_at_.get(), 2, w_sizes, strides, w_box);
    for (int i = 0; i < of.y_copies; ++i) mixing.y[i] = (y_at_[i] = poisoned()).get();
    cuuint64_t const z_sizes[] = {k_columns, static_cast<cuuint64_t>(of.tokens), wide / k_columns};
    cuuint32_t const z_box[] = {k_columns, k_tokens, static_cast<cuuint32_t>(of.late_blocks)};
    for (int i = 0; i < of.z_copies; ++i) {
      mixing.z[i] = (z_at_[i] = poisoned()).get();
      encode(&maps[static_cast<std::size_t>(1 + i)], mixing.z[i], 3, z_sizes, strides, z_box);
    }
    maps_ = device_copy(maps);
    mixing.weight_map = maps_.get();
    mixing.z_maps = maps_.get() + 1;
    arguments_ = device_copy(std::vector<Mixing>{mixing});
    start_again();
  }

  Mixing mixing;  ///< may be changed: update()
  Mixing const* arguments() const { return arguments_.get(); }
  void update() const {
    EXPECT_EQ(cudaMemcpy(arguments_.get(), &mixing, sizeof mixing, cudaMemcpyHostToDevice), cudaSuccess);
  }

  /// What so many iterations make of z.
  void step(int iterations) {
    auto const features = static_cast<std::size_t>(mixing.features),
               rows = static_cast<std::size_t>(mixing.rows);
    std::vector<unsigned short> y(z_.size());
    for (int n = 0; n < iterations; ++n) {
      auto const* const w = w_.data() + static_cast<std::size_t>(n % mixing.w_copies) * features * features;
      for (std::size_t at = 0; at < z_.size(); ++at) {
        auto const* const z = z_.data() + at / features * features;
        unsigned sum = 0;
        for (std::size_t k = 0; k < features; ++k)
          sum += static_cast<unsigned>(w[at % features * features + k]) * z[k];
        y[at] = folded(sum, n);
      }
      for (std::size_t at = 0; at < z_.size(); ++at) {
        auto const in_tile = at % rows;
        z_[at] = static_cast<unsigned short>(y[at - in_tile + rows - 1 - in_tile] * 3u + 1u);
      }
    }
  }
  std::vector<unsigned short> const& expected() const { return z_; }
  /// z after a launch of so many iterations, which becomes what the next launch reads.
  std::vector<unsigned short> found(int iterations) const {
    std::vector<unsigned short> result(z_.size());
    auto const* const last = mixing.z[(iterations + mixing.z_copies - 1) % mixing.z_copies];
    EXPECT_EQ(cudaMemcpy(result.data(), last, bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(first(), result.data(), bytes(), cudaMemcpyHostToDevice), cudaSuccess);
    return result;
  }
  void start_again() const {
    EXPECT_EQ(cudaMemcpy(first(), z_.data(), bytes(), cudaMemcpyHostToDevice), cudaSuccess);
  }

 private:
  std::size_t bytes() const { return z_.size() * sizeof(unsigned short); }
  /// What iteration 0 reads.
  unsigned short* first() const { return mixing.z[mixing.z_copies - 1]; }
  DeviceArray<unsigned short> poisoned() const {
    return device_copy(std::vector<unsigned short>(z_.size(), 0xa5a5));
  }
  std::vector<unsigned short> numbers(int count) {
    std::vector<unsigned short> result(static_cast<std::size_t>(count));
    for (auto& one : result) one = static_cast<unsigned short>(random_());
    return result;
  }
  static void encode(CUtensorMap* map, void const* array, unsigned rank, cuuint64_t const* sizes,
                     cuuint64_t const* strides, cuuint32_t const* box) {
    EXPECT_TRUE(gpu::encode_tensor_map(map, gpu::ElementType::bf16, array, rank, sizes, strides, box,
                                       CU_TENSOR_MAP_L2_PROMOTION_L2_128B));
  }

  std::mt19937 random_;
  std::vector<unsigned short> w_, z_;
  DeviceArray<unsigned short> w_at_, y_at_[k_copies], z_at_[k_copies];
  DeviceArray<CUtensorMap> maps_;
  DeviceArray<Mixing> arguments_;
};

inline RoleOptions options_for(Mixing const& of, int slots, int in_flight, int late_slots) {
  RoleOptions options;
  options.rings.slots = slots;
  options.rings.slot_bytes = of.early_blocks * of.pitch();
  options.rings.in_flight = in_flight;
  options.rings.late_slots = late_slots;
  options.rings.late_slot_bytes = of.late_blocks * k_tokens * 128;
  return options;
}

inline Mixing sizes(int features, int rows, int tokens) {
  Mixing result;
  result.features = features;
  result.rows = rows;
  result.tokens = tokens;
  return result;
}

}  // namespace tessera::role_tiles
