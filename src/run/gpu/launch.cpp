// SPDX-License-Identifier: Apache-2.0
// One launch of a chain: which kernel goes to which stream, after what.
#include <algorithm>
#include <memory>

#include "gpu/context_sms.hpp"
#include "gpu/launch.hpp"
#include "run/gpu/nvtx.hpp"
#include "run/gpu/own_stream.hpp"
#include "run/gpu/state.hpp"
#include "run/gpu/wait_kernel.hpp"
#include "tessera/run/launch.hpp"

namespace tessera {

using run::check_call;

Expected<void> Chain::State::kernel(std::size_t launch, cudaStream_t stream, int set) {
  auto const& kernel = sets[static_cast<std::size_t>(set)][launch];
  auto const& described = plan.pipeline.stages[static_cast<std::size_t>(plan.launches[launch].first)];
  auto const name = run::launch_name(plan, plan.launches[launch]);
  run::ProfilerRange const range(name);
  bool const early = plan.launches[launch].start == LaunchStart::early;
  if (kernel.before)
    if (auto ok = check_call(static_cast<cudaError_t>(kernel.before(stream)), "what goes before the launch",
                             "of " + name, described.where);
        !ok)
      return ok;
  views.cooperative = kernel.all_resident && !early && validated.cooperative;
  if (kernel.enqueue)
    return check_call(static_cast<cudaError_t>(kernel.enqueue(views, stream, early)), "launch", "of " + name,
                      described.where);
  arguments.clear();
  kernel.pack(views, arguments);
  LaunchShape shape;
  shape.blocks = kernel.grid.x == 0
                     ? Extent3{static_cast<unsigned>(run::launched_blocks(plan, plan.launches[launch])), 1, 1}
                     : kernel.grid;
  shape.threads = kernel.block;
  shape.cluster = kernel.cluster;
  shape.dynamic_shared_bytes = kernel.dynamic_shared_bytes;
  shape.programmatic = early;
  shape.shared_percent = views.shared_percent;
  shape.cooperative = views.cooperative;
  auto outcome = launch_kernel(kernel.function, shape, stream, arguments, name);
  if (!outcome)
    for (auto& diagnostic : outcome.error()) diagnostic.where = described.where;
  return outcome;
}

Expected<void> Chain::State::mark(cudaEvent_t event, cudaStream_t stream) {
  if (event == nullptr) return {};
  auto status = cudaStreamCaptureStatusNone;
  if (auto ok = check_call(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing"); !ok) return ok;
  auto const how = status == cudaStreamCaptureStatusNone ? cudaEventRecordDefault : cudaEventRecordExternal;
  return check_call(cudaEventRecordWithFlags(event, stream, how), "cudaEventRecordWithFlags");
}

Expected<void> Chain::State::enqueue_side(Side const& side, int set) {
  auto const& launch = plan.launches[side.launch];
  if (launch.wait_kernel) {
    auto const stage = static_cast<std::size_t>(launch.first);
    run::WaitKernelArguments wait{
        views.memory, launch.first,
        static_cast<unsigned long long>(run::launched_blocks(plan, plan.launches[side.launch - 1])),
        views.watch()};
    void* pointers[] = {&wait};
    gpu::Shape one{1, 1};
    one.shared_percent = views.shared_percent;
    auto ok =
        check_call(gpu::try_launch(one, side.stream, run::wait_kernel_address(), pointers),
                   "cudaLaunchKernelExC", "for the wait kernel before " + plan.pipeline.stages[stage].name);
    if (!ok) return ok;
  }
  auto const marks = around.empty() ? Around{} : around[side.launch];
  if (auto ok = mark(marks.begin, side.stream); !ok) return ok;
  if (auto ok = kernel(side.launch, side.stream, set); !ok) return ok;
  if (auto ok = mark(marks.end, side.stream); !ok) return ok;
  return check_call(cudaEventRecord(side.done, side.stream), "cudaEventRecord");
}

// What starts beside the group's first launch goes to streams of its own, which begin where the group begins
// and are joined where it ends.
Expected<void> Chain::State::enqueue_group(LaunchGroup const& group, cudaStream_t stream, int set) {
  auto const first = static_cast<std::size_t>(group.first);
  auto const end = static_cast<std::size_t>(group.end);
  auto const in_group = [&](Side const& side) { return first <= side.launch && side.launch < end; };
  if (std::any_of(sides.begin(), sides.end(), in_group))
    if (auto ok = check_call(cudaEventRecord(fork, stream), "cudaEventRecord"); !ok) return ok;
  for (auto l = first; l < end; ++l) {
    if (plan.launches[l].start == LaunchStart::beside) continue;
    auto const marks = around.empty() ? Around{} : around[l];
    if (auto ok = mark(marks.begin, stream); !ok) return ok;
    if (auto ok = kernel(l, stream, set); !ok) return ok;
    if (auto ok = mark(marks.end, stream); !ok) return ok;
  }
  for (auto const& side : sides) {
    if (!in_group(side)) continue;
    if (auto ok = check_call(cudaStreamWaitEvent(side.stream, fork, 0), "cudaStreamWaitEvent"); !ok)
      return ok;
    if (auto ok = enqueue_side(side, set); !ok) return ok;
  }
  for (auto const& side : sides)
    if (in_group(side))
      if (auto ok = check_call(cudaStreamWaitEvent(stream, side.done, 0), "cudaStreamWaitEvent"); !ok)
        return ok;
  return {};
}

// The first kernel waits for everything before it: it may not overlap the launch before, which uses the same
// semaphores. One that starts early does so by itself (StageKernel::chains).
Expected<void> Chain::State::enqueue(cudaStream_t stream, int set, unsigned times) {
  run::ProfilerRange const range(plan.pipeline.name);
  auto const groups = groups_of(plan);
  for (views.repetition = 0; views.repetition < times; ++views.repetition)
    for (auto const& group : groups)
      if (auto ok = enqueue_group(group, stream, set); !ok) return ok;
  views.repetition = 0;
  return {};
}

Expected<void> Chain::State::settle(bool capturing) {
  if (!capturing) last_stall = {};
  if (!broken && !stalls->told())
    return capturing ? Expected<void>{} : stalls->nothing_else_stalled(plan.pipeline.name);
  if (capturing)
    return refuse(
        {"E0520",
         Severity::error,
         plan.pipeline.where,
         fmt::format("a launch of {} gave up or was enqueued in part, and this stream is being captured",
                     plan.pipeline.name),
         {"nothing can be waited for in a capture, and nothing was enqueued"},
         "call finish() when the capture has ended, and capture again"});
  auto recovered = recover();
  if (recovered) return stalls->nothing_else_stalled(plan.pipeline.name);
  for (auto& diagnostic : recovered.error())
    if (diagnostic.code == "E0520")
      diagnostic.notes.push_back(
          "found when the next launch was asked for, which was not enqueued: ask for it again");
  return recovered;
}

// Half a launch has counted in some semaphores and not in others, and side streams may not have been joined.
void Chain::State::abandon(cudaStream_t stream, unsigned long long id) {
  broken = true;
  stalls->spoil();
  for (auto const& side : sides)
    if (cudaEventRecord(side.done, side.stream) == cudaSuccess)
      (void)cudaStreamWaitEvent(stream, side.done, 0);
  (void)mark_done(stream, id, 0);
  (void)cudaGetLastError();
}

namespace {

/// Does what is left to do when an enqueue ends early, by an error or by an exception.
template <class Function>
class Unless {
 public:
  explicit Unless(Function function) : function_(std::move(function)) {}
  Unless(Unless const&) = delete;
  Unless& operator=(Unless const&) = delete;
  ~Unless() {
    if (!complete_) function_();
  }
  void complete() { complete_ = true; }

 private:
  Function function_;
  bool complete_ = false;
};

/// A graph with half a launch in it must not be made: waiting for a stream that is captured makes its capture
/// invalid.
void spoil_capture(cudaStream_t stream) {
  (void)cudaStreamSynchronize(stream);
  (void)cudaGetLastError();
}

}  // namespace

// Unlike a handle, an id is never used again, and threads' own default streams have different ones.
unsigned long long Chain::State::id_of(cudaStream_t stream) {
  unsigned long long id = 0;
  return cudaStreamGetId(stream, &id) == cudaSuccess ? id : 0;
}

Expected<void> Chain::State::is_current() const {
  int current = 0;
  if (auto ok = check_call(cudaGetDevice(&current), "cudaGetDevice"); !ok) return ok;
  if (current == device) return {};
  return refuse({"E0511",
                 Severity::error,
                 plan.pipeline.where,
                 fmt::format("{} is on GPU {}, and GPU {} is current", plan.pipeline.name, device, current),
                 {},
                 fmt::format("call cudaSetDevice({}) before, or make a chain for each GPU", device)});
}

Expected<void> Chain::State::after_previous(cudaStream_t stream, unsigned long long id) {
  if (lost && run::has_ended(done)) found_lost(false);
  if (lost)
    return refuse({"E0521",
                   Severity::error,
                   plan.pipeline.where,
                   fmt::format("an earlier launch of {} has not ended", plan.pipeline.name),
                   {},
                   "wait for it with finish(); if it spins without a watch, end the process"});
  if (lease.counts() && id != last)
    if (auto ok = has_sms(stream); !ok) return ok;
  if (!launched) return {};
  // The order of the stream is enough. A wait for an event would take the host its time, and would keep a
  // kernel from starting early.
  if (id != 0 && id == last) return {};
  return check_call(cudaStreamWaitEvent(stream, done, 0), "cudaStreamWaitEvent");
}

Expected<void> Chain::State::has_sms(cudaStream_t stream) const {
  int const sms = gpu::stream_sms(stream);
  if (sms == 0 || sms >= lease.sms()) return {};
  return refuse({"E0538",
                 Severity::error,
                 plan.pipeline.where,
                 fmt::format("the stream has {} SMs, and {} is proved to finish on {}", sms,
                             plan.pipeline.name, lease.sms()),
                 {validated.proof},
                 "make the chain while the stream's green context is current, or launch in another stream"});
}

Expected<void> Chain::State::mark_begin(cudaStream_t stream) {
  if (begin_marked || semaphore_count == 0 || plan.launches.front().start == LaunchStart::early) return {};
  // With launches before that are not known to have ended, it would not be the first.
  if (ended != enqueued) return {};
  begin_marked = true;
  return check_call(cudaEventRecord(before_first, stream), "cudaEventRecord");
}

Expected<void> Chain::State::mark_done(cudaStream_t stream, unsigned long long id, unsigned times) {
  launched = true;
  last = id;
  enqueued += times;
  return check_call(cudaEventRecord(done, stream), "cudaEventRecord");
}

Expected<void> Chain::launch(GpuStream stream, int set, unsigned times) {
  auto& chain = *state_;
  if (auto ok = chain.has_set(set); !ok) return ok;
  if (auto ok = chain.is_current(); !ok) return ok;
  auto status = cudaStreamCaptureStatusNone;
  if (auto ok = check_call(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing"); !ok) return ok;
  // A capture cannot wait for what runs outside; whoever replays the graph keeps replays apart.
  bool const captured = status != cudaStreamCaptureStatusNone;
  if (auto ok = chain.settle(captured); !ok) return ok;
  chain.stalls->launched(captured);
  if (captured) {
    Unless incomplete([&] { spoil_capture(stream); });
    chain.captured = true;
    auto enqueued = chain.enqueue(stream, set, times);
    if (enqueued) incomplete.complete();
    return enqueued;
  }
  auto const id = State::id_of(stream);
  if (auto ok = chain.after_previous(stream, id); !ok) return ok;
  auto const lease = chain.lease.take(stream, id);
  if (!lease) return tl::make_unexpected(lease.error());
  Unless incomplete([&] { chain.abandon(stream, id); });
  if (auto ok = chain.mark_begin(stream); !ok) return ok;
  if (auto ok = chain.enqueue(stream, set, times); !ok) return ok;
  incomplete.complete();
  return chain.mark_done(stream, id, times);
}

Expected<ChainGraph> Chain::capture(int set, unsigned times) {
  if (auto ok = state_->has_set(set); !ok) return tl::make_unexpected(ok.error());
  if (auto ok = state_->is_current(); !ok) return tl::make_unexpected(ok.error());
  auto state = std::make_unique<ChainGraph::State>();
  state->chain = state_;
  state->times = times;
  // Thread local: other threads may go on calling CUDA.
  auto const own = run::own_stream();
  if (!own) return tl::make_unexpected(own.error());
  auto ok =
      check_call(cudaStreamBeginCapture(*own, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  if (!ok) return tl::make_unexpected(ok.error());
  auto const end = [&] { return cudaStreamEndCapture(*own, &state->graph); };
  Unless incomplete([&] { (void)end(), (void)cudaGetLastError(); });
  auto enqueued = state_->enqueue(*own, set, times);
  if (!enqueued) return tl::make_unexpected(enqueued.error());
  incomplete.complete();
  ok = check_call(end(), "cudaStreamEndCapture");
  if (!ok) return tl::make_unexpected(ok.error());
  ok = check_call(cudaGraphInstantiate(&state->executable, state->graph, 0), "cudaGraphInstantiate",
                  "for " + state_->plan.pipeline.name);
  if (!ok) return tl::make_unexpected(ok.error());
  return ChainGraph(state.release());
}

Expected<void> Chain::State::replay(GpuStream stream, std::function<int(GpuStream)> const& graph,
                                    unsigned times) {
  if (auto ok = is_current(); !ok) return ok;
  auto status = cudaStreamCaptureStatusNone;
  if (auto ok = check_call(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing"); !ok) return ok;
  if (status != cudaStreamCaptureStatusNone)
    return refuse({"E0511",
                   Severity::error,
                   plan.pipeline.where,
                   fmt::format("a graph of {} cannot be launched in a stream that is being captured",
                               plan.pipeline.name),
                   {"CUDA would make the capture invalid (cudaErrorStreamCaptureUnsupported)"},
                   "call Chain::launch() there: it becomes a part of the capture"});
  if (auto ok = settle(false); !ok) return ok;
  stalls->launched();
  auto const id = id_of(stream);
  if (auto ok = after_previous(stream, id); !ok) return ok;
  auto const turn = lease.take(stream, id);
  if (!turn) return tl::make_unexpected(turn.error());
  run::ProfilerRange const range(plan.pipeline.name);
  // Also behind some of several graphs, the others of which failed.
  Unless incomplete([&] { (void)mark_done(stream, id, 0); });
  if (auto ok = mark_begin(stream); !ok) return ok;
  if (auto ok = check_call(static_cast<cudaError_t>(graph(stream)), "cudaGraphLaunch"); !ok) return ok;
  incomplete.complete();
  return mark_done(stream, id, times);
}

Expected<void> Chain::replay(GpuStream stream, std::function<int(GpuStream)> const& enqueue) {
  return state_->replay(stream, enqueue, 1);
}

Expected<void> ChainGraph::launch(GpuStream stream) {
  auto const once = [this](GpuStream in) {
    return static_cast<int>(cudaGraphLaunch(state_->executable, in));
  };
  return state_->chain->replay(stream, once, state_->times);
}

ChainGraph::~ChainGraph() { delete state_; }

}  // namespace tessera
