// SPDX-License-Identifier: Apache-2.0
// The C interface of kernels/convolution: values are checked here, exceptions end here.
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "kernels/c/answer.hpp"
#include "kernels/common/refusal.hpp"
#include "kernels/convolution/conv_launches.hpp"
#include "kernels/convolution/layer_binding.hpp"
#include "tessera_c.h"
#include "tessera_convolution.h"

using tessera::Expected;
using tessera::c::answer;
using tessera::c::refused;
using tessera::convolution::ConvBuffers;
using tessera::convolution::ConvLaunches;
using tessera::convolution::LayerChain;
using Options = tessera_convolution_options;

struct tessera_convolution {
  explicit tessera_convolution(LayerChain of) : chain(std::move(of)) {}

  /// Cut for the GPU at hand.
  Expected<ConvLaunches const*> launches() {
    int device = 0, sms = 0;
    auto error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    if (error != cudaSuccess) return tessera::kernels::cuda_failed(error, "asking for the number of SMs");
    std::lock_guard const lock(mutex);
    if (auto const found = by_sms.find(sms); found != by_sms.end()) return &found->second;
    auto made = ConvLaunches::make(chain, sms);
    if (!made) return tl::make_unexpected(made.error());
    return &by_sms.emplace(sms, std::move(*made)).first->second;
  }

  LayerChain chain;
  std::mutex mutex;
  std::map<int, ConvLaunches> by_sms;  ///< they stay where they are
};

namespace {

/// Never destroyed: other threads may still call when statics are.
struct All {
  using Key = std::vector<int>;
  std::mutex mutex;
  std::map<Key, tessera_convolution> known;  ///< they stay where they are
};
All& all() {
  static auto& one = *new All;
  return one;
}

Expected<LayerChain> chain_of(Options const* options) {
  if (options == nullptr) return refused("convolution_options is null", "give its address");
  if (options->size != sizeof(Options))
    return refused(
        fmt::format("size is {}, this library's convolution_options has {} bytes", options->size,
                    sizeof(Options)),
        "set it to sizeof(struct tessera_convolution_options), and use the header of this library");
  if (options->type != TESSERA_BF16 && options->type != TESSERA_FP16)
    return refused(fmt::format("type is {}", options->type), "take a value of enum tessera_element_type");
  if (options->layer_count < 1 || options->layers == nullptr)
    return refused(fmt::format("{} layers, or null", options->layer_count),
                   "give as many as layer_count says, one at least");
  LayerChain chain{
      options->images,
      options->height,
      options->width,
      options->channels,
      {},
      options->type == TESSERA_FP16 ? tessera::gpu::ElementType::fp16 : tessera::gpu::ElementType::bf16};
  for (int l = 0; l < options->layer_count; ++l) {
    auto const& one = options->layers[l];
    if (one.residual < -1)
      return refused(fmt::format("layer {} has a residual of {}", l, one.residual),
                     "give the number of an activation, or -1 for none");
    chain.layers.push_back(
        {one.channels, one.kernel, one.stride, one.padding, one.bias != 0, one.relu != 0, one.residual});
  }
  if (auto fine = check_chain(chain); !fine) return tl::make_unexpected(fine.error());
  return chain;
}

All::Key key_of(LayerChain const& chain) {
  All::Key key{chain.images, chain.height, chain.width, chain.channels, static_cast<int>(chain.type)};
  for (auto const& one : chain.layers)
    key.insert(key.end(), {one.channels, one.kernel, one.stride, one.padding, one.bias ? 1 : 0,
                           one.relu ? 1 : 0, one.residual});
  return key;
}

}  // namespace

int tessera_convolution_get(Options const* options, tessera_convolution** chain) {
  return answer([&]() -> Expected<void> {
    if (chain == nullptr) return refused("chain is null", "give the address of a tessera_convolution*");
    auto const asked = chain_of(options);
    if (!asked) return tl::make_unexpected(asked.error());
    std::lock_guard const lock(all().mutex);
    *chain = &all().known.try_emplace(key_of(*asked), *asked).first->second;
    return {};
  });
}

int tessera_convolution_workspace(tessera_convolution* chain, size_t* bytes) {
  return answer([&]() -> Expected<void> {
    if (chain == nullptr) return refused("chain is null", "take what tessera_convolution_get() gives");
    if (bytes == nullptr) return refused("bytes is null", "give the address of a size_t");
    *bytes = tessera::convolution::scratch_bytes(chain->chain);
    return {};
  });
}

int tessera_convolution_run(tessera_convolution* chain, void const* x, void const* const* filters,
                            void const* const* biases, void* y, void* workspace, size_t workspace_bytes,
                            void* stream) {
  return answer([&]() -> Expected<void> {
    if (chain == nullptr) return refused("chain is null", "take what tessera_convolution_get() gives");
    if (filters == nullptr || biases == nullptr)
      return refused("filters or biases are null", "give an address for each layer");
    if (auto const needed = tessera::convolution::scratch_bytes(chain->chain); workspace_bytes < needed)
      return refused(fmt::format("a workspace of {} bytes", workspace_bytes), fmt::format("lend {}", needed));
    ConvBuffers buffers{x, {}};
    auto const& layers = chain->chain.layers;
    for (std::size_t l = 0; l < layers.size(); ++l)
      buffers.layers.push_back(
          {filters[l], layers[l].bias ? biases[l] : nullptr, l + 1 == layers.size() ? y : nullptr});
    if (auto fine = check_buffers(chain->chain, buffers); !fine) return fine;
    auto const launches = chain->launches();
    if (!launches) return tl::make_unexpected(launches.error());
    return (*launches)->run(buffers, workspace, static_cast<cudaStream_t>(stream));
  });
}
