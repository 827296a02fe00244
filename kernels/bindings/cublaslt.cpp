// SPDX-License-Identifier: Apache-2.0
// cuBLASLt: a product as one stage of one tile, in stream order, by the algorithm that the library's
// heuristic puts first.
#include "kernels/mlp/cublaslt.hpp"

#include <fmt/format.h>

#include <memory>

#include "families.hpp"
#include "kernels/mlp/candidate.hpp"
#include "memory.hpp"

namespace tessera {

Expected<StageKernel> bind_cublaslt(BindRequest const& request) {
  auto const& stage = request.stage();
  if (request.planned().start != LaunchStart::in_order || request.planned().workers > 0)
    return cannot_bind(request, 0, "the launch",
                       "the library's kernels start when all before them is complete",
                       "let the launch start in order");
  if (stage.blocks() != 1)
    return cannot_bind(request, 0, "the grid", "it cuts its output itself", "plan its stage as one tile");
  if (!stage.activation.empty() && stage.activation != "gelu")
    return cannot_bind(request, 0, "the epilogue", fmt::format("it has no {}", stage.activation),
                       "take another kernel");
  auto const a = tensor_of(request, 0, "a"), b = tensor_of(request, 0, "b"), d = tensor_of(request, 0, "");
  for (auto const* tensor : {&a, &b, &d}) {
    if (!*tensor) return tl::make_unexpected(tensor->error());
    if ((*tensor)->batch != 1 || (*tensor)->stride() != (*tensor)->columns)
      return cannot_bind(request, 0, "operands", "it takes one matrix without gaps between its rows",
                         "give the kernel matrices of their own");
  }
  if (a->rows != d->rows || a->columns != b->columns || d->columns != b->rows)
    return cannot_bind(request, 0, "operands",
                       fmt::format("{} x {} times the transpose of {} x {} is not {} x {}", a->rows,
                                   a->columns, b->rows, b->columns, d->rows, d->columns),
                       "let b have a row for each column of the product");
  mlp::LtProblem problem;
  problem.rows = static_cast<int>(d->rows);
  problem.columns = static_cast<int>(d->columns);
  problem.depth = static_cast<int>(a->columns);
  problem.type = d->type == ElementType::fp16 ? mlp::ElementType::fp16 : mlp::ElementType::bf16;
  problem.gelu = stage.activation == "gelu";
  auto product = mlp::LtGemm::make(problem);
  if (!product) return tl::make_unexpected(product.error());
  auto workspace = kernels::zeroed(mlp::library_bytes);
  if (!workspace) return tl::make_unexpected(workspace.error());
  StageKernel kernel;
  kernel.enqueue = [product = *product, workspace = *workspace, a = a->data, b = b->data, d = d->data](
                       ChainViews const&, GpuStream stream, bool) {
    return static_cast<int>(product->run(product->algorithms().front(), a, b, d, workspace.get(), stream));
  };
  return kernel;
}

}  // namespace tessera
