// SPDX-License-Identifier: Apache-2.0
// Barriers of a whole grid: cooperative groups' and the library's, whole and split, by blocks on an SM and
// threads in a block; with data handed over; and when blocks do not arrive together.
#include <cooperative_groups.h>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/methods/device_clock.cuh"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/repeat.hpp"
#include "measure/gpu/methods/sm_clock.hpp"
#include "tessera/sync/barrier.cuh"

namespace tessera::probe {
namespace {

constexpr unsigned long long k_deadline_ns = 500'000'000;

struct Cooperative {
  cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  cooperative_groups::grid_group::arrival_token token{};
  __device__ Cooperative(BarrierWords, StallRecord*) {}
  __device__ void arrive() { token = grid.barrier_arrive(); }
  __device__ bool wait() {
    grid.barrier_wait(std::move(token));
    return true;
  }
  __device__ bool sync() {
    grid.sync();
    return true;
  }
};
struct Own : GridBarrier<> {
  __device__ Own(BarrierWords memory, StallRecord*) : GridBarrier<>(memory, blockIdx.x) {}
};
struct OwnWatched : GridBarrier<DeadlineWatch<>> {
  __device__ OwnWatched(BarrierWords memory, StallRecord* stall)
      : GridBarrier<DeadlineWatch<>>(memory, blockIdx.x, {stall, k_deadline_ns}) {}
};
struct OwnClusters : GridBarrier<NoWatch, Party::cluster> {
  __device__ OwnClusters(BarrierWords memory, StallRecord*)
      : GridBarrier<NoWatch, Party::cluster>({memory.words, memory.parties / 2}, blockIdx.x / 2) {}
};

/// Who is late: cycles that a block works before its arrival.
enum class Late { nobody, one, all };
__device__ long long lateness(Late late, int cycles_late, int round) {
  unsigned const turn = static_cast<unsigned>(round) * 2654435761u + blockIdx.x * 40503u;
  if (late == Late::one)
    return (static_cast<unsigned>(round) * 61u) % gridDim.x == blockIdx.x ? cycles_late : 0;
  if (late == Late::all) return static_cast<long long>((turn >> 8) % 1024) * cycles_late / 1024;
  return 0;
}

/// Cycles that a block's first thread spends in the two calls of a split barrier.
struct Parts {
  long long arrive = 0, wait = 0;
};

/// What the loop does besides. At compile time: a few instructions more between two barriers let the polls
/// meet the adds at another moment, and change the figure by 5 %.
enum class Loop {
  bare,
  data,   ///< every thread stores 16 bytes before each barrier and loads another block's after
  split,  ///< cycles of work between arriving and waiting
  late    ///< blocks work before they arrive
};

struct Setting {
  int count = 0;
  int interior = 0;
  Late late = Late::nobody;
  int cycles_late = 0;
};

struct Buffers {
  uint4* data;
  unsigned* wrong;
  Parts* parts;
  StallRecord* stall;
};

template <class Barrier, Loop L>
__global__ void __launch_bounds__(1024) rounds(BarrierWords memory, Setting setting, Buffers buffers) {
  Barrier barrier(memory, buffers.stall);
  unsigned const block = blockIdx.x, blocks = gridDim.x, thread = threadIdx.x, threads = blockDim.x;
  bool ok = true;
  if constexpr (L == Loop::bare)
    for (int i = 0; i < setting.count && ok; ++i) ok = barrier.sync();
  if constexpr (L == Loop::data) {
    unsigned const other = (block + 37) % blocks, from = (thread + 33) % threads;
    unsigned bad = 0;
    for (int i = 0; i < setting.count && ok; ++i) {
      auto const round = static_cast<unsigned>(i);
      uint4* const now = buffers.data + round % 2 * blocks * threads;
      now[block * threads + thread] = make_uint4(round, block, thread, round);
      ok = barrier.sync();
      uint4 const seen = now[other * threads + from];
      bad += seen.x != round || seen.y != other || seen.z != from || seen.w != round;
    }
    ok = ok && bad == 0;
  }
  if constexpr (L == Loop::split) {
    Parts spent;
    for (int i = 0; i < setting.count && ok; ++i) {
      long long const begin = cycles();
      barrier.arrive();
      long long const arrived = cycles();
      spin_cycles(setting.interior);
      long long const waits = cycles();
      ok = barrier.wait();
      spent.arrive += arrived - begin;
      spent.wait += cycles() - waits;
    }
    if (thread == 0) buffers.parts[block] = spent;
  }
  if constexpr (L == Loop::late)
    for (int i = 0; i < setting.count && ok; ++i) {
      spin_cycles(lateness(setting.late, setting.cycles_late, i));
      ok = barrier.sync();
    }
  if (!ok) atomicAdd(buffers.wrong, 1u);
}

struct Kind {
  std::string id, what;
  void (*loops[4])(BarrierWords, Setting, Buffers);
  unsigned cluster = 1;
};
template <class Barrier>
Kind kind(std::string const& id, std::string const& what, unsigned cluster = 1) {
  return {id,
          what,
          {rounds<Barrier, Loop::bare>, rounds<Barrier, Loop::data>, rounds<Barrier, Loop::split>,
           rounds<Barrier, Loop::late>},
          cluster};
}

constexpr unsigned k_places = 8;

class Grid {
 public:
  Grid(Context const& context, Probe& probe)
      : context_(context),
        probe_(probe),
        sms_(static_cast<unsigned>(context.device.multiProcessorCount)),
        words_(std::size_t{k_places} * place_words()),
        data_(std::size_t{2} * sms_ * 2048),
        wrong_(1),
        stall_(1),
        parts_(std::size_t{sms_} * 32) {}

