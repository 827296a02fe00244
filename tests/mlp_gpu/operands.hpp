// SPDX-License-Identifier: Apache-2.0
// Operands of an MLP on the GPU and what its result must be.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/mlp/measure/reference.hpp"
#include "kernels/mlp/problem.hpp"

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
    auto* const wide = static_cast<float*>(allocate(up * tokens * hidden * 4));
    auto* const h = static_cast<float*>(allocate(tokens * hidden * 4));
    auto* const rounded = allocate(tokens * hidden * 2);
    reference_gemm(x, w1, wide, shape.tokens, static_cast<int>(up) * shape.hidden, shape.model, shape.type,
                   stream);
    for (bool const rounds : {false, true}) {
      auto*& reference = references_[rounds ? 1 : 0];
      reference = static_cast<float*>(allocate(tokens * model * 4));
      reference_activation(wide, h, shape.tokens, shape.hidden, shape.form, shape.type, rounds, stream);
      round_to(h, rounded, tokens * hidden, shape.type, stream);
      reference_gemm(rounded, w2, reference, shape.tokens, shape.model, shape.hidden, shape.type, stream);
    }
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }
  ~Operands() {
    for (auto* const one : memory_) cudaFree(one);
  }
  Operands(Operands const&) = delete;
  Operands& operator=(Operands const&) = delete;

  void poison_result() const { poison(y, size(shape_.tokens), stream_); }
  /// Of the first tokens' results. Some ways to compute SwiGLU round gate and up first: the nearer reference.
  double error(int tokens) const {
    double const exact = relative_error(y, references_[0], size(tokens), shape_.type, stream_);
    return shape_.form == Form::gelu
               ? exact
               : std::fmin(exact, relative_error(y, references_[1], size(tokens), shape_.type, stream_));
  }
  /// Was anything written after the first tokens' results?
  bool rest_is_untouched(int tokens) const {
    std::vector<unsigned short> rest(size(shape_.tokens) - size(tokens));
    EXPECT_EQ(cudaMemcpy(rest.data(), static_cast<unsigned short const*>(y) + size(tokens), rest.size() * 2,
                         cudaMemcpyDeviceToHost),
              cudaSuccess);
    for (auto const one : rest)
      if (one != 0xffff) return false;
    return true;
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
    fill_random(made, count, shape_.type, seed, deviation, stream_);
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
