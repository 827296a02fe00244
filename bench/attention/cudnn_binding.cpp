// SPDX-License-Identifier: Apache-2.0
#include "cudnn_binding.hpp"

#include <algorithm>

#include "kernels/bindings/attention_layout.hpp"
#include "kernels/bindings/families.hpp"
#include "kernels/cudnn/attention.hpp"

namespace tessera::bench {
namespace {

Expected<StageKernel> bind_attention(BindRequest const& request) {
  // Nothing of cuDNN's waits for tiles, or posts them.
  auto const in_order = [](Launch const& one) {
    return one.start == LaunchStart::in_order && one.workers == 0;
  };
  if (auto const& all = request.plan.launches; !std::all_of(all.begin(), all.end(), in_order))
    return cannot_bind(request, 0, "the launches", "cuDNN's kernels start when all before them is complete",
                       "let all launches start in order");
  auto const call = attention_call(request);
  if (!call) return tl::make_unexpected(call.error());
  auto const made = cudnn::Attention::make(call->problem);
  if (!made) return tl::make_unexpected(made.error());
  auto const workspace = request.scratch.get("cudnn", (*made)->workspace_bytes() + 1);
  if (!workspace) return tl::make_unexpected(workspace.error());
  StageKernel kernel;
  kernel.enqueue = [attention = *made, call = *call, workspace = *workspace](ChainViews const&,
                                                                             GpuStream stream, bool) {
    return static_cast<int>(
        attention->run(call.q, call.k, call.v, call.out, workspace.get(), static_cast<cudaStream_t>(stream)));
  };
  return kernel;
}

}  // namespace

Bindings bindings_with_cudnn() {
  auto bindings = shipped_bindings();
  bindings.add("attention_sm90", bind_attention);
  return bindings;
}

}  // namespace tessera::bench
