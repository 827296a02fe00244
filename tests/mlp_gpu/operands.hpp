// SPDX-License-Identifier: Apache-2.0
// Operands of an MLP on the GPU and what its result must be.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/common/mlp_reference.hpp"
#include "src/bench/operand_sets.hpp"

namespace tessera::mlp {

/// Random operands for up to shape.tokens tokens. A token's result does not depend on the others', so that
/// the reference for all is the reference for fewer.
class Operands {
 public:
  Operands(Shape const& shape, unsigned seed, cudaStream_t stream) : shape_(shape), stream_(stream) {
    auto const model = static_cast<std::size_t>(shape.model), hidden = static_cast<std::size_t>(shape.hidden);
    std::size_t const h_size = static_cast<std::size_t>(shape.tokens) * hidden, y_size = size(shape.tokens);
    std::size_t const up = shape.form == Form::swiglu ? 2 : 1;
    auto const random = [&](unsigned number, std::size_t summands) {
      return bench::random_numbers(shape.type, 10 * seed + number, 1 / std::sqrt(double(summands)));
    };
    EXPECT_EQ(memory_.make({{"x", y_size * 2, random(0, 1)},
                            {"w1", up * hidden * model * 2, random(1, model)},
                            {"w2", hidden * model * 2, random(2, hidden)},
                            {"y", y_size * 2},
                            {"h", h_size * 2},
                            {"sums", up * h_size * 4},
                            {"reference", y_size * 4},
                            {"reference of rounded", y_size * 4}},
                           1, stream),
              cudaSuccess);
    x = memory_.at("x");
    w1 = memory_.at("w1");
    w2 = memory_.at("w2");
    y = memory_.at("y");
    for (bool const rounds : {false, true})
      reference_mlp(shape, {x, w1, memory_.at("h"), w2}, memory_.as<float>("sums"), nullptr,
                    reference(rounds), rounds, stream);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }

  void poison_result() const { bench::poison(y, size(shape_.tokens), stream_); }
  /// Of the first tokens' results. Some ways to compute SwiGLU round gate and up first: the nearer reference.
  double error(int tokens) const {
    double const exact = bench::relative_error(y, reference(false), size(tokens), shape_.type, stream_);
    return shape_.form == Form::gelu
               ? exact
               : std::fmin(exact,
                           bench::relative_error(y, reference(true), size(tokens), shape_.type, stream_));
  }
  /// Was anything written after the first tokens' results?
  bool rest_is_untouched(int tokens) const {
    std::size_t const written = size(tokens);
    return bench::not_poisoned(static_cast<unsigned short const*>(y) + written, size(shape_.tokens) - written,
                               stream_) == 0;
  }

  void* x = nullptr;
  void* w1 = nullptr;
  void* w2 = nullptr;
  void* y = nullptr;

 private:
  std::size_t size(int tokens) const {
    return static_cast<std::size_t>(tokens) * static_cast<std::size_t>(shape_.model);
  }
  float* reference(bool rounds) const {
    return memory_.as<float>(rounds ? "reference of rounded" : "reference");
  }

  Shape shape_;
  cudaStream_t stream_;
  bench::OperandSets memory_;
};

struct Stream {
  cudaStream_t stream = nullptr;
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess); }
  ~Stream() { cudaStreamDestroy(stream); }
  Stream(Stream const&) = delete;
  Stream& operator=(Stream const&) = delete;
  operator cudaStream_t() const { return stream; }
};

}  // namespace tessera::mlp
