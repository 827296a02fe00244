// SPDX-License-Identifier: Apache-2.0
// A small decoder on the GPU, held to the plain one step by step.
#pragma once

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <thread>

#include "decode_gpu/small_decoder.hpp"

namespace tessera::decode {

struct Setting {
  Model model = reference::small_model();
  std::vector<std::vector<int>> prompts = {{5, 17, 300}};
  int steps = 12;  ///< behind the longest prompt
  /// A reference in bf16 may be right by luck for one of many sequences: that one may be off by twice what
  /// they are on average.
  bool beside_mean = false;
  int prompt_rows = 1;
  StepBy by = StepBy::persistent;
  ProductsOf products_of = ProductsOf::all;
  std::vector<LayerOperator> by_library;
  Cut cut = {};
  bool head_starts_early = false;
  int page = 0;  ///< positions of a page; 0: no pages
};

/// A table of pages that are dealt out backwards, some to nobody.
class Paging {
 public:
  Paging(int batch, int capacity, int page) {
    if (page == 0) return;
    constexpr int spare = 2;
    int const all = batch * pages_of(capacity, page);
    for (int i = all; i > 0; --i) numbers.push_back(i + spare - 1);
    table_.emplace_back(numbers.size()).upload(numbers);
    paged.positions = page, paged.pages = all + spare, paged.table = table_.front().get();
  }
  void upload() { table_.front().upload(numbers); }

  PagedCache paged;
  std::vector<int> numbers;

 private:
  std::deque<gpu::DeviceBuffer<int>> table_;
};

inline int capacity_of(Setting const& s) {
  std::size_t longest = 0;
  for (auto const& prompt : s.prompts) longest = std::max(longest, prompt.size());
  return static_cast<int>(longest) + s.steps + 3;
}

/// `work(i)` for each i below `count`, by a thread for each processor.
template <class Work>
void each_of(std::size_t count, Work const& work) {
  if (count == 0) return;
  std::size_t const threads = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, count);
  std::vector<std::jthread> all;
  for (std::size_t t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      for (std::size_t i = t; i < count; i += threads) work(i);
    });
}

/// The plain decoders read what the GPU's has read, so that a near tie does not part them.
inline void check(Setting const& s) {
  reference::Weights const weights(s.model, 3);
  WeightsOnDevice const on_device(weights);
  Options options;
  options.batch = static_cast<int>(s.prompts.size());
  options.capacity = capacity_of(s);
  options.prompt_rows = s.prompt_rows;
  options.cut = s.cut;
  options.steps = s.by, options.products_of = s.products_of, options.by_library = s.by_library;
  options.keep_logits = true;
  options.head_starts_early = s.head_starts_early;
  Paging const paging(options.batch, options.capacity, s.page);
  options.paged = paging.paged;
  auto decoder = Decoder::make(s.model, on_device.weights, options, nullptr);
  ASSERT_OK(decoder);
  gpu::ok(cudaDeviceSynchronize());
  cudaStream_t stream;
  gpu::ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  ASSERT_OK(decoder->prefill(stream, s.prompts));
  using reference::Numbers;
  using reference::Precision;
  std::vector<reference::Sequence> exact, rounding;
  for (std::size_t i = 0; i < s.prompts.size(); ++i) {
    exact.emplace_back(weights, Precision::fp32, options.capacity);
    rounding.emplace_back(weights, Precision::bf16, options.capacity);
  }
  std::vector<std::size_t> read(s.prompts.size());
  double most = 0, usual = 0;
  for (int step = 0; step <= s.steps; ++step) {
    ASSERT_OK(decoder->decode(stream, step > 0 ? 1 : 0));
    auto const tokens = decoder->tokens();
    ASSERT_OK(tokens);
    auto const found = logits_of(*decoder, s.model, options.batch);
    for (std::size_t i = 0; i < s.prompts.size(); ++i) {
      auto const& all = (*tokens)[i];
      for (std::size_t p = 0; p < std::min(all.size(), s.prompts[i].size()); ++p)
        ASSERT_EQ(all[p], s.prompts[i][p]) << "a prompt was overwritten";
    }
    std::vector<double> errors(s.prompts.size()), of_bf16(s.prompts.size());
    each_of(s.prompts.size(), [&](std::size_t i) {
      auto const& all = (*tokens)[i];
      Numbers expected, as_bf16;
      for (; read[i] + 1 < all.size(); ++read[i]) {
        expected = exact[i].step(all[read[i]]);
        as_bf16 = rounding[i].step(all[read[i]]);
      }
      errors[i] = reference::relative_error(found[i], expected);
      of_bf16[i] = reference::relative_error(as_bf16, expected);
    });
    for (std::size_t i = 0; i < s.prompts.size(); ++i) {
      auto const& all = (*tokens)[i];
      // The next token is the GPU's own most likely one.
      if (all.size() > s.prompts[i].size()) {
        ASSERT_EQ(all.back(), reference::most_likely(found[i])) << "step " << step << ", sequence " << i;
      }
    }
    double const mean = s.beside_mean ? std::accumulate(of_bf16.begin(), of_bf16.end(), 0.0) /
                                            static_cast<double>(of_bf16.size())
                                      : 0;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      ASSERT_LE(errors[i], 2 * std::max(of_bf16[i], mean) + 2e-3)
          << "step " << step << ", sequence " << i << ", bf16 is off by " << of_bf16[i] << ", by " << mean
          << " on average";
      most = std::max(most, errors[i]), usual = std::max(usual, of_bf16[i]);
    }
  }
  std::printf("  off by %.2e at most, bf16 by %.2e\n", most, usual);
  gpu::ok(cudaStreamDestroy(stream));
}

}  // namespace tessera::decode
