// SPDX-License-Identifier: Apache-2.0
// Operands of an MLP on the GPU and what its result must be.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/common/mlp_reference.hpp"

namespace tessera::mlp {

/// Random operands for up to shape.tokens tokens. A token's result does not depend on the others', so that
/// the reference for all is the reference for fewer.
class Operands {
 public:
  Operands(Shape const& shape, unsigned seed, cudaStream_t stream) : shape_(shape), stream_(stream) {
    auto const tokens = static_cast<std::size_t>(shape.tokens);
    auto const model = static_cast<std::size_t>(shape.model), hidden = static_cast<std::size_t>(shape.hidden);
    std::size_t const up = shape.form == Form::swiglu ? 2 : 1;
    x = random(tokens * model, 10 * seed, 1);
    w1 = random(up * hidden * model, 10 * seed + 1, 1 / std::sqrt(static_cast<float>(model)));
    w2 = random(hidden * model, 10 * seed + 2, 1 / std::sqrt(static_cast<float>(hidden)));
    y = allocate(tokens * model * 2);
    auto* const sums = static_cast<float*>(allocate(up * tokens * hidden * 4));
    auto* const h = allocate(tokens * hidden * 2);
    for (bool const rounds : {false, true}) {
      auto*& reference = references_[rounds ? 1 : 0];
      reference = static_cast<float*>(allocate(tokens * model * 4));
      reference_mlp(shape, {x, w1, h, w2}, sums, nullptr, reference, rounds, stream);
    }
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }
  ~Operands() {
    for (auto* const one : memory_) cudaFree(one);
  }
  Operands(Operands const&) = delete;
  Operands& operator=(Operands const&) = delete;

  void poison_result() const { bench::poison(y, size(shape_.tokens), stream_); }
  /// Of the first tokens' results. Some ways to compute SwiGLU round gate and up first: the nearer reference.
  double error(int tokens) const {
    double const exact = bench::relative_error(y, references_[0], size(tokens), shape_.type, stream_);
    return shape_.form == Form::gelu ? exact
                                     : std::fmin(exact, bench::relative_error(y, references_[1], size(tokens),
                                                                              shape_.type, stream_));
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
  void* allocate(std::size_t bytes) {
    void* made = nullptr;
    EXPECT_EQ(cudaMalloc(&made, bytes), cudaSuccess);
    memory_.push_back(made);
    return made;
  }
  void* random(std::size_t count, unsigned long long seed, float deviation) {
    void* const made = allocate(count * 2);
    bench::fill_random(made, count, shape_.type, seed, deviation, stream_);
    return made;
  }

  Shape shape_;
  cudaStream_t stream_;
  float* references_[2] = {};
  std::vector<void*> memory_;
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
