// SPDX-License-Identifier: Apache-2.0
#include "soak/soaked_loop.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "run_gpu/random_loop_tiles.hpp"
#include "run_gpu/told_stall.hpp"
#include "soak/compare.hpp"
#include "soak/random_values.hpp"
#include "soak/streams.hpp"
#include "support/loop_meaning.hpp"
#include "support/random_loop.hpp"
#include "tessera/plan/loop_plan.hpp"
#include "tessera/run/device.hpp"

namespace tessera::soak {
namespace {

using loop_table::Values;

enum class Form { tickets, lists, queue };

/// The first loop from the number on that there is a plan for.
struct Made {
  std::uint64_t seed;
  Form form;
  Loop loop;
  LoopPlan plan;
};
Made loop_of(std::uint64_t number) {
  std::lock_guard const lock(random_values());
  auto const machine = with_device();
  if (!machine) throw std::runtime_error(to_text(machine.error()));
  constexpr std::uint64_t k_loops = 1000;  // as many as are tried elsewhere, too
  for (std::uint64_t seed = number % k_loops;; seed = (seed + 1) % k_loops) {
    auto const form = static_cast<Form>(number % 3);
    auto loop = random::loop_of(seed);
    int const loaders = form == Form::tickets ? 0 : 32 * detail::k_role_loader_warps;
    for (auto& stage : loop.body.stages) stage.resources = {loop_table::k_width + loaders, 64, 0};
    static constexpr int workers[] = {2, 3, 5, 8, 16, 40};
    auto plan = plan_loop(loop, *machine, workers[number % std::size(workers)]);
    if (plan && plan->period <= 12) return {seed, form, loop, *plan};
  }
}

}  // namespace

struct SoakedLoop::State {
  Made made;
  double deadline_seconds;
  int iterations;
  loop_table::Table table;
  Values before, meant, after;
  TurnStreams streams;
  OnDevice<loop_table::Table> on_device_table;
  OnDevice<std::uint64_t> round, memory, record, memory_before, record_meant, memory_after;
  OnDevice<unsigned> runs;
  OnDevice<HeldTile> held;
  OnDevice<Comparisons> comparisons;  ///< of each launch of a batch: of its record, and of its memory
  std::size_t room = 0;
  unsigned* let_go = nullptr;  ///< pinned: the held tile goes on
  std::uint64_t next_round = 1, held_round = 0;
  std::optional<random_loop_tiles::TableLoop> chain;
  std::string refusal;

  State(std::uint64_t number, double deadline)
      : made(loop_of(number)),
        deadline_seconds(deadline),
        iterations(number % 5 == 0 ? 1 : made.plan.period + static_cast<int>(number % 15)),
        table(loop_table::table_of(made.loop, iterations)),
        before(loop_table::memory_before(table)),
        meant(loop_table::meant(made.loop, iterations)),
        after(loop_table::memory_after(table, meant)),
        streams(number) {
    on_device_table = copied(std::vector{table});
    round = on_device<std::uint64_t>(1);
    memory = on_device<std::uint64_t>(before.size()), record = on_device<std::uint64_t>(meant.size());
    memory_before = copied(before), record_meant = copied(meant), memory_after = copied(after);
    runs = on_device<unsigned>(meant.size() / loop_table::k_width);
    held = on_device<HeldTile>(1);
    void* p = nullptr;
    must(cudaMallocHost(&p, sizeof(unsigned)), "host");
    let_go = static_cast<unsigned*>(p);
    *let_go = 0;
    make_chain();
  }
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() {
    chain.reset();
    cudaFreeHost(let_go);
  }

  void make_chain() {
    random_loop_tiles::Device const device{on_device_table.get(), round.get(), memory.get(),
                                           record.get(),          runs.get(),  held.get()};
    ChainOptions options;
    options.deadline_seconds = deadline_seconds;
    RoleOptions roles;
    roles.chain = options;
    if (made.form == Form::queue) roles.dealing = Dealing::queue;
    auto outcome = made.form == Form::tickets ? random_loop_tiles::table_loop(made.plan, device, options)
                                              : random_loop_tiles::table_loop(made.plan, device, roles);
    if (outcome)
      chain.emplace(std::move(*outcome));
    else
      refusal = to_text(outcome.error());
  }

  template <class T>
  void put(OnDevice<T> const& to, OnDevice<T> const& from, std::size_t count, cudaStream_t stream) const {
    must(cudaMemcpyAsync(to.get(), from.get(), count * sizeof(T), cudaMemcpyDeviceToDevice, stream), "copy");
  }

