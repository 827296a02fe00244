// SPDX-License-Identifier: Apache-2.0
// A stage as its kernel sees it: start, wait, post.
#pragma once

#include "describe_stage.cuh"
#include "group.cuh"
#include "launch.cuh"
#include "wait.cuh"

namespace tessera {

/// Passed to a kernel by value; trivially copyable. `Description` comes from a generated header:
///
///     template <class Stage>
///     __global__ void gemm(Args args, Stage stage) {
///       Tile const tile = stage.start();
///       for (int k = 0; k < args.slices; ++k) {
///         stage.wait(operand_a, producer_tile(k, tile));   // nothing when operand a has no producer
///         ...
///       }
///       stage.wait_before_store();
///       ...
///       stage.post();
///     }
///
/// The rule that everything rests on: every block of every stage calls start() once and then post() once, the
/// last stage's blocks too. A block that leaves without post() makes its consumers hang, and under T the
/// stage's next launch read old data.
///
/// Launches that share a ChainMemory do not overlap: the next one begins when all stages of the one before
/// are complete (one stream; or streams joined by events; the first kernel without the programmatic
/// attribute).
///
/// Epochs: launch number e (from 0) waits for (e + 1) times the posts of one launch. A block learns e from
/// memory when it starts: a ticket divided by the blocks of a launch; or, without tickets, the number of
/// blocks of its lane (every 64th) that have left in all launches divided by the lane's blocks, where the
/// quotient cannot change while the asking block is still there. Nobody resets anything and the host passes
/// nothing.
template <class Description, class Watch = NoWatch, Scope S = Scope::device>
class StageView {
 public:
  static constexpr long long tiles = Description::grid().tiles();
  static constexpr long long blocks = tiles * Description::splits;
  /// The kernel may load operands without a producer before it waits (R).
  static constexpr bool reorder_loads = Description::reorder_loads;
  template <int I>
  static constexpr bool has_producer = detail::OperandAt<I, typename Description::Operands>::type::produced;

  StageView() = default;
  explicit TESSERA_HOST_DEVICE StageView(ChainMemory const& memory, Watch const& watch = {})
      : memory_(memory), watch_(watch) {}

  /// Decides which tile this block computes. Called by all threads of the block, once, first of all. With
  /// tickets it costs one atomic and a block barrier. `block` is the block's linear index.
  TESSERA_HOST_DEVICE Tile start(long long block) {
    static_assert(
        detail::persistent_blocks_of<Description>(0) == 0,
        "The plan gives this stage a persistent grid, and a StageView computes one tile a block: take "
        "RuntimeStageView, whose next() goes on, or plan with a block for each tile.");
    if constexpr (Description::triggers_at_start) pdl_trigger();
    unsigned epoch = 0;
    if constexpr (Description::start == Start::ticket) {
      unsigned long long const ticket =
          draw_for_block<false>(detail::counter(memory_, Description::index, detail::Counter::started));
      block = static_cast<long long>(ticket % blocks);
      epoch = static_cast<unsigned>(ticket / blocks);
    } else if constexpr (Description::start == Start::block_index) {
      if constexpr (Description::announces_start)
        if (is_leader<Group::block>())
          count_one(detail::counter(memory_, Description::index, detail::Counter::started));
      if constexpr (needs_epoch) {
        lane_ = static_cast<int>(static_cast<unsigned long long>(block) % lanes);
        unsigned long long const left = load_counter(left_counter());
        // Two divisions by constants instead of one by a variable.
        epoch = static_cast<unsigned>(lane_ < blocks % lanes ? left / (blocks / lanes + 1)
                                                             : left / (blocks / lanes));
      }
    }
    return begin(block, epoch);
  }
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
  __device__ Tile start() {
    // 64-bit arithmetic takes a short kernel a measurable part of its time. So does a test for a grid of one
    // dimension: the three indices are read side by side, what hangs on a test is not.
    if constexpr (blocks <= 0x7fffffff)
      return start(static_cast<long long>(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)));
    return start(blockIdx.x + 1LL * gridDim.x * (blockIdx.y + 1LL * gridDim.y * blockIdx.z));
  }
#endif

  /// For who draws by other means (Worker): this block computes block number `block` of launch `epoch`.
  TESSERA_HOST_DEVICE Tile begin(long long block, unsigned epoch) {
    static_assert(RequireOrder<typename Description::Order>::met, "");
    epoch_ = epoch;
    if constexpr (!Description::custom_order && Description::splits == 1) {
      split_ = 0;
      tile_ = tile_of(Description::grid(), block);
    } else if constexpr (!Description::custom_order) {
      split_ = static_cast<int>(block / tiles);
      tile_ = tile_of(Description::grid(), block % tiles);
    } else {
      split_ = static_cast<int>(block % Description::splits);
      tile_ = tile_of(Description::grid(), Description::Order::tile_at(block / Description::splits));
    }
    for (int i = 0; i < operand_slots; ++i) last_[i] = nothing_yet;
    return tile_;
  }

