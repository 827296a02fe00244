// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution/conv_launches.hpp"

#include <cstdint>

#include "kernels/common/refusal.hpp"
#include "kernels/convolution/layer_binding.hpp"
#include "kernels/convolution/layer_cut.hpp"

namespace tessera::convolution {
namespace {

constexpr std::size_t k_alignment = 256;

/// Where results of layers lie, and behind all but the last one's the end.
std::vector<std::size_t> places_of(LayerChain const& chain) {
  std::vector<std::size_t> places = {0};
  auto const sizes = sizes_of(chain);
  for (std::size_t l = 0; l + 1 < chain.layers.size(); ++l) {
    auto const bytes = 2 * static_cast<std::size_t>(activation_elements(chain, sizes[l + 1]));
    places.push_back(places.back() + (bytes + k_alignment - 1) / k_alignment * k_alignment);
  }
  return places;
}

}  // namespace

std::size_t scratch_bytes(LayerChain const& chain) { return places_of(chain).back(); }

Expected<ConvLaunches> ConvLaunches::make(LayerChain const& chain, int sms) {
  auto parts = cut_layers(chain, sms);
  if (!parts) return tl::make_unexpected(parts.error());
  ConvLaunches made;
  made.chain_ = chain;
  made.parts_ = std::move(*parts);
  made.places_ = places_of(chain);
  return made;
}

Expected<void> ConvLaunches::run(ConvBuffers const& buffers, void* scratch, cudaStream_t stream) const {
  if (auto ok = check_buffers(chain_, buffers); !ok) return ok;
  std::vector<void const*> activations = {buffers.input};
  for (std::size_t l = 0; l < parts_.size(); ++l) {
    activations.push_back(buffers.layers[l].output);
    if (activations.back() != nullptr) continue;
    if (scratch == nullptr || reinterpret_cast<std::uintptr_t>(scratch) % k_alignment != 0)
      return kernels::refusal("E0567",
                              "the memory that a chain of convolutions is lent is missing or not "
                              "256-byte aligned",
                              "lend scratch_bytes(), at a multiple of 256");
    activations.back() = static_cast<char*>(scratch) + places_[l];
  }
  // All that can be refused is, before anything is enqueued.
  std::vector<ConvLoop> launches;
  for (auto const& part : parts_) {
    auto launch =
        layer_launch(part, chain_, activations, buffers.layers[part.first], nullptr, part.first > 0);
    if (!launch) return tl::make_unexpected(launch.error());
    launches.push_back(std::move(*launch));
  }
  for (auto const& launch : launches)
    if (auto ok = launch.launch(stream); !ok) return ok;
  return {};
}

}  // namespace tessera::convolution
