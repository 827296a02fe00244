// SPDX-License-Identifier: Apache-2.0
// What a chain owns.
#pragma once

#include <vector>

#include "run/gpu/cuda_call.hpp"
#include "run/gpu/has_ended.hpp"
#include "run/gpu/leases.hpp"
#include "run/gpu/on_device.hpp"
#include "run/gpu/stall_group.hpp"
#include "run/gpu/validate.hpp"
#include "run/patience.hpp"
#include "tessera/run/chain.hpp"
#include "tessera/run/runtime_tables.hpp"

namespace tessera {

struct Chain::State {
  Plan plan;
  std::vector<std::vector<StageKernel>> sets;  ///< of operands: for each a kernel for each launch
  ChainOptions options;
  run::Validated validated;
  ChainViews views;
  run::DeviceMemory semaphores, counters, stall, numbers, waits, stamps, tokens;
  std::size_t semaphore_count = 0;
  std::size_t stamp_count = 0;
  /// Before and behind each launch, where they are timed; null where a launch starts early behind another,
  /// or lets the next one do so: an event in between would keep them apart.
  struct Around {
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
  };
  std::vector<Around> around;
  /// Where a launch beside others goes.
  struct Side {
    std::size_t launch = 0;
    cudaStream_t stream = nullptr;
    cudaEvent_t done = nullptr;
  };
  std::vector<Side> sides;
  cudaEvent_t fork = nullptr;
  cudaEvent_t done = nullptr;  ///< the last launch
  /// Before the first launch since all were known to have ended, so that a launch that counts nothing is seen
  /// to have begun. None where that one starts early: an event would keep it from that.
  cudaEvent_t before_first = nullptr;
  bool begin_marked = false;
  unsigned enqueued = 0;  ///< launches since the memory was zeroed, and how many of them have ended
  unsigned ended = 0;
  unsigned long long last = 0;  ///< id of the last launch's stream; means something if `launched`
  bool launched = false;
  bool captured = false;  ///< by the caller, whose replays are not seen
  int device = 0;         ///< where it was made
  bool broken = false;    ///< a launch was enqueued in part
  bool lost = false;      ///< a launch does not end: until it has, its memory cannot be given back
  run::Lease lease;
  StallGroup* stalls = nullptr;
  StallRecord last_stall;  ///< state 0: the last finish() or launch() has said none
  KernelArguments arguments;

  State() = default;
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State();

  Expected<void> allocate(RuntimeTables const& tables);
  Expected<void> make_sides();
  Expected<void> make_events_around();
  /// Records an event if there is one; a captured one each time the graph runs.
  static Expected<void> mark(cudaEvent_t event, cudaStream_t stream);
  Expected<Timeline> by_launch() const;
  Expected<void> has_set(int set) const;  ///< E0510
  Expected<void> zero();

  /// E0511: another device is current, whose streams are not this one's.
  Expected<void> is_current() const;
  /// After the launch before, on whatever stream that was.
  Expected<void> after_previous(cudaStream_t stream, unsigned long long id);
  /// E0538: a green context's stream that has fewer SMs than the proof counts on.
  Expected<void> has_sms(cudaStream_t stream) const;
  Expected<void> mark_begin(cudaStream_t stream);
  Expected<void> mark_done(cudaStream_t stream, unsigned long long id, unsigned times);
  /// Before a launch: after a stall, or a launch that was enqueued in part, as if there had been none. In a
  /// capture nothing can be waited for: refuses then (E0520).
  Expected<void> settle(bool capturing);
  /// What an enqueue leaves that did not come to its end.
  void abandon(cudaStream_t stream, unsigned long long id);
  static unsigned long long id_of(cudaStream_t stream);
  /// The kernels of so many launches; nothing but what can be captured.
  Expected<void> enqueue(cudaStream_t stream, int set, unsigned times);
  Expected<void> enqueue_group(LaunchGroup const& group, cudaStream_t stream, int set);
  Expected<void> enqueue_side(Side const& side, int set);
  Expected<void> kernel(std::size_t launch, cudaStream_t stream, int set);
  /// Of a graph with so many launches.
  Expected<void> replay(GpuStream stream, std::function<int(GpuStream)> const& graph, unsigned times);

  /// For the launches that the library has enqueued; E0521.
  Expected<void> wait_for_launches();
  /// For these, and for the chain's device where the caller has captured launches. Like all that follows it
  /// may be called while another device is current.
  Expected<void> wait_until_done();
  /// What was enqueued by now has ended.
  void all_ended() { ended = enqueued, begin_marked = false; }
  /// Looks at the words of a launch that has not ended.
  Expected<bool> is_stuck(run::Patience& patience, double now) const;
  void found_lost(bool yes);
  /// Adds a report to those that are there if a wait gave up.
  Expected<void> look_for_stall(Diagnostics& found);
  /// Zeroes the memory, and has the kernels reset theirs.
  Expected<void> start_anew();
  Expected<void> recover() { return stalls->recover(); }
};

struct ChainGraph::State {
  Chain::State* chain = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  unsigned times = 1;
  ~State() {
    if (executable != nullptr) cudaGraphExecDestroy(executable);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
};

}  // namespace tessera
