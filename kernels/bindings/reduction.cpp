// SPDX-License-Identifier: Apache-2.0
// Sums: one stage of one tile, by the configuration that is fastest for the size.
#include <fmt/format.h>

#include <memory>

#include "families.hpp"
#include "kernels/reduction/sum.hpp"

namespace tessera {

Expected<StageKernel> bind_reduction(BindRequest const& request) {
  auto const& stage = request.stage();
  if (request.planned().start == LaunchStart::beside || request.planned().workers > 0)
    return cannot_bind(request, 0, "the launch", "its blocks do not announce that they have started",
                       "let the launch start early or in order");
  if (stage.operands.size() != 1 || stage.blocks() != 1)
    return cannot_bind(request, 0, "the grid", "it reads one operand and cuts it itself",
                       "plan its stage as one tile with one operand");
  auto const x = tensor_of(request, 0, stage.operands.front().name);
  auto const out = tensor_of(request, 0, "");
  if (!x) return tl::make_unexpected(x.error());
  if (!out) return tl::make_unexpected(out.error());
  if (x->stride() != x->columns)
    return cannot_bind(request, 0, "operands", "it takes elements without gaps",
                       "give it a matrix of its own");
  auto element = reduction::Element::fp32;
  switch (x->type) {
    case ElementType::fp32: break;
    case ElementType::fp64: element = reduction::Element::fp64; break;
    case ElementType::int32: element = reduction::Element::int32; break;
    case ElementType::bf16:
    case ElementType::fp16:
      return cannot_bind(request, 0, "the type", fmt::format("it is not compiled for {}", to_text(x->type)),
                         "sum fp32, fp64 or int32");
  }
  auto made = reduction::Sum::make();
  if (!made) return tl::make_unexpected(made.error());
  auto sum = std::make_shared<reduction::Sum>(std::move(*made));
  auto const count = static_cast<std::size_t>(x->rows * x->columns * x->batch);
  auto const config = reduction::choose(element, count, sum->sms());
  StageKernel kernel;
  kernel.reset = [sum](GpuStream stream) { return static_cast<int>(sum->reset(stream)); };
  kernel.enqueue = [sum, element, count, config, x = x->data, out = out->data](ChainViews const& views,
                                                                               GpuStream stream, bool early) {
    reduction::Early how;
    how.programmatic = early;
    auto const launched = sum->launch(element, x, count, out, stream, config, how, views.watch());
    return static_cast<int>(launched ? cudaSuccess : cudaErrorLaunchFailure);
  };
  return kernel;
}

}  // namespace tessera