  std::string enqueue(std::size_t slot, std::uint64_t number, cudaStream_t stream) {
    must(cudaMemcpyAsync(round.get(), &number, sizeof number, cudaMemcpyHostToDevice, stream), "round");
    put(memory, memory_before, before.size(), stream);
    must(cudaMemsetAsync(record.get(), 0xA5, meant.size() * sizeof(std::uint64_t), stream), "poison");
    if (auto const launched = chain->launch(stream, iterations); !launched) return to_text(launched.error());
    auto* const found = comparisons.get() + 2 * slot;
    constexpr std::size_t k_words = sizeof(std::uint64_t) / 2;
    must(enqueue_comparison(record.get(), record_meant.get(), meant.size() * k_words, false, found, stream),
         "comparison");
    must(enqueue_comparison(memory.get(), memory_after.get(), after.size() * k_words, false, found + 1,
                            stream),
         "comparison");
    return {};
  }

  /// Perhaps nobody waits for it.
  void let_go_behind_a_stall() const {
    auto const since = std::chrono::steady_clock::now();
    while (!gpu::a_stall_is_told() &&
           std::chrono::steady_clock::now() - since < std::chrono::duration<double>(3 * deadline_seconds))
      std::this_thread::yield();
    __atomic_store_n(let_go, 1u, __ATOMIC_RELEASE);
  }
};

SoakedLoop::SoakedLoop(std::uint64_t number, double deadline_seconds)
    : state_(std::make_unique<State>(number, deadline_seconds)) {}
SoakedLoop::~SoakedLoop() = default;

std::string const& SoakedLoop::refusal() const { return state_->refusal; }

std::string SoakedLoop::description() const {
  static char const* const forms[] = {"by tickets", "with roles, by lists", "with roles, by a queue"};
  auto const& made = state_->made;
  return fmt::format("{} workers {}, {} iterations, period {}, {}", made.plan.plan.launches.front().workers,
                     forms[static_cast<int>(made.form)], state_->iterations, made.plan.period,
                     random::text_of(made.seed, made.loop));
}

Batch SoakedLoop::run(int launches) {
  auto& s = *state_;
  Batch batch;
  auto const count = static_cast<std::size_t>(launches);
  auto const stream = s.streams[0];
  if (count > s.room) s.comparisons = on_device<Comparisons>(2 * count), s.room = count;
  must(cudaMemsetAsync(s.comparisons.get(), 0, 2 * count * sizeof(Comparisons), stream), "comparisons");
  auto const first = s.next_round;
  s.next_round += count;
  std::size_t enqueued = 0;
  for (std::size_t i = 0; i < count && batch.error.empty(); ++i) {
    batch.error = s.enqueue(i, first + i, stream);
    if (batch.error.empty()) ++enqueued;
    if (first + i == s.held_round) s.let_go_behind_a_stall();
  }
  auto const finished = s.chain->finish();
  if (!finished) batch.error += (batch.error.empty() ? "" : "\n") + to_text(finished.error());
  std::vector<Comparisons> found(2 * count);
  must(cudaMemcpyAsync(found.data(), s.comparisons.get(), found.size() * sizeof(Comparisons),
                       cudaMemcpyDeviceToHost, stream),
       "comparisons");
  must(cudaStreamSynchronize(stream), "stream");
  // Launches before the one that went wrong are right, whatever was said.
  std::size_t const sound = batch.error.empty()     ? enqueued
                            : s.held_round >= first ? static_cast<std::size_t>(s.held_round - first)
                                                    : 0;
  for (std::size_t i = 0; i < std::min(sound, enqueued); ++i) {
    must(found[2 * i].done == 1 && found[2 * i + 1].done == 1, "a launch was not compared");
    ++batch.compared;
    auto const words = found[2 * i].differing + found[2 * i + 1].differing;
    if (words > 0 && batch.wrong++ == 0)
      batch.first_wrong = fmt::format("{} words of record and memory of launch {}", words, i);
  }
  return batch;
}

void SoakedLoop::hold_a_tile(int at, std::uint64_t random) {
  auto& s = *state_;
  *s.let_go = 0;
  s.held_round = s.next_round + static_cast<std::uint64_t>(at);
  auto const tiles = s.meant.size() / loop_table::k_width;
  HeldTile const held{s.held_round, static_cast<std::int64_t>(random % tiles), s.let_go,
                      static_cast<unsigned long long>(5e9 * s.deadline_seconds)};
  must(cudaMemcpyAsync(s.held.get(), &held, sizeof held, cudaMemcpyHostToDevice, s.streams[0]), "held tile");
  must(cudaStreamSynchronize(s.streams[0]), "held tile");
}

}  // namespace tessera::soak