  /// Words of one place, a whole number of lines; the places begin in different slices.
  unsigned place_words() const { return (grid_barrier_words(sms_ * 32) / 32 + 1) * 32 + 352; }

  /// ns of one round; zeros where so many blocks do not fit.
  Cost cost(Kind const& kind, unsigned per_sm, unsigned threads, Loop loop = Loop::bare,
            Setting setting = {}) {
    Shape shape{per_sm * sms_, threads, 0, kind.cluster};
    shape.cooperative = true;
    int fits = 0;
    auto* const kernel = kind.loops[static_cast<int>(loop)];
    ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fits, kernel, static_cast<int>(threads), 0));
    if (static_cast<unsigned>(fits) < per_sm) return {};
    // Another number of blocks than before.
    words_.fill(context_.stream, 0);
    Buffers const buffers{data_.get(), wrong_.get(), parts_.get(), stall_.get()};
    int launches = 0;
    return event_repeat_difference(
        context_.stream, context_.quick ? 50 : 300, context_.quick ? 250 : 1800, context_.quick ? 3 : 9,
        [&](int count) {
          setting.count = last_count_ = count;
          // Two launches make a sample. Which slices of the L2 serve the barrier makes 5 %.
          unsigned* const words =
              words_.get() + static_cast<unsigned>(launches++) / 2 % k_places * place_words();
          launch(shape, context_.stream, kernel, BarrierWords{words, shape.blocks.x}, setting, buffers);
        });
  }

  /// Whether the data were all right so far.
  bool right() const { return wrong_.download()[0] == 0 && stall_.download()[0].state == 0; }

  void add(Subject const& subject, Cost const& cost, bool verified, double less = 0) {
    if (cost.samples == 0) return;
    auto figure = figure_of(subject, cost);
    figure.median -= less;
    figure.p05 -= less;
    figure.p95 -= less;
    figure.verified = verified;
    probe_.figures.push_back(figure);
  }

  /// After a cost() that was split: both calls' ns, of each block.
  void add_parts(Kind const& kind, std::map<std::string, double> const& at, double ghz, bool verified) {
    auto const parts = parts_.download();
    std::vector<double> arrive, wait;
    // The last launch of a repeat difference is one of the longer or shorter ones; which one does not matter.
    for (std::size_t b = 0; b < static_cast<std::size_t>(at.at("blocks")); ++b) {
      arrive.push_back(static_cast<double>(parts[b].arrive) / ghz / last_count_);
      wait.push_back(static_cast<double>(parts[b].wait) / ghz / last_count_);
    }
    std::string const valid = "one figure a block; all others have arrived when it waits";
    for (auto const& [name, samples] : {std::pair{".arrive", arrive}, {".wait_met", wait}}) {
      auto figure = figure_of(
          {kind.id + name, kind.what + ": what the call takes a block", "ns", "stamps", at, valid}, samples);
      figure.verified = verified;
      probe_.figures.push_back(figure);
    }
  }

