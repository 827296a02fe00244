// SPDX-License-Identifier: Apache-2.0
// One GPU running a plan: launches, SMs that hold blocks, blocks that live through their phases.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "awaited_lists.hpp"
#include "event_queue.hpp"
#include "shared_server.hpp"
#include "stage_cost.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::simulation {

/// What a block takes of an SM, rounded as the hardware rounds.
struct Footprint {
  std::int32_t threads = 0;
  std::int32_t registers = 0;
  std::int32_t shared = 0;
};
Footprint footprint(MachineProfile const& machine, Resources const& resources);

/// Something that was handed to the GPU: the blocks of a launch, or the wait kernel in front of one.
struct Kernel {
  enum class Kind : std::uint8_t { stage, wait_kernel, workers };
  Kind kind = Kind::stage;
  int launch = 0;  ///< of the plan; of a wait kernel: the launch behind it
  int stage = 0;   ///< the launch's first
  Footprint footprint;
  std::int64_t blocks = 0;
  std::int64_t placed = 0;
  std::int64_t left = 0;
  bool eligible = false;
  bool complete = false;
  int after = -1;  ///< early: the kernel that has to be complete before a block leaves; -1: none
  std::int32_t completion_waiters = -1;

  // Workers.
  std::int64_t tickets = 0;
  std::int64_t next_ticket = 0;
  int ticket_stage = 0;  ///< without a list of tickets: stage by stage
  std::int64_t ticket_position = 0;
};

struct Sm {
  Footprint free;
  std::int32_t resident = 0;
  std::int32_t computing = 0;  ///< blocks in their main loop, not waiting
  double computing_time = 0;   ///< integral of `computing` over time, up to computing_since
  Picoseconds computing_since = 0;
  std::int32_t active = 0;  ///< blocks not waiting
  Picoseconds active_since = 0;
};

enum class Phase : std::uint8_t {
  vacant,
  starting,  ///< prologue and ticket
  loading_early,
  waiting_grid,  ///< early: for the completion of the launches before, before the main loop
  waiting,       ///< for a semaphore, before a part of the main loop
  resuming,      ///< a wait's round trip, first latency
  main_loop,
  draining,       ///< what load and compute did not overlap
  waiting_reuse,  ///< for the readers of a buffer that the block overwrites: a semaphore or completion
  storing,
  posting,
  waiting_leave,  ///< early: for the completion of the launches before, with nothing left to do
  wait_kernel,
};

/// A block slot's contents.
struct Block {
  Phase phase = Phase::vacant;
  bool primed = false;        ///< slices in flight: the next loads cost no latency of their own
  bool loaded_early = false;  ///< its share of the early loads is done
  bool pads = false;          ///< only fills up the cluster of its tile
  std::int16_t flows = 0;     ///< shares that it still uses in this phase
  std::int32_t kernel = 0;
  std::int32_t stage = 0;  ///< -1: a worker without a ticket
  std::int32_t split = 0;
  std::int32_t sm = 0;
  std::int32_t slot = 0;
  std::int32_t next = -1;  ///< in a wake-up list
  std::int32_t wait_position = 0;
  std::int32_t wait_count = 0;
  std::int64_t wait_list = 0;
  std::int64_t wait_begin = 0;
  std::int64_t tile = 0;
  std::int64_t position = 0;    ///< of the tile in the stage's order; needed by persistent blocks
  std::int64_t waits_for = -1;  ///< semaphore
  double done = 0;              ///< share of the main loop that is finished
  double target = 0;            ///< ... that will be at the end of this part
  double part_computing = 0;    ///< the SM's computing_time when the part began
  Picoseconds part_start = 0;
  Picoseconds memory_end = 0;
  Picoseconds compute_end = 0;
  Picoseconds waiting_since = 0;
  Picoseconds started = 0, ready = -1, loaded = 0, stored = 0, waiting = 0;
};

/// What a block works on; `pads`: it only fills up the cluster of that tile.
struct TileWork {
  BlockWork work;
  bool pads = false;
};

struct StageState {
  std::int64_t blocks = 0;
  std::int64_t started = 0;
  std::int64_t left = 0;
  Picoseconds first_start = -1;
  Picoseconds last_end = 0;

  bool complete() const { return left == blocks; }
};

/// What a stage's tiles wait for beside semaphores in their main loop.
struct StageWaits {
  bool grid_first = false;          ///< for the launches before, before the main loop
  bool grid_before_store = false;   ///< ... before they overwrite a buffer that an earlier stage read
  std::vector<std::int64_t> reuse;  ///< semaphores to see before storing
};

struct Semaphore {
  std::int64_t count = 0;
  std::int64_t value = 0;  ///< that means ready
  Picoseconds seen = 0;    ///< when those who wait may see that it is
  std::int32_t waiters = -1;
};

class Gpu {
 public:
  Gpu(Plan const& plan, MachineProfile const& machine, double clock_ghz, SimulateOptions const& options);

  /// Until nothing is left to happen. True if every stage completed.
  bool run();
  Timeline timeline() const;

  // For the explanation of a deadlock.
  Plan const& plan() const { return plan_; }
  std::vector<Block> const& blocks() const { return blocks_; }
  /// That of a stage's launch.
  Kernel const& kernel_of(int stage) const {
    return kernels_[static_cast<std::size_t>(kernel_of_stage_[static_cast<std::size_t>(stage)])];
  }
  std::vector<StageState> const& stages() const { return stages_; }
  std::vector<Semaphore> const& semaphores() const { return semaphores_; }
  int sms() const { return static_cast<int>(sms_.size()); }
  std::vector<TileRecord> const& records() const { return records_; }

