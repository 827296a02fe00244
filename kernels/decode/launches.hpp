// SPDX-License-Identifier: Apache-2.0
// The launches of a step: compiled kernels behind plain values.
#pragma once

#include <functional>
#include <memory>
#include <tessera/run/run_roles.hpp>

#include "kernels/decode/attention.hpp"
#include "kernels/decode/head.hpp"
#include "kernels/decode/prompt.hpp"
#include "kernels/few_tokens/product.hpp"

namespace tessera::decode {

struct Launch {
  std::shared_ptr<LoopPlan const> plan;
  std::function<Expected<void>(GpuStream, long long iterations)> launch;
  /// Chain::replay()
  std::function<Expected<void>(GpuStream, std::function<int(GpuStream)> const&)> replay;
  std::function<Expected<void>()> finish;
  std::function<StallRecord()> last_stall;  ///< Chain::last_stall()
};

/// By what kernels of layers differ.
struct HeadKind {
  int size = 64;  ///< 64, 96 or 128
  /// Products may have biases, heads norms, keys a window, the cache pages: where arguments have them.
  /// Kernels for heads of 96 are of this kind.
  bool extras = false;
};
inline HeadKind head_kind_of(Model const& model, bool pages) {
  return {model.head_size, model.has_extras() || pages};
}

/// Arguments in device memory, one for each stage of a body.
struct LayerArguments {
  few_tokens::Product const* products = nullptr;
  AttentionArguments const* attention = nullptr;
};
struct PromptLayerArguments {
  few_tokens::Product const* products = nullptr;
  PromptArguments const* attention = nullptr;
};

/// For plan_layers(). `columns`: 8, 16, 32 or 64.
Expected<Launch> layer_launch(LoopPlan const& plan, RoleOptions const& options, int columns, HeadKind heads,
                              LayerArguments const& arguments);
/// For plan_layers() of prompt_tiles(): up to k_most_prompt_rows rows, by the kernel for as many columns.
Expected<Launch> prompt_launch(LoopPlan const& plan, RoleOptions const& options, HeadKind heads,
                               PromptLayerArguments const& arguments);
/// For plan_head(). `extras`: Model::head_has_extras(). `parts`: Tiles::head_parts.
Expected<Launch> head_launch(LoopPlan const& plan, RoleOptions const& options, int columns, bool extras,
                             few_tokens::Product const* product, StepEnd const& end, int parts);

}  // namespace tessera::decode