  std::map<std::string, double> at(unsigned per_sm, unsigned threads) const {
    return {{"blocks", per_sm * sms_}, {"blocks_per_sm", per_sm}, {"threads", threads}};
  }

 private:
  Context const& context_;
  Probe& probe_;
  unsigned sms_;
  DeviceBuffer<unsigned> words_;
  DeviceBuffer<uint4> data_;
  DeviceBuffer<unsigned> wrong_;
  DeviceBuffer<StallRecord> stall_;
  DeviceBuffer<Parts> parts_;
  int last_count_ = 1;
};

}  // namespace

void measure_grid(Context const& context, Probe& probe) {
  Grid grid(context, probe);
  auto const cooperative =
      kind<Cooperative>("grid.barrier.cooperative", "cooperative groups' barrier of the grid");
  auto const watched =
      kind<OwnWatched>("grid.barrier.own.deadline", "the library's barrier of the grid, with deadline");
  auto const own = kind<Own>("grid.barrier.own", "the library's barrier of the grid");
  auto const clusters =
      kind<OwnClusters>("grid.barrier.own.clusters", "the library's barrier of a grid in clusters of two", 2);
  std::string const together = "all blocks arrive together";

  // First with deadlines: it would show that the barrier hangs.
  for (auto const* const kind : {&watched, &own, &cooperative, &clusters}) {
    for (unsigned const per_sm : {1u, 2u, 4u}) {
      auto const at = grid.at(per_sm, 256);
      auto const with_data = grid.cost(*kind, per_sm, 256, Loop::data);
      bool const right = grid.right();
      grid.add({kind->id + ".data", kind->what + ", behind 16 bytes a thread, which others then load", "ns",
                "repeat difference", at, together},
               with_data, right);
      if (kind == &watched || kind == &clusters)
        grid.add({kind->id, kind->what, "ns", "repeat difference", at, together},
                 grid.cost(*kind, per_sm, 256), right);
    }
  }
  bool const right = grid.right();
  // The heat map.
  for (unsigned const threads : {32u, 64u, 128u, 256u, 512u, 1024u})
    for (unsigned const per_sm : {1u, 2u, 4u, 8u, 16u, 32u}) {
      if (threads * per_sm > 2048 || (context.quick && per_sm > 2)) continue;
      for (auto const* const kind : {&cooperative, &own})
        grid.add({kind->id, kind->what, "ns", "repeat difference", grid.at(per_sm, threads), together},
                 grid.cost(*kind, per_sm, threads), right);
    }
  double const ghz = sm_clock_ghz(context);
  // Split: what is left of the barrier beside work between arriving and waiting.
  for (int const interior_ns : {0, 250, 500, 1000, 2000})
    for (auto const* const kind : {&cooperative, &own}) {
      auto at = grid.at(1, 256);
      at["interior_ns"] = interior_ns;
      auto const cost = grid.cost(*kind, 1, 256, Loop::split, {0, static_cast<int>(interior_ns * ghz)});
      grid.add({kind->id + ".split", kind->what + ": what it adds to work between arriving and waiting", "ns",
                "repeat difference", at, together},
               cost, right, interior_ns);
      if (interior_ns == 2000) grid.add_parts(*kind, at, ghz, right);
    }
  // Skew: from the last arrival on.
  for (int const late_ns : {1000, 4000})
    for (auto const* const kind : {&cooperative, &own}) {
      auto at = grid.at(1, 256);
      at["late_ns"] = late_ns;
      auto const one =
          grid.cost(*kind, 1, 256, Loop::late, {0, 0, Late::one, static_cast<int>(late_ns * ghz)});
      grid.add(
          {kind->id + ".one_late", kind->what + ", after the arrival of one late block", "ns",
           "repeat difference", at, "one block, another one each time, comes so much later than the others"},
          one, right, late_ns);
      auto const all =
          grid.cost(*kind, 1, 256, Loop::late, {0, 0, Late::all, static_cast<int>(late_ns * ghz)});
      grid.add({kind->id + ".all_late", kind->what + ", more than the greatest lateness there can be", "ns",
                "repeat difference", at, "every block late by anything from nothing to so much"},
               all, right, late_ns);
    }
}

}  // namespace tessera::probe
