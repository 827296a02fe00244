// SPDX-License-Identifier: Apache-2.0
// The 1000 random loops of tests/agree/loop_test.cpp on a GPU: each accepted one in persistent launches of
// one kernel that a table in device memory drives, with roles and without, with late tiles, equal bits.
#include <chrono>
#include <cstdio>

#include "run_gpu/device_data.hpp"
#include "run_gpu/random_loop_tiles.hpp"
#include "support/loop_meaning.hpp"
#include "support/random_loop.hpp"
#include "tessera/run/device.hpp"

namespace tessera {
namespace {

using loop_table::k_width;
using loop_table::Table;
using loop_table::Values;
using vector_chain::device_array;
using vector_chain::DeviceArray;
using vector_chain::Stream;

constexpr std::uint64_t k_loops = 1000;
/// Whole periods of the longest launch: of up to 27 iterations, in periods of up to 12.
constexpr int k_longest_period = 12;
constexpr int k_most_iterations = 3 * k_longest_period;

/// Room for the largest of all loops, made once.
constexpr std::size_t k_tiles_of_body = loop_table::k_most_stages * loop_table::k_most_tiles;
constexpr std::size_t k_tiles_of_memory = k_tiles_of_body * (loop_table::k_before + k_most_iterations);
constexpr std::size_t k_tiles_of_record = k_tiles_of_body * k_most_iterations;

class RandomLoops : public testing::Test {
 protected:
  void SetUp() override {
    auto here = with_device();
    ASSERT_TRUE(here) << to_text(here.error());
    machine_ = *here;
    table_ = device_array<Table>(1);
    round_ = device_array<std::uint64_t>(1);
    memory_ = device_array<std::uint64_t>(k_tiles_of_memory * k_width);
    record_ = device_array<std::uint64_t>(k_tiles_of_record * k_width);
    runs_ = device_array<unsigned>(k_tiles_of_record);
    stream_ = std::make_unique<Stream>();
    device_ = {table_.get(), round_.get(), memory_.get(), record_.get(), runs_.get()};
  }

  /// By tickets that workers draw; with roles by lists, or by a queue.
  enum class Form { tickets, lists, queue };

  /// The same loop, in blocks of the kernel's size.
  static Loop loop_of(std::uint64_t seed, Form form = Form::tickets) {
    auto loop = random::loop_of(seed);
    int const loaders = form == Form::tickets ? 0 : 32 * detail::k_role_loader_warps;
    for (auto& stage : loop.body.stages) stage.resources = {k_width + loaders, 64, 0};
    return loop;
  }
  Expected<LoopPlan> plan_of(std::uint64_t seed, Loop const& loop) const {
    static constexpr int workers[] = {1, 2, 3, 5, 8, 16, 40};
    return plan_loop(loop, machine_, workers[seed % std::size(workers)]);
  }

  /// Launches of several lengths on the same semaphores, computed by that table; what is wrong first, by
  /// launch, iteration, stage and tile, or empty.
  std::string wrong(std::uint64_t seed, LoopPlan const& plan, Table const& table, Form form = Form::tickets) {
    if (plan.period > k_longest_period) return "the period is longer than the memory";
    auto chain = chain_of(seed, plan, form);
    if (!chain) return to_text(chain.error());
    int launch = 0;
    for (int const iterations : {1, 7, 2 * plan.period + 1 + static_cast<int>(seed % 3)}) {
      ++launches_;
      prepare(table, seed * 4 + static_cast<std::uint64_t>(launch));
      auto const place = fmt::format("launch {} of {} iterations: ", launch++, iterations);
      if (auto const done = chain->launch(*stream_, iterations); !done) return place + to_text(done.error());
      if (auto const done = chain->finish(); !done) return place + to_text(done.error());
      auto const found = compare(table, loop_table::meant(plan.loop, iterations), iterations);
      if (!found.empty()) return place + found;
    }
    return {};
  }

  void all_end_right(Form form) {
    auto const since = std::chrono::steady_clock::now();
    int run = 0, refused = 0;
    for (std::uint64_t seed = 0; seed < k_loops; ++seed) {
      auto const loop = loop_of(seed, form);
      auto const plan = plan_of(seed, loop);
      if (!plan) {
        auto const& code = plan.error().front().code;
        ASSERT_TRUE(code == "E0104" || code == "E0115") << to_text(plan.error()) << '\n'
                                                        << random::text_of(seed, loop);
        ++refused;
        continue;
      }
      ++run;
      ASSERT_EQ(wrong(seed, *plan, loop_table::table_of(loop, k_most_iterations), form), "")
          << plan->plan.launches.front().workers << " workers, period " << plan->period << ", "
          << random::text_of(seed, loop);
      ASSERT_FALSE(HasFailure()) << random::text_of(seed, loop);
    }
    std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - since;
    std::printf("%d loops run in %d launches of one kernel, %d refused; %.1f s\n", run, launches_, refused,
                seconds.count());
    EXPECT_GE(run, 300);
    EXPECT_EQ(run + refused, static_cast<int>(k_loops));
  }

