// SPDX-License-Identifier: Apache-2.0
// What calls of the device library cost a block, in clocks of its SM: waits that are met and posts, with 4 KB
// of stores outstanding, on a GPU that does nothing else; and what it costs a launch that its blocks count
// themselves when they leave.
//
//     calls [--json <file>]
#include "bench/common/program.hpp"
#include "gpu/device_buffer.hpp"
#include "gpu/event_timer.hpp"
#include "gpu/graph.hpp"
#include "gpu/launch.hpp"
#include "gpu/stream.hpp"
#include "tessera/measure/statistics.hpp"
#include "tessera/sync.cuh"
#include "tessera/sync/runtime_stage.cuh"
#include "turns.cuh"

namespace tessera::bench {

constexpr int k_wide = 24, k_high = 16;

template <int Number, class APolicy>
struct ASet {
  using Policy = APolicy;
  TESSERA_HOST_DEVICE static constexpr TileGrid grid() { return {2, {k_wide, k_high, 1, 1}}; }
  static constexpr int splits = 1;
  static constexpr long long first = Number * k_wide * k_high;
};
template <class Set_>
struct ARow {
  using Set = Set_;
  static constexpr int accesses = 1;
  TESSERA_HOST_DEVICE static constexpr TileBox box(int, Tile const& tile) {
    return cut_box(Set::grid(), {0, k_wide}, {tile.at[1], tile.at[1] + 1});
  }
};
/// Reads a row of set 0 and posts to so many sets, of which it is the producer, too.
template <class Policy, class... Set>
struct AStage {
  static constexpr int index = 0;
  TESSERA_HOST_DEVICE static constexpr TileGrid grid() { return {2, {k_wide, k_high, 1, 1}}; }
  static constexpr int splits = 1;
  using Order = RowMajor;
  static constexpr Start start = Start::worker;
  static constexpr bool custom_order = false;
  static constexpr bool reorder_loads = false;
  static constexpr bool wait_kernel = false;
  static constexpr bool plain_store = false;
  static constexpr bool triggers_at_start = false;
  static constexpr bool completes_after_previous = false;
  static constexpr bool announces_start = false;
  using Operands = tessera::Operands<After<ARow<ASet<0, Policy>>>>;
  using Posts = Sets<Set...>;
  using BeforeStore = Sets<>;
};

namespace {

using namespace tessera::gpu;

constexpr int k_rounds = 401;
constexpr int k_threads = 256;

struct Clocks {
  long long wait, post;
};

/// Block 0 measures; the semaphores are high enough for every wait. `Row`: by wait() for each of the row's
/// tiles instead of one wait_all().
template <bool Row, class Make>
__global__ void __launch_bounds__(k_threads) call(Make make, unsigned* stores, Clocks* clocks) {
  auto stage = make();
  for (int round = 0; round < k_rounds; ++round) {
    __syncthreads();
    long long const begin = clock64();
    Tile const tile = stage.begin(round % (k_wide * k_high), 0);
    if constexpr (Row) {
      for (int x = 0; x < k_wide; ++x) stage.wait(operand_a, Tile{{x, tile.at[1]}});
    } else {
      stage.wait_all(operand_a);
    }
    long long const waited = clock64();
    for (int i = 0; i < 4; ++i) stores[i * k_threads + threadIdx.x] = static_cast<unsigned>(round + i);
    __syncthreads();
    long long const stored = clock64();
    stage.post();
    long long const posted = clock64();
    if (threadIdx.x == 0) clocks[round] = {waited - begin, posted - stored};
  }
}

template <class Description>
struct MakeCompiled {
  ChainMemory memory;
  DeadlineWatch<> watch;
  TESSERA_HOST_DEVICE StageView<Description, DeadlineWatch<>> operator()() const {
    return StageView<Description, DeadlineWatch<>>(memory, watch);
  }
};
struct MakeRuntime {
  RuntimeStage stage;
  ChainMemory memory;
  DeadlineWatch<> watch;
  TESSERA_HOST_DEVICE RuntimeStageView<DeadlineWatch<>> operator()() const {
    return RuntimeStageView<DeadlineWatch<>>(stage, memory, watch);
  }
};

/// So many blocks that do nothing, or count themselves.
template <bool Counts>
__global__ void leave(unsigned long long* left) {
  if (Counts && threadIdx.x == 0) count_one(left);
}

class Calls {
 public:
  Calls() {
    std::vector<unsigned> high(semaphores_.size(), 1u << 20);
    semaphores_.upload(high);
  }

