// SPDX-License-Identifier: Apache-2.0
// Products of few rows, a launch each. It is launched early or in stream order, loads its weights at once,
// and waits for all before it as a whole. A variant is a way to cut the work, cut_name().
#include "kernels/skinny_gemm_sm90/skinny_gemm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "families.hpp"
#include "kernels/common/refusal.hpp"
#include "whole_waits.hpp"

namespace tessera {
namespace {

skinny_gemm::Result result_of(std::string const& activation) {
  if (activation == to_text(Epilogue::gelu)) return skinny_gemm::Result::gelu;
  if (activation == to_text(Epilogue::swiglu)) return skinny_gemm::Result::gated;
  return activation == to_text(Epilogue::residual) ? skinny_gemm::Result::added : skinny_gemm::Result::bf16;
}

struct Product {
  skinny_gemm::Problem problem;
  skinny_gemm::Operands operands;
};

/// Weights are read before anything is waited for.
Expected<void> read_weights(BindRequest const& request) {
  for (auto const& dependence : request.plan.pipeline.dependences)
    if (dependence.consumer == request.stage_index() && dependence.operand == "b")
      return refused(
          request, "operand \"b\"",
          fmt::format("it is read early, and {} makes it",
                      request.plan.pipeline.stages[static_cast<std::size_t>(dependence.producer)].name),
          "let it come from outside, or take another kernel");
  return {};
}

Expected<Product> product_of(BindRequest const& request) {
  auto const a = tensor_of(request, 0, "a"), b = tensor_of(request, 0, "b"), d = tensor_of(request, 0, "");
  for (auto const* tensor : {&a, &b, &d}) {
    if (!*tensor) return tl::make_unexpected(tensor->error());
    if ((*tensor)->batch != 1 || (*tensor)->stride() != (*tensor)->columns)
      return refused(request, "operands", "it takes one matrix without gaps between its rows",
                     "give the kernel matrices of their own");
  }
  Product product;
  auto& [problem, operands] = product;
  problem.result = result_of(request.stage().activation);
  problem.rows = static_cast<int>(a->rows);
  problem.columns = static_cast<int>(b->rows);
  problem.depth = static_cast<int>(b->columns);
  bool const gated = problem.result == skinny_gemm::Result::gated;
  bool const added = problem.result == skinny_gemm::Result::added;
  auto const type = added ? ElementType::fp32 : ElementType::bf16;
  if (a->type != ElementType::bf16 || b->type != ElementType::bf16 || d->type != type ||
      a->columns != problem.depth || d->rows != problem.rows ||
      d->columns != problem.columns / (gated ? 2 : 1))
    return refused(request, "operands",
                   fmt::format("{} x {} and {} x {} make no {} x {} of {}", a->rows, a->columns, b->rows,
                               b->columns, d->rows, d->columns, to_text(d->type)),
                   "give it matrices of bf16 that can be multiplied");
  operands.input = a->data, operands.weights = b->data, operands.to = d->data;
  if (added) {
    auto const residual = tensor_of(request, 0, "residual");
    if (!residual) return tl::make_unexpected(residual.error());
    if (residual->type != ElementType::fp32 || residual->rows != d->rows || residual->columns != d->columns ||
        residual->stride() != d->columns)
      return refused(request, "residual", "it is no matrix of fp32 of the output's size",
                     "give a matrix of its own");
    operands.from = static_cast<float const*>(residual->data);
  }
  if (!skinny_gemm::supports(problem) || problem.rows > request.kernel().most_rows ||
      !skinny_gemm::takes(problem, operands))
    return refused(request, "the size",
                   fmt::format("it is not compiled for {} rows of {} columns and a depth of {}, or their "
                               "addresses are no multiples of 16 bytes",
                               problem.rows, problem.columns, problem.depth),
                   "take another kernel");
  return product;
}

int sms_here() {
  int device = 0, sms = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  (void)cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  return sms;
}

/// Without a measurement: the cut with which the busiest SM is done first, of these the one with the largest
/// ring. Where a cluster adds up sums, and where an SM has several blocks one after the other, it waits. Rows
/// of the input come from the L2 cache. Within 21 % of the fastest cut, 5 % on average, at the 16 products of
/// results/h200/decode_products.json, to which the three numbers were fitted.
std::optional<skinny_gemm::Config> first_guess(skinny_gemm::Problem const& problem, int sms) {
  constexpr double k_sm_bytes_per_us = 36e3, k_cluster_us = 3, k_wave_us = 1.5, k_input_share = 0.1;
  constexpr int k_least_rows = 8;
  auto const us = [&](skinny_gemm::Config const& c) {
    int const waves = (skinny_gemm::blocks_of(problem, c) + sms - 1) / sms;
    double const rows = c.columns + k_input_share * std::max(problem.rows, k_least_rows);
    double const load = rows * problem.depth * 2 / c.split / k_sm_bytes_per_us;
    return waves * (load + k_wave_us) + (c.split > 2 ? 1.5 : c.split > 1 ? 1 : 0) * k_cluster_us;
  };
  auto const ring = [](skinny_gemm::Config const& c) { return c.stages * c.stage_depth; };
  auto const all = skinny_gemm::configs(problem, sms);
  auto const least = std::min_element(all.begin(), all.end(), [&](auto const& one, auto const& other) {
    return std::pair(us(one), -ring(one)) < std::pair(us(other), -ring(other));
  });
  return least == all.end() ? std::nullopt : std::optional(*least);
}

}  // namespace

Expected<StageKernel> bind_skinny_gemm(BindRequest const& request) {
  if (auto fine = only_whole_waits(request); !fine) return tl::make_unexpected(fine.error());
  if (auto fine = read_weights(request); !fine) return tl::make_unexpected(fine.error());
  auto const product = product_of(request);
  if (!product) return tl::make_unexpected(product.error());
  auto const& variant = request.stage_plan().variant;
  auto const sms = sms_here();
  auto const cut = variant.empty() ? first_guess(product->problem, sms) : skinny_gemm::parse_cut(variant);
  if (!variant.empty() && (!cut || !skinny_gemm::allows(product->problem, *cut)))
    return refused(request, "variant", fmt::format("it has no cut \"{}\" of this product", variant),
                   "leave the variant out, or tune again");
  auto const error = sms > 0 ? skinny_gemm::load() : cudaErrorNoDevice;
  if (error != cudaSuccess || !cut) return kernels::cuda_failed(error, "loading products of few rows");
  StageKernel kernel;
  kernel.chains = true;
  kernel.enqueue = [product = *product, cut = *cut](ChainViews const&, GpuStream stream, bool early) {
    return static_cast<int>(skinny_gemm::launch(product.problem, cut, product.operands, stream, early));
  };
  return kernel;
}

std::vector<std::string> variants_of_skinny_gemm(BindRequest const& request) {
  std::vector<std::string> words;
  auto const product = product_of(request);
  auto const sms = sms_here();
  if (!product || sms == 0) return words;
  for (auto const& cut : skinny_gemm::configs(product->problem, sms))
    words.push_back(skinny_gemm::cut_name(cut));
  return words;
}

}  // namespace tessera