  MachineProfile machine_;
  int launches_ = 0;

 private:
  Expected<random_loop_tiles::TableLoop> chain_of(std::uint64_t seed, LoopPlan const& plan, Form form) const {
    RoleOptions options;
    options.chain.deadline_seconds = 1;
    if (form == Form::tickets) return random_loop_tiles::table_loop(plan, device_, options.chain);
    options.starts_early = seed % 2 == 1;
    if (form == Form::queue) options.dealing = Dealing::queue;
    if (form == Form::lists && seed % 4 > 0)
      for (std::size_t s = 0; s < plan.loop.body.stages.size(); ++s)
        options.tile_bytes.push_back(static_cast<long long>(support::mix(seed, s) % 1000));
    return random_loop_tiles::table_loop(plan, device_, options);
  }
  void prepare(Table const& table, std::uint64_t round) {
    auto const before = loop_table::memory_before(table);
    expect(cudaMemcpyAsync(table_.get(), &table, sizeof table, cudaMemcpyHostToDevice, *stream_));
    expect(cudaMemcpyAsync(round_.get(), &round, sizeof round, cudaMemcpyHostToDevice, *stream_));
    expect(cudaMemcpyAsync(memory_.get(), before.data(), before.size() * sizeof before[0],
                           cudaMemcpyHostToDevice, *stream_));
    expect(cudaMemsetAsync(record_.get(), 0, k_tiles_of_record * k_width * sizeof(std::uint64_t), *stream_));
    expect(cudaMemsetAsync(runs_.get(), 0, k_tiles_of_record * sizeof(unsigned), *stream_));
    expect(cudaStreamSynchronize(*stream_));
  }

  std::string compare(Table const& table, Values const& meant, int iterations) {
    auto const runs = read(runs_.get(), static_cast<std::size_t>(table.tiles_of_body) * k_most_iterations);
    for (int n = 0; n < k_most_iterations; ++n)
      for (int s = 0; s < table.stages; ++s)
        for (int tile = 0; tile < table.stage[s].tiles; ++tile) {
          auto const at = static_cast<std::size_t>(loop_table::record_of(table, s, n, tile) / k_width);
          unsigned const wanted = n < iterations ? 1 : 0;
          if (runs[at] != wanted)
            return fmt::format("iteration {}, stage {}, tile {}: computed {} times, meant was {}", n, s, tile,
                               runs[at], wanted);
        }
    return loop_table::wrong(table,
                             read(memory_.get(), static_cast<std::size_t>(table.tiles_of_memory) * k_width),
                             read(record_.get(), meant.size()), meant);
  }

  template <class T>
  std::vector<T> read(T const* from, std::size_t count) {
    std::vector<T> values(count);
    expect(cudaMemcpyAsync(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost, *stream_));
    expect(cudaStreamSynchronize(*stream_));
    return values;
  }
  static void expect(cudaError_t error) { EXPECT_EQ(error, cudaSuccess) << cudaGetErrorString(error); }

  DeviceArray<Table> table_;
  DeviceArray<std::uint64_t> round_, memory_, record_;
  DeviceArray<unsigned> runs_;
  std::unique_ptr<Stream> stream_;
  random_loop_tiles::Device device_;
};

TEST_F(RandomLoops, AcceptedOnesEndRightForAnyNumberOfIterations) { all_end_right(Form::tickets); }
TEST_F(RandomLoops, WithRolesAndListsTheyEndRight) { all_end_right(Form::lists); }
TEST_F(RandomLoops, WithRolesAndAQueueTheyEndRight) { all_end_right(Form::queue); }

TEST_F(RandomLoops, AWrongTableIsFound) {
  int changed = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    auto const loop = loop_of(seed);
    auto const plan = plan_of(seed, loop);
    auto table = loop_table::table_of(loop, k_most_iterations);
    if (!plan || table.stage[0].operands == 0) continue;
    ++changed;
    table.stage[0].operand[0].reads[1] ^= 1u;
    auto const found = wrong(seed, *plan, table);
    EXPECT_EQ(found.find("launch 0 of 1 iterations: iteration 0, stage 0, tile 1: value 0 is "), 0u)
        << found << '\n'
        << random::text_of(seed, loop);
  }
  EXPECT_GE(changed, 10);
}

// What the other tests rest on: late tiles are late enough to be missed.
TEST_F(RandomLoops, WithoutTheWaitsForEarlierPeriodsTheyAreWrong) {
  int without = 0, are_wrong = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    auto const loop = loop_of(seed);
    auto plan = plan_loop(loop, machine_, 16);
    if (!plan || plan->carried.empty() || plan->period > 4) continue;
    ++without;
    plan->carried.clear();
    plan->reuses.clear();
    if (!wrong(seed, *plan, loop_table::table_of(loop, k_most_iterations)).empty()) ++are_wrong;
  }
  std::printf("%d of %d loops are wrong without the waits for earlier periods\n", are_wrong, without);
  EXPECT_GE(without, 50);
  EXPECT_GE(are_wrong, without / 4);
}

}  // namespace
}  // namespace tessera
