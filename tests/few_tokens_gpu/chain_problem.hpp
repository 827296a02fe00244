// SPDX-License-Identifier: Apache-2.0
// A chain of MLPs to be tested: its buffers, and what should come out.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "gpu/device_buffer.hpp"
#include "kernels/common/mlp_reference.hpp"
#include "kernels/few_tokens/mlp_chain.hpp"
#include "support/assert_ok.hpp"

namespace tessera::few_tokens {

using gpu::DeviceBuffer;
using gpu::ok;
using mlp::ElementType;
using mlp::Form;
using Numbers = DeviceBuffer<unsigned short>;

inline std::size_t size(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

/// A rounding to bf16 is off by up to 2^-8 of an element. Over a thousand elements that is 1.65e-3 in the
/// mean square; over fewer the largest decide.
inline double allowed_error(mlp::Shape const& shape) {
  return shape.tokens * shape.model < 1000 ? 1.0 / 256 : 2e-3;
}

/// Weights of three MLPs and a chain's buffers, with a row behind each that nobody may touch.
class Problem {
 public:
  static constexpr int mlps = 3;

  Problem(mlp::Shape const& of, unsigned seed)
      : shape(of),
        input_(size(of.tokens, of.model)),
        rounded_(size(of.tokens, of.hidden)),
        sums_(size(of.tokens, of.hidden) * 2),
        reference_(size(of.tokens, of.model)),
        h_(size(of.tokens + 1, of.hidden)) {
    bool const gated = of.form == Form::swiglu;
    for (unsigned i = 0; i < mlps; ++i) {
      fill(weights_.emplace_back(size(of.model, of.hidden) * (gated ? 2 : 1)), 10 * seed + 2 * i,
           1 / std::sqrt(double(of.model)));
      // What comes out is about as large as what goes in. (SwiGLU squares what is off.)
      fill(weights_.emplace_back(size(of.model, of.hidden)), 10 * seed + 2 * i + 1,
           (gated ? 1.67 : 1.7) / std::sqrt(double(of.hidden)));
    }
    fill(input_, 10 * seed + 9, 1);
    for (int i = 0; i < 2; ++i) x_.emplace_back(size(of.tokens + 1, of.model));
    start_again();
  }

  mlp::Shape shape;

  MlpChainBuffers buffers() const {
    MlpChainBuffers result;
    result.x[0] = x_[0].get(), result.x[1] = x_[1].get();
    result.h = h_.get();
    for (std::size_t i = 0; i < weights_.size(); i += 2)
      result.weights.push_back({weights_[i].get(), weights_[i + 1].get()});
    return result;
  }
  void start_again() const {
    for (auto const* array : {&x_[0], &x_[1], &h_}) bench::poison(array->get(), array->size(), nullptr);
    ok(cudaMemcpy(x_[1].get(), input_.get(), input_.size() * 2, cudaMemcpyDeviceToDevice));
    ok(cudaDeviceSynchronize());
  }
  /// What a launch of so many MLPs has written last, and what its last MLP has read.
  std::vector<unsigned short> result(int launched) const { return numbers(x_[launched % 2 == 0 ? 1 : 0]); }
  std::vector<unsigned short> last_input(int launched) const {
    return numbers(x_[launched % 2 == 0 ? 0 : 1]);
  }
  /// Of the last MLP against plain arithmetic on what it read.
  double error(int launched) const {
    auto const& from = x_[launched % 2 == 0 ? 0 : 1];
    auto const& to = x_[launched % 2 == 0 ? 1 : 0];
    auto const w = static_cast<std::size_t>((launched - 1) % mlps * 2);
    mlp::reference_mlp(shape, {from.get(), weights_[w].get(), rounded_.get(), weights_[w + 1].get(), nullptr},
                       sums_.get(), nullptr, reference_.get(), false, nullptr);
    return bench::relative_error(to.get(), reference_.get(), input_.size(), shape.type, nullptr);
  }
  bool kept_its_bounds() const {
    auto const untouched = [](Numbers const& array, int columns) {
      auto const row = static_cast<std::size_t>(columns);
      return bench::not_poisoned(array.get() + array.size() - row, row, nullptr) == 0;
    };
    return untouched(x_[0], shape.model) && untouched(x_[1], shape.model) && untouched(h_, shape.hidden);
  }

 private:
  void fill(Numbers const& array, unsigned seed, double deviation) const {
    bench::fill_random(array.get(), array.size(), shape.type, seed, static_cast<float>(deviation), nullptr);
  }
  std::vector<unsigned short> numbers(Numbers const& array) const {
    auto all = array.download();
    all.resize(input_.size());
    return all;
  }

  std::deque<Numbers> weights_, x_;
  Numbers input_, rounded_;
  DeviceBuffer<float> sums_, reference_;
  Numbers h_;
};

}  // namespace tessera::few_tokens
