// SPDX-License-Identifier: Apache-2.0
// Runs a plan's kernels on a GPU. Needs the library tessera_run_gpu, which is built where the CUDA toolkit is
// found; this header needs no CUDA header.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../plan/plan.hpp"
#include "../sync/record.cuh"
#include "../sync/runtime_stage.cuh"
#include "../timeline.hpp"

struct CUstream_st;

namespace tessera {

class StallGroup;

/// A cudaStream_t.
using GpuStream = CUstream_st*;

struct Extent3 {
  unsigned x = 1, y = 1, z = 1;
  bool operator==(Extent3 const&) const = default;
};

/// What a stage's kernel is given of the chain. Device views, trivially copyable; but for `repetition` and
/// `cooperative` they stay valid, and the same, as long as the chain lives.
struct ChainViews {
  ChainMemory memory;
  StallRecord* stall = nullptr;
  unsigned long long deadline_ns = 0;
  std::vector<RuntimeStage> stages;     ///< one per stage of the plan
  std::vector<RecordTarget> records;    ///< one per stage; null stamps where the chain does not record
  std::vector<RuntimeTickets> tickets;  ///< one per launch of the plan; no workers: of a stage's own kernel
  unsigned repetition = 0;              ///< which of the times that Chain::launch() was asked for
  bool cooperative = false;             ///< this launch asks the driver for all of its blocks at once
  /// Of an SM's memory that each launch should ask for as shared memory, so that all kernels of the chain can
  /// share an SM; -1: there is but one. Kernels with `pack` are launched so.
  int shared_percent = -1;
  void* tokens = nullptr;  ///< ChainOptions::token_bytes, for data tokens

  DeadlineWatch<> watch() const { return {stall, deadline_ns}; }
};

/// Arguments of one kernel launch, in the order of its parameters.
class KernelArguments {
 public:
  template <class T>
  void add(T const& value) {
    static_assert(std::is_trivially_copyable_v<T>, "a kernel's argument is copied byte by byte");
    // cudaLaunchKernel reads each argument through its pointer: 128 is the largest alignment of a parameter.
    offset_ = (offset_ + alignof(T) - 1) / alignof(T) * alignof(T);
    if (offset_ + sizeof(T) > sizeof(bytes_) || count_ == k_most) {
      overflow_ = true;
      return;
    }
    std::memcpy(bytes_ + offset_, &value, sizeof(T));
    pointers_[count_++] = bytes_ + offset_;
    offset_ += sizeof(T);
  }
  void clear() { offset_ = 0, count_ = 0, overflow_ = false; }
  void** pointers() { return pointers_; }
  bool overflow() const { return overflow_; }  ///< more than a kernel can take

