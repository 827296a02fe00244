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
  std::atomic<std::int64_t> started{0};         ///< blocks, this launch
  std::atomic<std::int64_t> left{
      0};  ///< blocks, this launch; release: a kernel's end makes its writes visible

  explicit StageState(std::int64_t block_count) : blocks(static_cast<std::size_t>(block_count)) {}
};

/// What the dispatcher sees: a stage's kernel, a wait kernel, or the persistent launch.
struct Kernel {
  enum class Kind { stage, wait_kernel, workers };
  Kind kind;
  int stage;  ///< the wait kernel's is the stage that it lets start
  std::int64_t blocks;
  std::atomic<std::int64_t> placed{0};
  std::atomic<bool> complete{false};  ///< wait kernels only

  Kernel(Kind kind_, int stage_, std::int64_t blocks_) : kind(kind_), stage(stage_), blocks(blocks_) {}
};

class Interpreter {
 public:
  Interpreter(Plan const& plan, std::vector<TileFunction> const& functions, InterpretOptions const& options);

  /// All launches, one after the other; false if one stopped early.
  bool run();
  Diagnostic stall_report() const;
  std::exception_ptr thrown() const { return thrown_; }

 private:
  void collect_waits();
  void collect_kernels();
  void launch(int number);
  void slot(unsigned seed);
  Kernel* next_kernel(Jitter& jitter);
  bool eligible(Kernel const& kernel) const;
  bool all_placed() const;

  void run_stage_block(int stage, std::int64_t index, Jitter& jitter);
  void run_wait_kernel(Kernel& kernel);
  void run_worker(Jitter& jitter);
  /// The block's life between its start and its post. False if it gave up.
  bool compute(int stage, std::int64_t block, unsigned epoch, Jitter& jitter);
  bool wait_until_left(int stage);
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
  std::vector<unsigned> semaphores_;          ///< never reset between launches
  std::vector<unsigned long long> counters_;  ///< as ChainMemory::counters
  std::int64_t tickets_ = 0;
  int launch_ = 0;
  std::mutex thrown_mutex_;
  std::exception_ptr thrown_;
};

}  // namespace tessera::run
