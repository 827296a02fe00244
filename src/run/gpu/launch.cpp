// SPDX-License-Identifier: Apache-2.0
// One launch of a chain: which kernel goes to which stream, after what.
#include <memory>

#include "run/gpu/nvtx.hpp"
#include "run/gpu/state.hpp"
#include "run/gpu/wait_kernel.hpp"
#include "tessera/run/launch.hpp"

namespace tessera {

using run::check_call;

Expected<void> Chain::State::kernel(std::size_t stage, cudaStream_t stream, bool programmatic) {
  auto const& kernel = kernels[stage];
  bool const fused = plan.mechanism == Mechanism::fused;
  auto const& described = plan.pipeline.stages[stage];
  auto const name = fused ? plan.pipeline.name : described.name;
  run::ProfilerRange const range(name);
  arguments.clear();
  kernel.pack(views, arguments);
  auto const blocks = fused ? static_cast<unsigned>(plan.workers) : static_cast<unsigned>(described.blocks());
  LaunchShape shape;
  shape.blocks = kernel.grid.x == 0 ? Extent3{blocks, 1, 1} : kernel.grid;
  shape.threads = kernel.block;
  shape.cluster = kernel.cluster;
  shape.dynamic_shared_bytes = kernel.dynamic_shared_bytes;
  shape.programmatic = programmatic;
  auto outcome = launch_kernel(kernel.function, shape, stream, arguments, name);
  if (!outcome)
    for (auto& diagnostic : outcome.error()) diagnostic.where = described.where;
  return outcome;
}

Expected<void> Chain::State::enqueue_side(std::size_t stage, cudaStream_t stream) {
  if (plan.stages[stage].wait_kernel) {
    run::WaitKernelArguments wait{views.memory, static_cast<int>(stage),
                                  static_cast<unsigned long long>(plan.pipeline.stages[stage - 1].blocks()),
                                  views.watch()};
    void* pointers[] = {&wait};
    auto ok =
        check_call(cudaLaunchKernel(run::wait_kernel_address(), dim3(1), dim3(1), pointers, 0, stream),
                   "cudaLaunchKernel", "for the wait kernel before " + plan.pipeline.stages[stage].name);
    if (!ok) return ok;
  }
  return kernel(stage, stream, false);
}

Expected<void> Chain::State::enqueue(cudaStream_t stream) {
  run::ProfilerRange const range(plan.pipeline.name);
  bool const pdl = plan.mechanism == Mechanism::pdl || plan.mechanism == Mechanism::pdl_tiles;
  if (plan.mechanism != Mechanism::wait_kernel) {
    // The first kernel of a launch waits for everything before it: it may not overlap the launch before,
    // which uses the same semaphores.
    for (std::size_t k = 0; k < kernels.size(); ++k)
      if (auto ok = kernel(k, stream, pdl && k > 0); !ok) return ok;
    return {};
  }
  if (auto ok = check_call(cudaEventRecord(fork, stream), "cudaEventRecord"); !ok) return ok;
  if (auto ok = kernel(0, stream, false); !ok) return ok;
  for (std::size_t s = 1; s < kernels.size(); ++s) {
    auto const side = side_streams[s - 1];
    if (auto ok = check_call(cudaStreamWaitEvent(side, fork, 0), "cudaStreamWaitEvent"); !ok) return ok;
    if (auto ok = enqueue_side(s, side); !ok) return ok;
    if (auto ok = check_call(cudaEventRecord(side_done[s - 1], side), "cudaEventRecord"); !ok) return ok;
  }
  for (auto const event : side_done)
    if (auto ok = check_call(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent"); !ok) return ok;
  return {};
}

Expected<void> Chain::State::after_previous(cudaStream_t stream) {
  if (lost)
    return refuse({"E0521",
                   Severity::error,
                   plan.pipeline.where,
                   fmt::format("an earlier launch of {} never ended", plan.pipeline.name),
                   {},
                   "end the process: its kernels still spin"});
  if (!launched) return {};
  return check_call(cudaStreamWaitEvent(stream, done, 0), "cudaStreamWaitEvent");
}

Expected<void> Chain::State::mark_done(cudaStream_t stream) {
  launched = true;
  return check_call(cudaEventRecord(done, stream), "cudaEventRecord");
}

Expected<void> Chain::launch(GpuStream stream) {
  auto status = cudaStreamCaptureStatusNone;
  if (auto ok = check_call(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing"); !ok) return ok;
  // A capture cannot wait for what runs outside; whoever replays the graph keeps replays apart.
  if (status != cudaStreamCaptureStatusNone) return state_->enqueue(stream);
  if (auto ok = state_->after_previous(stream); !ok) return ok;
  auto enqueued = state_->enqueue(stream);
  if (!enqueued) state_->broken = true;
  auto marked = state_->mark_done(stream);
  return enqueued ? marked : enqueued;
}

Expected<ChainGraph> Chain::capture() {
  auto state = std::make_unique<ChainGraph::State>();
  state->chain = state_;
  // Thread local: other threads may go on calling CUDA.
  auto ok = check_call(cudaStreamBeginCapture(state_->own, cudaStreamCaptureModeThreadLocal),
                       "cudaStreamBeginCapture");
  if (!ok) return tl::make_unexpected(ok.error());
  auto enqueued = state_->enqueue(state_->own);
  ok = check_call(cudaStreamEndCapture(state_->own, &state->graph), "cudaStreamEndCapture");
  if (!enqueued) return tl::make_unexpected(enqueued.error());
  if (!ok) return tl::make_unexpected(ok.error());
  ok = check_call(cudaGraphInstantiate(&state->executable, state->graph, 0), "cudaGraphInstantiate",
                  "for " + state_->plan.pipeline.name);
  if (!ok) return tl::make_unexpected(ok.error());
  return ChainGraph(state.release());
}

Expected<void> ChainGraph::launch(GpuStream stream) {
  auto& chain = *state_->chain;
  if (auto ok = chain.after_previous(stream); !ok) return ok;
  run::ProfilerRange const range(chain.plan.pipeline.name);
  if (auto ok = check_call(cudaGraphLaunch(state_->executable, stream), "cudaGraphLaunch"); !ok) return ok;
  return chain.mark_done(stream);
}

ChainGraph::~ChainGraph() { delete state_; }

}  // namespace tessera