  TESSERA_HOST_DEVICE Tile tile() const { return tile_; }
  TESSERA_HOST_DEVICE int split() const { return split_; }
  TESSERA_HOST_DEVICE unsigned epoch() const { return epoch_; }

  /// Waits until `producer`, a tile of the stage that writes the operand, may be read by ordinary loads of
  /// the group's threads. All threads of the group call it with the same arguments; one polls (acquire, at
  /// scope S), the group's barrier follows. Compiled away for an operand without a producer; a repeated wait
  /// for the same semaphore costs a comparison. From the second wait on, the block's other warps look
  /// meanwhile whether all that its tile reads through the operand is there; if so, every later wait costs a
  /// comparison. So `producer` is a tile of which the plan says that this tile reads it. Where the plan
  /// waits for whole launches it is pdl_wait(). Returns false if a watch gave up (then leave; the data is not
  /// there); without a watch always true.
  template <Group G = Group::block, int I>
  TESSERA_HOST_DEVICE bool wait(OperandIndex<I>, Tile const& producer) {
    using Entry = typename detail::OperandAt<I, typename Description::Operands>::type;
    if constexpr (!Entry::produced) {
      return true;
    } else if constexpr (detail::is_whole_grid<typename Entry::FirstSet>) {
      pdl_wait();
      return true;
    } else if constexpr (detail::is_set<typename Entry::FirstSet>) {
      using Set = SetOf<typename Entry::FirstSet>;
      if constexpr (detail::has_whole_grid<Entry>) pdl_wait();
      if (last_[I] == all_there) return true;
      long long const index = Set::index_of(producer);
      if (index == last_[I]) return true;
      Share const share = share_of<G>();
      // The second wait of many. Not by the first warp: its threads would look one after the other.
      bool const looks = share.step > 32 && last_[I] != nothing_yet;
      bool ok = true;
      bool all = looks;
      if (share.first == 0)
        ok = wait_for<true, Set>(index);
      else if (looks && share.first >= 32)
        all = wait_for_entry<false>(static_cast<Entry*>(nullptr), {share.first - 32, share.step - 32});
      if (looks && group_all<G>(ok && all)) {
        last_[I] = all_there;
        return true;
      }
      if (!together<G, Watch>(ok)) return false;
      last_[I] = waits_for(static_cast<Entry*>(nullptr)) == 1 ? all_there : index;
      return true;
    } else {
      return true;
    }
  }

  /// The same for all producer tiles that this block's tile reads through the operand, with one barrier at
  /// the end. The group's threads poll side by side. What a tile function's caller uses.
  template <Group G = Group::block, int I>
  TESSERA_HOST_DEVICE bool wait_all(OperandIndex<I>) {
    using Entry = typename detail::OperandAt<I, typename Description::Operands>::type;
    if constexpr (!Entry::produced) {
      return true;
    } else {
      if constexpr (detail::has_whole_grid<Entry>) pdl_wait();
      if constexpr (detail::has_sets<Entry>)
        return together<G, Watch>(wait_for_entry<true>(static_cast<Entry*>(nullptr), share_of<G>()));
      return true;
    }
  }

  /// As wait(), for one thread that then reads the tile through TMA: adds the proxy fence.
  template <int I>
  TESSERA_HOST_DEVICE bool wait_for_tma(OperandIndex<I> operand, Tile const& producer) {
    bool const ok = wait<Group::thread>(operand, producer);
    if constexpr (has_producer<I>) fence_proxy_async();
    return ok;
  }

  /// Waits until nobody reads the old contents of a buffer that this stage overwrites. Called by the group
  /// before the block's first store to it. Compiled away where the plan has no such buffer.
  template <Group G = Group::block>
  TESSERA_HOST_DEVICE bool wait_before_store() {
    if constexpr (detail::has_whole_grid<typename Description::BeforeStore>) pdl_wait();
    if constexpr (detail::has_sets<typename Description::BeforeStore>)
      return together<G, Watch>(wait_for_sets(typename Description::BeforeStore{}, share_of<G>()));
    return true;
  }

  /// Says that this block's tile (or its split of it) is complete. Called by the group, once, after the
  /// block's last store; with Group::thread the caller has seen to it that all other threads' stores, and
  /// their start(), are before it. Release at scope S: one fence, then an add, or a plain store, for each
  /// set. The threads must not store to the tile afterwards.
  template <Group G = Group::block>
  TESSERA_HOST_DEVICE void post() {
    if constexpr (Description::Posts::size > 0 || counts_leaving) group_barrier<G>();
    if constexpr (Description::Posts::size > 0 || counts_leaving || leaves_after_previous) {
      if (is_leader<G>()) {
        post_to(typename Description::Posts{});
        // Completion stays transitive: when this kernel is complete, so are all before it.
        if constexpr (leaves_after_previous) pdl_wait();
        if constexpr (counts_leaving) count_one(left_counter());
      }
    }
  }

