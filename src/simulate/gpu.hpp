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

/// Something that was handed to the GPU: a stage's kernel, a wait kernel in front of one, or the persistent
/// workers of a fused launch.
struct Launch {
  enum class Kind : std::uint8_t { stage, wait_kernel, workers };
  Kind kind = Kind::stage;
  int stage = 0;  ///< of a wait kernel: the stage behind it
  Footprint footprint;
  std::int64_t blocks = 0;
  std::int64_t placed = 0;
  bool eligible = false;
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
  waiting_grid,  ///< PDL: for the completion of the stage before
  waiting,       ///< for a semaphore, before a part of the main loop
  resuming,      ///< a wait's round trip, first latency
  main_loop,
  draining,       ///< what load and compute did not overlap
  waiting_reuse,  ///< for the readers of a buffer that the block overwrites
  storing,
  posting,
  waiting_leave,  ///< PDL with tiles: for the completion of the stage before
  wait_kernel,
};

/// A block slot's contents.
struct Block {
  Phase phase = Phase::vacant;
  bool primed = false;        ///< slices in flight: the next loads cost no latency of their own
  bool loaded_early = false;  ///< its share of the early loads is done
  std::int16_t flows = 0;     ///< shares that it still uses in this phase
  std::int32_t launch = 0;
  std::int32_t stage = 0;
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

struct StageState {
  std::int64_t blocks = 0;
  std::int64_t started = 0;
  std::int64_t left = 0;
  std::int32_t grid_waiters = -1;
  bool complete = false;
  Picoseconds first_start = -1;
  Picoseconds last_end = 0;
};

struct Semaphore {
  std::int64_t count = 0;
  std::int64_t value = 0;  ///< that means ready
  std::int32_t waiters = -1;
};

class Gpu {
 public:
  Gpu(Plan const& plan, MachineProfile const& machine, bool record_tiles);

  /// Until nothing is left to happen. True if every stage completed.
  bool run();
  Timeline timeline() const;

  // For the explanation of a deadlock.
  Plan const& plan() const { return plan_; }
  std::vector<Block> const& blocks() const { return blocks_; }
  std::vector<Launch> const& launches() const { return launches_; }
  std::vector<StageState> const& stages() const { return stages_; }
  std::vector<Semaphore> const& semaphores() const { return semaphores_; }
  int sms() const { return static_cast<int>(sms_.size()); }
  std::vector<TileRecord> const& records() const { return records_; }

 private:
  static constexpr int k_dram = 0;
  static constexpr int k_l2 = 1;
  static constexpr int k_first_sm = 2;
  static constexpr std::int64_t k_padding = -1;  ///< a block's tile that only fills a cluster up

  void add_launches();
  void size_slots();
  void dispatch(std::vector<std::int32_t> const* candidates);
  void fill(int launch, std::vector<std::int32_t> const& candidates);
  bool fits(Sm const& sm, Footprint const& footprint) const;
  void place(int launch, int sm);
  void release(int block);
  void make_eligible(int launch, Picoseconds at);

  void handle(int component);
  void timer(int block);
  void draw_ticket(int block);
  void begin_tile(int block, BlockWork const& work, bool primed);
  void next_tile(int block);
  bool goes_on(Block const& block) const;  ///< a persistent block with another tile after this one
  /// A persistent block whose first tile is done.
  bool is_continued(Block const& block) const {
    auto const stride = plan_.stages[static_cast<std::size_t>(block.stage)].persistent_blocks;
    return stride > 0 && block.position >= stride;
  }
  bool has_to_wait(Block const& block);  ///< for what its first slices read
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
  void stage_started(int stage);
  void stage_left(int stage);

  void wait_for(int block, std::int64_t semaphore, Phase phase);
  void wait_for_stage(int block, int stage, Phase phase);
  void wake(std::int32_t& list, Picoseconds at);
  void stop_waiting(int block);
  void set_active(int block, bool active);
  double computing_time(int sm);
  void sleep_until(int block, Picoseconds at);
  void join(int server, double work, int block);
  void mark(int server);

  bool ready(std::int64_t semaphore) const {
    auto const& s = semaphores_[static_cast<std::size_t>(semaphore)];
    return s.count >= s.value;
  }
  StageCost const& cost(Block const& block) const {
    return (pads(block) ? padding_costs_ : costs_)[static_cast<std::size_t>(block.stage)];
  }
  static bool pads(Block const& block) { return block.tile == k_padding; }
  /// What the stage's block number `position` works on.
  BlockWork work_at(std::size_t stage, std::int64_t position) const;

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
  int first_launch_ = 0;             ///< component of launch 0

  std::vector<StageCost> costs_, padding_costs_;  ///< by stage
  std::vector<AwaitedLists> awaited_;
  std::vector<char> starts_at_once_;        ///< by stage: nothing to load early or to wait for
  std::vector<std::vector<int>> posts_to_;  ///< by stage: indices into plan.semaphores
  std::vector<TileGrid> grids_;
  std::vector<std::vector<std::int64_t>> reuse_;  ///< by stage: semaphores to see before storing
  std::vector<StageState> stages_;
  std::vector<Semaphore> semaphores_;
  std::vector<Launch> launches_;
  std::vector<int> stage_launch_;  ///< launch of a stage
  std::vector<Sm> sms_;
  std::vector<std::int32_t> all_sms_;  ///< 0, 1, 2, ...
  std::vector<std::int32_t> freed_;    ///< SMs that a block left in the instant at hand
  bool new_launch_ = false;            ///< ... or that a launch became eligible in
  std::vector<Block> blocks_;          ///< sm * slots + slot
  std::vector<std::int32_t> slot_runs_;
  int slots_ = 1;
  int slots_seen_ = 1;
  std::int64_t next_ticket_ = 0;
  std::int64_t tickets_ = 0;
  std::size_t implicit_stage_ = 0;  ///< fused, no ticket list: stage by stage
  std::int64_t implicit_position_ = 0;
  Picoseconds active_time_ = 0;
  Picoseconds end_ = 0;
  Picoseconds wait_, latency_, grid_wait_, trigger_;
  std::vector<TileRecord> records_;
};

}  // namespace tessera::simulation
