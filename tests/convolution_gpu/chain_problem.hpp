// SPDX-License-Identifier: Apache-2.0
// A chain of convolutions to be tested: its buffers, and what should come out.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "convolution/chains.hpp"
#include "convolution_gpu/plain_convolution.hpp"
#include "gpu/device_buffer.hpp"
#include "kernels/convolution/conv_chain.hpp"
#include "src/bench/matrices.hpp"

namespace tessera::convolution {

using gpu::DeviceBuffer;
using gpu::ok;
using Numbers = DeviceBuffer<unsigned short>;

/// A rounding is off by up to 2^-11 of an element, or 2^-8; in the mean square by half of it.
inline double allowed_error(ElementType type) { return type == ElementType::fp16 ? 3.5e-4 : 2.8e-3; }

class Problem {
 public:
  Problem(LayerChain const& of, unsigned seed) : chain(of), sizes(sizes_of(of)) {
    for (auto const& size : sizes)
      // Behind each activation a row that nobody may touch.
      activations_.emplace_back(elements(size) + behind);
    fill(activations_.front(), 100 * seed, 1);
    std::size_t most = 0;
    for (std::size_t l = 0; l < of.layers.size(); ++l) {
      auto const depth = filter_elements(sizes[l], of.layers[l]) / of.layers[l].channels;
      fill(filters_.emplace_back(static_cast<std::size_t>(filter_elements(sizes[l], of.layers[l]))),
           100 * seed + 2 * static_cast<unsigned>(l) + 1, std::sqrt(2.0 / static_cast<double>(depth)));
      fill(biases_.emplace_back(static_cast<std::size_t>(of.layers[l].channels)),
           100 * seed + 2 * static_cast<unsigned>(l) + 2, 0.3);
      most = std::max(most, elements(sizes[l + 1]));
    }
    sums_.emplace_back(most);
    start_again();
  }

  LayerChain chain;
  std::vector<ImageSize> sizes;

  ConvBuffers buffers() const {
    ConvBuffers result{activations_.front().get(), {}};
    for (std::size_t l = 0; l < filters_.size(); ++l)
      result.layers.push_back(
          {filters_[l].get(), chain.layers[l].bias ? biases_[l].get() : nullptr, activations_[l + 1].get()});
    return result;
  }
  void start_again() const {
    for (std::size_t l = 1; l < activations_.size(); ++l)
      bench::poison(activations_[l].get(), activations_[l].size(), nullptr);
    bench::poison(activations_.front().get() + elements(sizes.front()), behind, nullptr);
    ok(cudaDeviceSynchronize());
  }
  /// Of a layer against plain arithmetic on what it read.
  double error(std::size_t l) const {
    auto const& layer = chain.layers[l];
    void const* const residual =
        layer.residual < 0 ? nullptr : activations_[static_cast<std::size_t>(layer.residual)].get();
    ok(plain_convolution(chain, l, activations_[l].get(), filters_[l].get(),
                         layer.bias ? biases_[l].get() : nullptr, residual, sums_.front().get(), nullptr));
    return bench::relative_error(activations_[l + 1].get(), sums_.front().get(), elements(sizes[l + 1]),
                                 chain.type, nullptr);
  }
  bool kept_its_bounds() const {
    for (std::size_t l = 0; l < activations_.size(); ++l)
      if (bench::not_poisoned(activations_[l].get() + elements(sizes[l]), behind, nullptr) != 0) return false;
    return true;
  }
  std::vector<unsigned short> result() const { return activations_.back().download(); }
  std::vector<unsigned short> activation(std::size_t number) const { return activations_[number].download(); }
  /// One number of the chain's input.
  void put(std::size_t at, unsigned short bits) const {
    ok(cudaMemcpy(activations_.front().get() + at, &bits, sizeof bits, cudaMemcpyHostToDevice));
  }

 private:
  static constexpr std::size_t behind = 4096;
  std::size_t elements(ImageSize const& size) const {
    return static_cast<std::size_t>(activation_elements(chain, size));
  }
  void fill(Numbers const& array, unsigned seed, double deviation) const {
    bench::fill_random(array.get(), array.size(), chain.type, seed, static_cast<float>(deviation), nullptr);
  }

  std::deque<Numbers> activations_, filters_, biases_;
  std::deque<DeviceBuffer<float>> sums_;
};

/// Two launches from poisoned memory: every layer is right, nothing is written beside, equal bits.
/// Layers in persistent launches, several to one.
inline ConvOptions persistent() {
  ConvOptions options;
  options.by_layer = false;
  return options;
}

inline void expect_right(LayerChain const& chain, ConvOptions const& options = persistent()) {
  Problem const problem(chain, 1);
  auto made = ConvChain::make(chain, problem.buffers(), options);
  ASSERT_OK(made);
  std::string cuts = to_string(chain);
  for (auto const& part : made->launches())
    for (auto const& stage : part.cut.stages) cuts += "; " + to_string(stage.cut);
  SCOPED_TRACE(cuts);
  std::vector<unsigned short> first;
  for (int launch = 0; launch < 2; ++launch) {
    problem.start_again();
    ASSERT_OK(made->run(nullptr));
    ASSERT_OK(made->finish());
    for (std::size_t l = 0; l < chain.layers.size(); ++l)
      ASSERT_LE(problem.error(l), allowed_error(chain.type)) << "layer " << l;
    ASSERT_TRUE(problem.kept_its_bounds());
    if (launch == 0) first = problem.result();
    ASSERT_EQ(problem.result(), first);
  }
}

}  // namespace tessera::convolution