 private:
  static constexpr bool needs_epoch = detail::any_sets<typename Description::Operands> ||
                                      detail::has_sets<typename Description::BeforeStore> ||
                                      Description::plain_store;
  /// A worker has other blocks to compute: it waits when it leaves, in Worker::next().
  static constexpr bool leaves_after_previous =
      Description::completes_after_previous && Description::start != Start::worker;
  static constexpr bool counts_leaving = Description::start == Start::block_index && needs_epoch;
  static constexpr int operand_slots = Description::Operands::size > 0 ? Description::Operands::size : 1;

  /// Block b counts in lane b % lanes when it leaves.
  static constexpr int lanes = blocks < k_left_lanes ? static_cast<int>(blocks) : k_left_lanes;
  TESSERA_HOST_DEVICE unsigned long long* left_counter() const {
    return detail::counter(memory_, Description::index, detail::Counter::left, lane_);
  }

  /// last_ of an operand before the first wait, and once it has been found complete.
  static constexpr long long nothing_yet = -1;
  static constexpr long long all_there = -2;

  /// `Wait` false: one look.
  template <bool Wait, class Set>
  TESSERA_HOST_DEVICE bool wait_for(long long index) const {
    unsigned const target = (epoch_ + 1u) * Set::posts_of(index);
    if constexpr (!Wait) return reached(load_acquire<S>(memory_.semaphores + index), target);
    return wait_until<S>(memory_.semaphores + index, target, watch_,
                         WaitPlace{Description::index, linear_of(Description::grid(), tile_), index});
  }

  /// How many semaphores this block's tile awaits for an operand.
  template <class... Dependence>
  TESSERA_HOST_DEVICE int waits_for(After<Dependence...>*) const {
    return (waits_for_dependence<Dependence>() + ...);
  }
  template <class Dependence>
  TESSERA_HOST_DEVICE int waits_for_dependence() const {
    int waits = 0;
    if constexpr (detail::is_set<typename Dependence::Set>) {
      for (int access = 0; access < Dependence::accesses; ++access) {
        TileBox const box = Dependence::box(access, tile_);
        if (!box.empty()) waits += SetOf<typename Dependence::Set>::waits_in(box);
      }
    }
    return waits;
  }

  template <bool Wait, class... Dependence>
  TESSERA_HOST_DEVICE bool wait_for_entry(After<Dependence...>*, Share const& share) const {
    int taken = 0;
    return (wait_for_dependence<Wait, Dependence>(share, taken) && ...);
  }

  template <bool Wait, class Dependence>
  TESSERA_HOST_DEVICE bool wait_for_dependence(Share const& share, int& taken) const {
    if constexpr (detail::is_set<typename Dependence::Set>) {
      for (int access = 0; access < Dependence::accesses; ++access)
        if (!wait_for_box<Wait, SetOf<typename Dependence::Set>>(Dependence::box(access, tile_), share,
                                                                 taken))
          return false;
    }
    return true;
  }

  template <bool Wait, class Set>
  TESSERA_HOST_DEVICE bool wait_for_box(TileBox const& box, Share const& share, int& taken) const {
    if (box.empty()) return true;
    int const waits = Set::waits_in(box);
    for (int i = share.first - taken; i < waits; i += share.step)
      if (i >= 0 && !wait_for<Wait, Set>(Set::wait_in(box, i))) return false;
    taken += waits;
    return true;
  }

  template <class... Set>
  TESSERA_HOST_DEVICE bool wait_for_sets(Sets<Set...>, Share const& share) const {
    return (wait_for_set<Set>(share) && ...);
  }
  template <class Set>
  TESSERA_HOST_DEVICE bool wait_for_set(Share const& share) const {
    if constexpr (detail::is_set<Set>) {
      for (long long i = share.first; i < Set::count; i += share.step)
        if (!wait_for<true, SetOf<Set>>(Set::first + i)) return false;
    }
    return true;
  }

  template <class... Set>
  TESSERA_HOST_DEVICE void post_to(Sets<Set...>) const {
    if constexpr (sizeof...(Set) > 0) fence_release<S>();
    (post_one<SetOf<Set>>(), ...);
  }
  template <class Set>
  TESSERA_HOST_DEVICE void post_one() const {
    long long const index = Set::index_of(tile_);
    if constexpr (Description::plain_store) {
      if (Set::posts_of(index) == 1) {
        store_after_fence<S>(memory_.semaphores + index, epoch_ + 1u);
        return;
      }
    }
    add_after_fence<S>(memory_.semaphores + index, 1u);
  }

  ChainMemory memory_;
  Watch watch_;
  Tile tile_;
  int split_ = 0;
  int lane_ = 0;
  unsigned epoch_ = 0;
  long long last_[operand_slots] = {};
};

}  // namespace tessera