  template <bool Row, class Make>
  void time(std::string const& name, Make const& make) {
    call<Row, Make><<<1, k_threads>>>(make, stores_.get(), clocks_.get());
    ok(cudaGetLastError());
    std::vector<double> wait, post;
    for (auto const& clocks : clocks_.download()) {
      wait.push_back(static_cast<double>(clocks.wait));
      post.push_back(static_cast<double>(clocks.post));
    }
    add(name + ", wait", median(wait), "clocks");
    add(name + ", post", median(post), "clocks");
  }
  template <bool Row, class Policy, class... Set>
  void compiled(std::string const& name) {
    time<Row>("compiled, " + name, MakeCompiled<AStage<Policy, Set...>>{memory(), watch()});
  }
  void runtime(std::string const& name, SemaphoreMap const& map, int posts, bool row) {
    MakeRuntime make;
    make.memory = memory();
    make.watch = watch();
    auto& stage = make.stage;
    stage.grid = {2, {k_wide, k_high, 1, 1}};
    stage.start = Start::worker;
    stage.needs_epoch = true;
    stage.posts = posts;
    std::vector<RuntimeWait> none;  // no policy here divides coordinates
    stage.post = runtime_set(map, stage.grid, 1, 0, none);
    std::vector<RuntimeWait> further;
    for (long long i = 0; i < stage.grid.tiles(); ++i)
      for (int set = 1; set < posts; ++set)
        further.push_back(
            runtime_set(map, stage.grid, 1, set * k_wide * k_high, none).at(tile_of(stage.grid, i)));
    DeviceBuffer<RuntimeWait> further_at(std::max<std::size_t>(1, further.size()));
    if (!further.empty()) further_at.upload(further);
    stage.further = further_at.get();
    stage.operand[0].produced = true;
    stage.operand[0].has_set = true;
    stage.operand[0].set = stage.post;
    std::vector<int> offsets{0};
    std::vector<RuntimeWait> waits;
    bool const whole = map.dimension[0].grouping == Grouping::all;
    for (long long i = 0; i < stage.grid.tiles(); ++i) {
      for (int x = 0; x < (whole ? 1 : k_wide); ++x) {
        Tile const tile{{x, tile_of(stage.grid, i).at[1]}};
        waits.push_back(stage.post.at(tile));
      }
      offsets.push_back(static_cast<int>(waits.size()));
    }
    DeviceBuffer<int> offsets_at(offsets.size());
    DeviceBuffer<RuntimeWait> waits_at(waits.size());
    offsets_at.upload(offsets);
    waits_at.upload(waits);
    stage.operand[0].offsets = offsets_at.get();
    stage.operand[0].waits = waits_at.get();
    if (row)
      time<true>("at run time, " + name, make);
    else
      time<false>("at run time, " + name, make);
  }

  /// A launch of so many blocks, all counting in one word.
  void leaving(int blocks) {
    DeviceBuffer<unsigned long long> left(1, 0);
    Stream stream;
    std::deque<Graph> graphs;
    for (bool const counts : {false, true})
      graphs.emplace_back(stream.get(), [&] {
        for (int i = 0; i < 100; ++i) {
          Shape const shape{static_cast<unsigned>(blocks), 128};
          if (counts)
            launch(shape, stream.get(), leave<true>, left.get());
          else
            launch(shape, stream.get(), leave<false>, left.get());
        }
      });
    auto const us = take_turns(graphs, stream.get(), 31, 100);
    auto const name = std::to_string(blocks) + " blocks that ";
    add(name + "do nothing", median(us[0]), "us");
    add(name + "count when they leave", median(us[1]), "us");
  }

  std::vector<Value> values;

 private:
  void add(std::string const& name, double value, char const* unit) {
    std::printf("%-56s %9.2f %s\n", name.c_str(), value, unit);
    values.push_back({name, value, unit});
  }
  ChainMemory memory() const { return {semaphores_.get(), counters_.get()}; }
  DeadlineWatch<> watch() const { return {record_.get(), 1'000'000'000}; }

  DeviceBuffer<unsigned> semaphores_{4 * k_wide * k_high, 0};
  DeviceBuffer<unsigned long long> counters_{static_cast<std::size_t>(counters_for(1)), 0};
  DeviceBuffer<StallRecord> record_{1, 0};
  DeviceBuffer<unsigned> stores_{4 * k_threads, 0};
  DeviceBuffer<Clocks> clocks_{k_rounds, 0};
};

std::vector<Value> run() {
  Calls calls;
  using T = TileSync;
  calls.compiled<false, T, ASet<0, T>>("TileSync, wait_all for 24 tiles, 1 set");
  calls.compiled<false, T, ASet<0, T>, ASet<1, RowSync>>("TileSync, wait_all for 24 tiles, 2 sets");
  calls.compiled<false, T, ASet<0, T>, ASet<1, RowSync>, ASet<2, GridSync>, ASet<3, T>>(
      "TileSync, wait_all for 24 tiles, 4 sets");
  calls.compiled<false, RowSync, ASet<0, RowSync>>("RowSync, wait_all");
  calls.compiled<true, T, ASet<0, T>>("TileSync, wait for 24 tiles in turn");
  calls.compiled<true, RowSync, ASet<0, RowSync>>("RowSync, wait for 24 tiles in turn");
  SemaphoreMap tile, row;
  row.dimension[0] = {Grouping::all, 1};
  calls.runtime("TileSync, wait_all for 24 tiles, 1 set", tile, 1, false);
  calls.runtime("TileSync, wait_all for 24 tiles, 2 sets", tile, 2, false);
  calls.runtime("TileSync, wait_all for 24 tiles, 4 sets", tile, 4, false);
  calls.runtime("RowSync, wait_all", row, 1, false);
  calls.runtime("TileSync, wait for 24 tiles in turn", tile, 1, true);
  for (int const blocks : {132, 1056}) calls.leaving(blocks);
  return std::move(calls.values);
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  return tessera::bench::report_main(argc, argv, "calls", tessera::bench::run);
}
