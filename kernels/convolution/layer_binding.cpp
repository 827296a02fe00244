// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution/layer_binding.hpp"

#include <fmt/format.h>

#include "kernels/common/refusal.hpp"
#include "kernels/convolution/layer_cut.hpp"
#include "kernels/convolution/layer_launch.hpp"
#include "src/gpu/tensor_map.hpp"

namespace tessera::convolution {
namespace {

Expected<void> refused(std::string message, std::string way_out) {
  return refuse({"E0567", Severity::error, {}, std::move(message), {}, std::move(way_out)});
}

bool aligned(void const* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; }

}  // namespace

Expected<void> check_buffers(LayerChain const& chain, ConvBuffers const& b) {
  if (b.layers.size() != chain.layers.size())
    return refused(
        fmt::format("buffers of {} layers for {} convolutions", b.layers.size(), chain.layers.size()),
        "give filters and bias for each");
  if (b.input == nullptr || !aligned(b.input))
    return refused("the input of a chain of convolutions is missing or not 16-byte aligned", "give it");
  for (std::size_t l = 0; l < b.layers.size(); ++l) {
    auto const& one = b.layers[l];
    bool const last = l + 1 == b.layers.size();
    bool const adds_given = chain.layers[l].residual == k_given_residual;
    bool const all = one.filter != nullptr && (one.bias != nullptr) == chain.layers[l].bias &&
                     (one.output != nullptr || !last) && (one.residual != nullptr) == adds_given;
    if (!all || !aligned(one.filter) || !aligned(one.bias) || !aligned(one.output) || !aligned(one.residual))
      return refused(fmt::format("a buffer of layer {} is missing, too many or not 16-byte aligned", l),
                     "give filters, a bias and a residual where the layer has them, and the last layer's "
                     "output");
  }
  return {};
}

bool filter_map(CUtensorMap* map, ElementType type, void const* filter, ConvStage const& s) {
  auto const depth = static_cast<cuuint64_t>(s.chunks) * static_cast<cuuint64_t>(s.cut.splits) * k_chunk;
  auto const taps = static_cast<cuuint64_t>(s.taps());
  cuuint64_t const sizes[] = {depth, static_cast<cuuint64_t>(s.channels), taps};
  cuuint64_t const strides[] = {2 * depth * taps, 2 * depth};
  cuuint32_t const box[] = {k_chunk, static_cast<cuuint32_t>(s.cut.rows()),
                            static_cast<cuuint32_t>(s.cut.taps_per_slot)};
  return gpu::encode_tensor_map(map, type, filter, 3, sizes, strides, box,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
}

bool input_map(CUtensorMap* map, ElementType type, void const* input, ConvStage const& s) {
  auto const channels = static_cast<cuuint64_t>(s.chunks) * static_cast<cuuint64_t>(s.cut.splits) * k_chunk;
  auto const width = static_cast<cuuint64_t>(s.input_width), height = static_cast<cuuint64_t>(s.input_height);
  cuuint64_t const sizes[] = {channels, width, height, static_cast<cuuint64_t>(s.images)};
  cuuint64_t const strides[] = {2 * channels, 2 * channels * width, 2 * channels * width * height};
  cuuint32_t const box[] = {k_chunk, static_cast<cuuint32_t>(s.patch_width()),
                            static_cast<cuuint32_t>(s.patch_height()),
                            static_cast<cuuint32_t>(s.cut.box_images)};
  return gpu::encode_tensor_map(map, type, input, 4, sizes, strides, box, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
}

Diagnostics not_described(std::size_t layer) {
  return refused(fmt::format("the driver cannot describe the memory of layer {}", layer),
                 "see whether the sizes and addresses are right")
      .error();
}

Expected<ConvLoop> layer_launch(ChainPart const& part, LayerChain const& chain,
                                std::vector<void const*> const& activations, LayerBuffers const& buffers,
                                few_tokens::TileTimes* times, bool early) {
  auto stage = part.cut.stages.front();
  stage.output = const_cast<void*>(activations[part.first + 1]);
  stage.bias = buffers.bias;
  stage.residual = buffers.residual;
  stage.times = times;
  if (int const residual = chain.layers[part.first].residual; residual >= 0)
    stage.residual = activations[static_cast<std::size_t>(residual)];
  CUtensorMap filters, pixels;
  if (!filter_map(&filters, chain.type, buffers.filter, stage) ||
      !input_map(&pixels, chain.type, activations[part.first], stage))
    return tl::make_unexpected(not_described(part.first));
  auto const memory = memory_of(stage);
  return chain.type == ElementType::bf16 ? layer_of_bf16(stage, memory, filters, pixels, early)
                                         : layer_of_fp16(stage, memory, filters, pixels, early);
}

}  // namespace tessera::convolution