 private:
  static constexpr int k_dram = 0;
  static constexpr int k_l2 = 1;
  static constexpr int k_first_sm = 2;

  // gpu_events.cpp, which starts and runs everything
  void add_stages();
  void add_semaphores();
  void add_machine(double clock_ghz);
  void handle(int component);

  // gpu_launches.cpp: when kernels may start, and when they are complete
  void add_kernels();
  void start_group(std::size_t group, Picoseconds at);
  void make_eligible(int kernel, Picoseconds at);
  void all_placed(Kernel const& kernel);
  void block_left(int kernel);
  void stage_started(int stage);
  void stage_left(int stage);

  // gpu_dispatch.cpp
  void size_slots();
  void dispatch(std::vector<std::int32_t> const* candidates);
  void fill(int kernel, std::vector<std::int32_t> const& candidates);
  bool fits(Sm const& sm, Footprint const& footprint) const;
  void place(int kernel, int sm);
  void release(int block);

  // gpu_tiles.cpp: which tile a block computes next
  void draw_ticket(int block);
  void begin_tile(int block, TileWork const& work, bool primed);
  void next_tile(int block);
  bool goes_on(Block const& block) const;  ///< a persistent block with another tile after this one
  /// A persistent block whose first tile is done.
  bool is_continued(Block const& block) const {
    auto const stride = plan_.stages[static_cast<std::size_t>(block.stage)].persistent_blocks;
    return stride > 0 && block.position >= stride;
  }
  /// What the stage's block number `position` works on.
  TileWork work_at(std::size_t stage, std::int64_t position) const;

  // gpu.cpp: the life of a block
  void timer(int block);
  void start_prologue(int block, Picoseconds time);
  void after_prologue(int block);
  void after_early_loads(int block);
  void next_part(int block);
  void start_part(int block);
  void part_flows_done(int block);
  void part_done(int block);
  void reuse_or_store(int block);
  void start_store(int block);
  void flow_done(int block, bool compute);
  void store_done(int block);
  void post(int block);
  void leave(int block);
  void finish(int block);
  void record(int block);
  double computing_time(int sm);
  void join(int server, double work, int block);
  void mark(int server);

  // gpu_waits.cpp
  bool has_to_wait(Block const& block);  ///< for what its first slices read
  bool launches_before_complete(Block const& block) const;
  void wait_for(int block, std::int64_t semaphore, Phase phase);
  void wait_for_launches_before(int block, Phase phase);
  void start_waiting(int block, std::int32_t& waiters, Phase phase);
  void wake(std::int32_t& list, Picoseconds at);
  void stop_waiting(int block);
  void set_active(int block, bool active);
  void sleep_until(int block, Picoseconds at);

  bool ready(std::int64_t semaphore) const {
    auto const& s = semaphores_[static_cast<std::size_t>(semaphore)];
    return s.count >= s.value && s.seen <= now_;
  }
  StageCost const& cost(Block const& block) const {
    return (block.pads ? padding_costs_ : costs_)[static_cast<std::size_t>(block.stage)];
  }

  Plan const& plan_;
  MachineProfile const& machine_;
  bool record_tiles_;
  Picoseconds now_ = 0;
  EventQueue queue_;
  std::vector<SharedServer> servers_;  ///< DRAM, L2, then a matrix unit for each SM
  std::vector<char> dirty_;
  std::vector<int> dirty_list_;
  std::vector<std::int32_t> ended_;  ///< flows that ended in the event at hand
  int first_block_ = 0;              ///< component of block slot 0
  int first_kernel_ = 0;             ///< component of kernel 0

  std::vector<StageCost> costs_, padding_costs_;   ///< by stage
  std::vector<std::vector<std::int64_t>> padded_;  ///< by stage: with_padding(), where something pads
  std::vector<Picoseconds> seen_later_;            ///< by stage
  std::vector<AwaitedLists> awaited_;
  std::vector<char> starts_at_once_;        ///< by stage: nothing to load early or to wait for
  std::vector<std::vector<int>> posts_to_;  ///< by stage: indices into plan.semaphores
  std::vector<TileGrid> grids_;
  std::vector<StageWaits> waits_;
  std::vector<StageState> stages_;
  std::vector<Semaphore> semaphores_;
  std::vector<Kernel> kernels_;
  std::vector<int> kernel_of_launch_;
  std::vector<int> kernel_of_stage_;
  std::vector<LaunchGroup> groups_;
  std::vector<int> running_;  ///< by group: launches that are not complete
  std::vector<Sm> sms_;
  std::vector<std::int32_t> all_sms_;  ///< 0, 1, 2, ...
  std::vector<std::int32_t> freed_;    ///< SMs that a block left in the instant at hand
  bool new_kernel_ = false;            ///< ... or that a kernel became eligible in
  std::vector<Block> blocks_;          ///< sm * slots + slot
  std::vector<std::int32_t> slot_runs_;
  int slots_ = 1;
  int slots_seen_ = 1;
  Picoseconds active_time_ = 0;
  double counted_dram_bytes_ = 0;      ///< of launches that are not looked into
  Picoseconds counted_dram_time_ = 0;  ///< in which they are bound by it
  Picoseconds end_ = 0;
  Picoseconds wait_, grid_wait_, trigger_;
  std::vector<TileRecord> records_;
};

}  // namespace tessera::simulation