 private:
  static constexpr std::size_t k_most = 64;
  alignas(128) std::byte bytes_[32768];  // the most that a kernel of sm_70 and later can take is 32,764
  void* pointers_[k_most];
  std::size_t offset_ = 0;
  std::size_t count_ = 0;
  bool overflow_ = false;
};

/// The kernel of one of the plan's launches.
struct StageKernel {
  void const* function = nullptr;  ///< address of a __global__ function
  Extent3 block;                   ///< threads
  Extent3 grid = {0, 1, 1};        ///< x == 0: the plan's number of blocks along x
  Extent3 cluster;                 ///< blocks; of a kernel with `enqueue`: their number is looked at
  int dynamic_shared_bytes = 0;
  /// Adds the arguments; called at every launch, so that they may change between launches (a captured graph
  /// keeps those of its capture).
  std::function<void(ChainViews const&, KernelArguments&)> pack;
  /// In place of pack: enqueues the launch by itself, `early` as its plan says, and returns CUDA's error. The
  /// grid, the cluster and the attributes are its own affair; `function` may be null, for a library's
  /// kernels, which are not held to the plan's numbers.
  std::function<int(ChainViews const&, GpuStream, bool early)> enqueue;
  /// Its launch may be the first of a plan and start early, before the chain's launch before is complete:
  /// until then it reads only what no stage of the plan writes, stores nothing and waits for no semaphore.
  /// The next launch may start before, if that one waits for all before it as a whole before it does any of
  /// this. Behind a repetition of the same launch it need not keep to this, if its waits tell
  /// repetitions apart (run_loop.hpp).
  bool chains = false;
  /// Its blocks wait for each other by means that the plan does not know, so that all must have their places
  /// at once: of a launch with workers. Where it does not start early, it is launched cooperatively: the
  /// driver sees to it. With `enqueue`, that does so if ChainViews::cooperative is set.
  bool all_resident = false;
  /// Enqueues what goes before each launch, in its stream, behind the chain's launch before. CUDA's error.
  std::function<int(GpuStream)> before;
  /// After a stall: enqueues what makes the kernel's own memory as it was at the start, if it has any that
  /// counts from launch to launch. CUDA's error.
  std::function<int(GpuStream)> reset;
};

struct ChainOptions {
  double deadline_seconds = 2;  ///< of one wait, in kernels with a DeadlineWatch; 0 or less: waits for ever
  bool record = false;          ///< allocate stamps; kernels must be compiled with recording views
  bool time_launches = false;   ///< for a timeline by launch, which any kernel can have
  /// Does the GPU place blocks of an older kernel first, across streams? MachineProfile has the same fact.
  /// Only plans with launches beside each other without a wait kernel (W) profit.
  bool dispatches_in_launch_order = false;
  /// Memory for data tokens (sync/data_token.cuh), 256-byte aligned. It is zeroed when the chain's semaphores
  /// are: launches are counted from 0 again then, and a token that was left would look new.
  std::size_t token_bytes = 0;
  /// Chains that share memory beside their own, whose stalls are each other's (Scratch::stalls()).
  /// Executables with one Scratch have one.
  StallGroup* stalls_with = nullptr;
};

/// A captured launch. Replays need nothing from the host.
class ChainGraph {
 public:
  ChainGraph(ChainGraph&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  ChainGraph& operator=(ChainGraph&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~ChainGraph();
  /// As Chain::launch(). E0511 in a stream that is being captured.
  Expected<void> launch(GpuStream stream);

 private:
  friend class Chain;
  struct State;
  explicit ChainGraph(State* state) : state_(state) {}
  State* state_;  // owned; a std::unique_ptr would cost 14,000 lines of <memory>
};

/// A plan with its kernels and its memory, ready to be launched any number of times. docs/recovery.md says
/// what becomes of it when a wait gives up or an enqueue fails. Launches of one chain do
/// not overlap each other, on whatever streams, but for the first kernel of a plan that starts early
/// (StageKernel::chains). Several chains may be in flight at once: what cannot be proved to finish beside
/// each other (sm_claim()) is kept apart, the launch of one waits for the end of the other; captures of the
/// caller's are not seen. One thread at a time may call it. Belongs to the device and the context that were
/// current when it was made. A plan that counts on SMs is refused (E0538) in a stream of a green context that
/// has fewer.
class Chain {
 public:
  /// Loads every kernel (a kernel that is loaded behind a spinning one would never start), compares what the
  /// compiled kernels take with what the plan assumed, proves progress again with the real numbers, and
  /// allocates and zeroes the memory. One kernel for each launch of the plan. Refuses with E0510 to E0519 and
  /// E0537; each page says what was compared.
  static Expected<Chain> make(Plan const& plan, std::vector<StageKernel> const& kernels,
                              ChainOptions const& options = {});

  Chain(Chain&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Chain& operator=(Chain&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  /// Waits for the chain's launches as finish() does. What has not ended by then keeps its memory.
  ~Chain();

  /// The same kernels on other operands: launches of all sets share the chain's memory. The number of the
  /// set, counted from the first one's 0. Takes the place of a set that is not needed any more, if there is
  /// one; graphs of that set must not be replayed then. E0510 unless these are the same kernels.
  Expected<int> add_set(std::vector<StageKernel> const& kernels, int in_place_of = -1);

  /// Enqueues one launch; what is enqueued on `stream` afterwards starts when the launch is complete. May be
  /// captured. `times`: so many, one behind the other with nothing in between.
  ///
  /// If a wait of an earlier launch has met its deadline, enqueues nothing, does what finish() does and
  /// refuses with E0520; the next call works. So it does, once, after a stall of anything else that this
  /// thread launched with this library, whose output this launch may read; of what the caller has captured,
  /// until that was asked itself. A launch that was enqueued in part (an error, an exception of `pack`) is
  /// waited for by the next call, and its traces removed; a capture of the caller's becomes invalid. In a
  /// capture E0520 says that finish() must be called outside of it. E0511 while another device is current.
  Expected<void> launch(GpuStream stream, int set = 0, unsigned times = 1);

  /// For a graph of your own in which launches of this chain were captured: does around `enqueue` what
  /// launch() does around its kernels. So an earlier stall is said first, and what cannot be proved to finish
  /// beside this chain is kept apart from the graph. `enqueue` launches the graph in the stream, as often as
  /// it likes, and returns CUDA's error. E0511 in a stream that is being captured.
  Expected<void> replay(GpuStream stream, std::function<int(GpuStream)> const& enqueue);

  /// Captures one launch, or several, into a graph, which must not outlive the chain.
  Expected<ChainGraph> capture(int set = 0, unsigned times = 1);

  /// Waits for all launches; for the whole device where a launch was captured by the caller, since replays of
  /// that graph are not seen. Refuses (E0520) if a wait met its deadline, naming tile and semaphore; then the
  /// results are not there, the memory has been zeroed again and the chain can be launched again. E0520 as
  /// well, once, where anything else that this thread launched with this library has stalled. E0521: a launch
  /// that has begun did not get on for ten deadlines, which only kernels without a watch can do; how long
  /// other work is queued before it does not count. If it ends after all, the chain works again. Not while a
  /// stream is captured in a mode that forbids to wait for the device, if a launch was captured by the
  /// caller.
  Expected<void> finish();

  /// Has a wait met its deadline since the last finish()? Then results since then are not to be used. One
  /// load of host memory: waits for nothing, and sees what has happened so far.
  bool stalled() const;

  /// The wait of this chain that gave up, which its last finish() or launch() has said, or since then that of
  /// a chain which shares memory with it. State 0: none.
  StallRecord const& last_stall() const;

  /// What happened in the last complete launch: tile by tile where the chain records, by launch
  /// (Timeline::by_launch) where it times launches. Refuses (E0522) if it does neither, or its kernels do not
  /// record. Waits as finish() does (E0521).
  Expected<Timeline> timeline() const;

  Plan const& plan() const;
  ChainViews const& views() const;
  std::string const& proof() const;     ///< why it cannot get stuck, with the numbers of the real kernels
  Diagnostics const& warnings() const;  ///< where the kernels differ from the plan's assumptions
  std::vector<int> const& occupancies() const;  ///< blocks per SM of each kernel, as CUDA says
  /// What a block of each launch's kernel holds as it is compiled; a library's kernels: as the plan says.
  std::vector<Resources> const& resources() const;

 private:
  struct State;
  friend class ChainGraph;
  friend class StallGroup;
  explicit Chain(State* state) : state_(state) {}
  State* state_;  // owned
};

}  // namespace tessera
