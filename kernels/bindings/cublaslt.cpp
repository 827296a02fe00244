// SPDX-License-Identifier: Apache-2.0
// cuBLASLt: a product as one stage of one tile, in stream order. A variant is one of the library's
// algorithms; without one, what its heuristic puts first. A gate is a kernel of its own behind the product.
#include <fmt/format.h>

#include <memory>

#include "families.hpp"
#include "kernels/common/refusal.hpp"
#include "kernels/cublaslt/gemm.hpp"
#include "kernels/swiglu/swiglu.hpp"

namespace tessera {
namespace {

using cublaslt::LtGemm;

gpu::ElementType type_of(Tensor const& tensor) {
  return tensor.type == ElementType::fp16 ? gpu::ElementType::fp16 : gpu::ElementType::bf16;
}

/// A stage's product and where its operands are. `added`: nothing, or what it adds to the product.
struct Product {
  cublaslt::LtProblem problem;
  Tensor a, b, d;
  bool gated = false;
  void const* added = nullptr;
};

/// What is added: E0560 unless it and the product are matrices of fp32 of the same sizes.
Expected<void const*> residual_of(BindRequest const& request, Tensor const& d) {
  auto const residual = tensor_of(request, 0, "residual");
  if (!residual) return tl::make_unexpected(residual.error());
  for (auto const* tensor : {&*residual, &d})
    if (tensor->type != ElementType::fp32 || tensor->rows != d.rows || tensor->columns != d.columns ||
        tensor->batch != 1 || tensor->stride() != d.columns)
      return tl::make_unexpected(
          cannot_bind(request, 0, "the residual",
                      fmt::format("it adds {} x {} of fp32 to as many, and not {} x {} of {} to {}", d.rows,
                                  d.columns, residual->rows, residual->columns, to_text(residual->type),
                                  to_text(d.type)),
                      "let the residual and the output be fp32 of one size")
              .error());
  return residual->data;
}

Expected<Product> product_of(BindRequest const& request) {
  auto const refused = [&](char const* field, std::string const& why, char const* way_out) {
    return tl::make_unexpected(cannot_bind(request, 0, field, why, way_out).error());
  };
  auto const& stage = request.stage();
  if (request.planned().start != LaunchStart::in_order || request.planned().workers > 0)
    return refused("the launch", "the library's kernels start when all before them is complete",
                   "let the launch start in order");
  if (stage.blocks() != 1)
    return refused("the grid", "it cuts its output itself", "plan its stage as one tile");
  bool const adds = stage.activation == to_text(Epilogue::residual);
  if (!stage.activation.empty() && !adds && stage.activation != "gelu" && stage.activation != "swiglu")
    return refused("the epilogue", fmt::format("it has no {}", stage.activation), "take another kernel");
  auto const a = tensor_of(request, 0, "a"), b = tensor_of(request, 0, "b"), d = tensor_of(request, 0, "");
  for (auto const* tensor : {&a, &b, &d}) {
    if (!*tensor) return tl::make_unexpected(tensor->error());
    if ((*tensor)->batch != 1 || (*tensor)->stride() != (*tensor)->columns)
      return refused("operands", "it takes one matrix without gaps between its rows",
                     "give the kernel matrices of their own");
  }
  Product product{{}, *a, *b, *d, stage.activation == "swiglu", nullptr};
  auto const columns = product.gated ? 2 * d->columns : d->columns;
  if (a->rows != d->rows || a->columns != b->columns || columns != b->rows)
    return refused("operands",
                   fmt::format("{} x {} times the transpose of {} x {} is not {} x {}", a->rows, a->columns,
                               b->rows, b->columns, d->rows, columns),
                   "let b have a row for each column of the product");
  product.problem.rows = static_cast<int>(d->rows);
  product.problem.columns = static_cast<int>(columns);
  product.problem.depth = static_cast<int>(a->columns);
  product.problem.type = type_of(*a);
  product.problem.gelu = stage.activation == "gelu";
  product.problem.wide = adds;
  if (adds) {
    auto const added = residual_of(request, *d);
    if (!added) return tl::make_unexpected(added.error());
    product.added = *added;
  }
  return product;
}

Expected<cublaslt::LtAlgorithm> algorithm_of(BindRequest const& request, LtGemm const& gemm) {
  auto const& variant = request.stage_plan().variant;
  if (variant.empty()) return gemm.algorithms().front();
  auto const algorithm = cublaslt::lt_algorithm(variant);
  if (!algorithm || !gemm.supports(*algorithm))
    return tl::make_unexpected(
        cannot_bind(
            request, 0, "variant",
            fmt::format("\"{}\" is no algorithm of this version of the library for these sizes", variant),
            "leave the variant out, or tune again")
            .error());
  return *algorithm;
}

}  // namespace

Expected<StageKernel> bind_cublaslt(BindRequest const& request) {
  auto const product = product_of(request);
  if (!product) return tl::make_unexpected(product.error());
  auto const gemm = LtGemm::make(product->problem);
  if (!gemm) return tl::make_unexpected(gemm.error());
  auto const algorithm = algorithm_of(request, **gemm);
  if (!algorithm) return tl::make_unexpected(algorithm.error());
  auto const bytes = (*gemm)->workspace_of(*algorithm).value_or(cublaslt::workspace_bytes);
  auto workspace = request.scratch.get("cublaslt", bytes);
  if (!workspace) return tl::make_unexpected(workspace.error());
  StageKernel kernel;
  auto const multiply = [gemm = *gemm, algorithm = *algorithm, workspace = *workspace, bytes,
                         a = product->a.data, b = product->b.data,
                         added = product->added](void* d, GpuStream stream) {
    auto* const own = workspace.get();
    return static_cast<int>(added == nullptr
                                ? gemm->run(algorithm, a, b, d, own, bytes, stream)
                                : gemm->run_adding(algorithm, a, b, added, d, own, bytes, stream));
  };
  if (!product->gated) {
    kernel.enqueue = [multiply, d = product->d.data](ChainViews const&, GpuStream stream, bool) {
      return multiply(d, stream);
    };
    return kernel;
  }
  auto const& problem = product->problem;
  auto gate_up = request.scratch.get(
      "gate_up", 2 * static_cast<std::size_t>(problem.rows) * static_cast<std::size_t>(problem.columns));
  if (!gate_up) return tl::make_unexpected(gate_up.error());
  kernel.enqueue = [multiply, problem, gate_up = *gate_up, d = product->d.data](ChainViews const&,
                                                                                GpuStream stream, bool) {
    int const error = multiply(gate_up.get(), stream);
    return error != 0 ? error
                      : static_cast<int>(kernels::swiglu(gate_up.get(), d, problem.rows, problem.columns / 2,
                                                         problem.type, stream));
  };
  return kernel;
}

std::vector<std::string> variants_of_cublaslt(BindRequest const& request) {
  std::vector<std::string> words;
  auto const product = product_of(request);
  if (!product) return words;
  auto const gemm = LtGemm::make(product->problem);
  if (!gemm) return words;
  for (auto const& algorithm : (*gemm)->algorithms()) words.push_back(cublaslt::lt_name(algorithm));
  return words;
}

}  // namespace tessera
