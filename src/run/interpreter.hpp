// SPDX-License-Identifier: Apache-2.0
// State of one interpret() call.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "run/progress.hpp"
#include "tessera/run/interpret.hpp"

namespace tessera::run {

/// A semaphore to wait for and its value in the first launch.
using Waits = std::vector<Awaited>;

struct StageState {
  std::vector<Waits> waits;                     ///< by tile; all dependences and reuse edges
  std::vector<std::atomic<BlockState>> blocks;  ///< by split * tiles + tile, for reports
  StageDuties duties;

  explicit StageState(std::int64_t block_count) : blocks(static_cast<std::size_t>(block_count)) {}
};

/// What the dispatcher sees: one of the plan's launches, or the wait kernel before one.
struct Kernel {
  enum class Kind { stage, wait_kernel, workers };
  Kind kind;
  int launch;  ///< the wait kernel's is the one that it lets start
  std::int64_t blocks;
  std::atomic<std::int64_t> placed{0};
  std::atomic<std::int64_t> started{0};  ///< blocks, in this run of the plan
  std::atomic<std::int64_t> left{0};     ///< release: a kernel's end makes its writes visible

  Kernel(Kind kind_, int launch_, std::int64_t blocks_) : kind(kind_), launch(launch_), blocks(blocks_) {}
  bool complete() const { return left.load(std::memory_order_acquire) == blocks; }
};

class Interpreter {
 public:
  Interpreter(Plan const& plan, std::vector<TileFunction> const& functions, InterpretOptions const& options);

  /// The plan as often as asked, one run after the other; false if one stopped early.
  bool run();
  Diagnostic stall_report() const;
  std::exception_ptr thrown() const { return thrown_; }

 private:
  void collect_waits();
  void collect_kernels();
  std::int64_t launched_blocks(int stage) const;
  void run_once(int number);
  void slot(unsigned seed);
  Kernel* next_kernel(Jitter& jitter);
  bool eligible(Kernel const& kernel) const;
  bool all_complete_before(int launch) const;
  bool all_placed() const;

  /// Each false if it gave up.
  bool run_stage_block(Launch const& launch, std::int64_t index, Jitter& jitter);
  bool run_wait_kernel(Kernel& kernel);
  bool run_worker(Launch const& launch, Jitter& jitter);
  /// The block's life between its start and its post. False if it gave up.
  bool compute(int stage, std::int64_t block, unsigned epoch, Jitter& jitter);
  /// As pdl_wait() in a block of the launch.
  bool wait_for_launches_before(int launch);
  bool wait_for_tile(int stage, std::int64_t tile, unsigned epoch, Jitter& jitter);
  void post(int stage, std::int64_t tile, unsigned epoch, Jitter& jitter);
  StageState& state(int stage) { return *states_[static_cast<std::size_t>(stage)]; }
  StageState const& state(int stage) const { return *states_[static_cast<std::size_t>(stage)]; }

  Plan const& plan_;
  std::vector<TileFunction> const& functions_;
  InterpretOptions options_;
  Progress progress_;
  std::vector<std::unique_ptr<StageState>> states_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<Kernel*> launches_;             ///< those of kernels_ that are the plan's launches
  std::vector<Kernel*> wait_kernels_;         ///< by launch; null: none
  std::vector<unsigned> semaphores_;          ///< never reset between launches
  std::vector<unsigned long long> counters_;  ///< as ChainMemory::counters
  std::int64_t blocks_ = 0;                   ///< of all kernels
  int run_ = 0;                               ///< number of this run of the plan
  std::mutex thrown_mutex_;
  std::exception_ptr thrown_;
};

}  // namespace tessera::run
