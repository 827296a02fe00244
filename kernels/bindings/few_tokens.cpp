// SPDX-License-Identifier: Apache-2.0
// Products with few rows: both of an MLP, in one persistent launch. The order of its units of work and its
// semaphores are the kernel's own; of the plan it takes the stages and the number of workers. A variant is a
// way to cut the work, skinny_sm90::Config.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "families.hpp"
#include "kernels/common/refusal.hpp"
#include "kernels/skinny_mlp_sm90/skinny.hpp"

namespace tessera {
namespace {

/// The shape of the two products, if they are an MLP's.
Expected<mlp::Shape> shape_of(BindRequest const& request, mlp::Buffers& buffers) {
  auto const refused = [&](int index, char const* field, char const* why, char const* way_out) {
    return tl::make_unexpected(cannot_bind(request, index, field, why, way_out).error());
  };
  auto const& launch = request.planned();
  if (launch.stages != 2 || launch.workers == 0)
    return refused(0, "the launch", "it computes two products, one after the other, in one persistent launch",
                   "plan both stages as one launch with workers");
  if (launch.start == LaunchStart::beside)
    return refused(0, "the launch", "its blocks do not announce that they have started",
                   "let the launch start early or in order");
  auto const& first = request.stage(0);
  if (first.activation != "gelu" && first.activation != "swiglu")
    return refused(0, "the epilogue", "its first product has gelu or swiglu", "take another kernel");
  if (!request.stage(1).activation.empty())
    return refused(1, "the epilogue", "its second product has none", "take another kernel");
  Expected<Tensor> const tensors[] = {tensor_of(request, 0, "a"), tensor_of(request, 0, "b"),
                                      tensor_of(request, 0, ""),  tensor_of(request, 1, "a"),
                                      tensor_of(request, 1, "b"), tensor_of(request, 1, "")};
  for (auto const& tensor : tensors) {
    if (!tensor) return tl::make_unexpected(tensor.error());
    if (tensor->batch != 1 || tensor->stride() != tensor->columns)
      return refused(0, "operands", "it takes one matrix without gaps between its rows",
                     "give the kernel matrices of their own");
  }
  auto const &x = *tensors[0], &w1 = *tensors[1], &h = *tensors[2], &w2 = *tensors[4], &y = *tensors[5];
  int const per_feature = first.activation == "swiglu" ? 2 : 1;
  if (tensors[3]->data != h.data || w1.rows != per_feature * h.columns || w1.columns != x.columns ||
      w2.columns != h.columns || w2.rows != y.columns || y.columns != x.columns || y.rows != x.rows)
    return refused(0, "operands", "the two products are no MLP", "let the second read what the first writes");
  buffers = {x.data, w1.data, h.data, w2.data, y.data};
  mlp::Shape shape;
  shape.tokens = static_cast<int>(x.rows);
  shape.model = static_cast<int>(x.columns);
  shape.hidden = static_cast<int>(h.columns);
  shape.form = per_feature == 2 ? mlp::Form::swiglu : mlp::Form::gelu;
  shape.type = x.type == ElementType::fp16 ? mlp::ElementType::fp16 : mlp::ElementType::bf16;
  return shape;
}

/// Ways to cut the work for the entry's number of tokens that do so few as well, the best guess first.
std::vector<skinny_sm90::Config> configs_of(BindRequest const& request, mlp::Shape const& shape) {
  auto full = shape;
  full.tokens = request.kernel().tile_m;
  std::vector<skinny_sm90::Config> result;
  if (shape.tokens > full.tokens) return result;
  for (auto const& config : skinny_sm90::configs(full))
    if (config.token_tile == full.tokens && skinny_sm90::can_implement(shape, config))
      result.push_back(config);
  return result;
}

}  // namespace

Expected<StageKernel> bind_few_tokens(BindRequest const& request) {
  mlp::Buffers buffers;
  auto const shape = shape_of(request, buffers);
  if (!shape) return tl::make_unexpected(shape.error());
  auto const& variant = request.stage_plan().variant;
  auto const configs = configs_of(request, *shape);
  auto config = configs.empty() ? std::nullopt : std::optional(configs.front());
  if (!variant.empty()) config = skinny_sm90::parse_config(variant);
  if (!config || !skinny_sm90::can_implement(*shape, *config))
    return cannot_bind(
        request, 0, variant.empty() ? "the size" : "variant",
        fmt::format("it is not compiled for {} rows of {} and {} columns{}", shape->tokens, shape->model,
                    shape->hidden, variant.empty() ? "" : fmt::format(" cut as \"{}\"", variant)),
        "take the few_tokens kernel of the next larger number of rows, without a variant");
  if (config->blocks != 0 && config->blocks != request.planned().workers)
    return cannot_bind(request, 0, "variant",
                       fmt::format("it is for {} blocks, the launch has {} workers", config->blocks,
                                   request.planned().workers),
                       "leave the variant out, or tune again");
  config->blocks = request.planned().workers;
  skinny_sm90::Plan prepared;
  if (auto const error = skinny_sm90::prepare(*shape, *config, &prepared); error != cudaSuccess)
    return kernels::cuda_failed(error, "loading " + to_string(*config));
  auto const bytes = skinny_sm90::workspace_words(shape->hidden) * sizeof(unsigned);
  auto workspace = request.scratch.get(fmt::format("few_tokens, {} features", shape->hidden), bytes, true);
  if (!workspace) return tl::make_unexpected(workspace.error());
  int const stage = request.stage_index(1);
  StageKernel kernel;
  kernel.chains = true;
  kernel.all_resident = true;
  kernel.reset = [workspace = *workspace, bytes](GpuStream stream) {
    return static_cast<int>(cudaMemsetAsync(workspace.get(), 0, bytes, stream));
  };
  kernel.enqueue = [prepared, buffers, workspace = *workspace, stage](ChainViews const& views,
                                                                      GpuStream stream, bool early) {
    skinny_sm90::Call call;
    call.buffers = buffers;
    call.workspace = static_cast<unsigned*>(workspace.get());
    call.programmatic = early;
    call.cooperative = views.cooperative;
    call.watch = views.watch();
    call.stage = stage;
    return static_cast<int>(skinny_sm90::launch(prepared, call, stream));
  };
  return kernel;
}

std::vector<std::string> variants_of_few_tokens(BindRequest const& request) {
  mlp::Buffers buffers;
  std::vector<std::string> words;
  auto const shape = shape_of(request, buffers);
  if (!shape) return words;
  for (auto config : configs_of(request, *shape)) words.push_back(skinny_sm90::to_string(config));
  return words;
}

}  // namespace tessera
