// SPDX-License-Identifier: Apache-2.0
#include "soak/soaked_chain.hpp"

#include <rapidcheck.h>

#include <optional>
#include <sstream>
#include <vector>

#include "run_gpu/hash_tiles.hpp"
#include "soak/in_turns.hpp"
#include "soak/random_values.hpp"
#include "soak/streams.hpp"
#include "soak/waited_tiles.hpp"
#include "support/random_plan.hpp"
#include "tessera/run/chain.hpp"

namespace tessera::soak {
namespace {

struct FreeHost {
  void operator()(void* p) const { cudaFreeHost(p); }
};

/// The first provable plan from the number on.
PlanOnMachine plan_of(std::uint64_t number, bool waits) {
  // Generators that draw from others while they make a value need what exec() puts around them.
  std::lock_guard const lock(random_values());
  auto const plans = rc::gen::exec([] { return *random::plans({16, 64, {}}); });
  for (std::uint64_t attempt = 0;; ++attempt) {
    auto made = plans(rc::Random(number * 1000 + attempt), 100).value();
    if ((!waits || !waited_stages(made.plan).empty()) && prove_progress(made.plan, made.machine)) return made;
  }
}

/// What goes wrong in one launch of a batch.
struct Armed {
  Fault fault = Fault::none;
  std::uint64_t round = 0;
  std::size_t kernel = 0;
};

}  // namespace

struct SoakedChain::State {
  PlanOnMachine made;
  hash_tiles::Layout layout;
  double deadline_seconds;
  OnDevice<std::uint64_t> values, round;
  OnDevice<std::int32_t> offsets, needs;
  OnDevice<unsigned> runs;
  OnDevice<unsigned long long> sequence, places;
  OnDevice<HeldTile> held;
  std::unique_ptr<std::uint64_t, FreeHost> seen;  ///< values of the rounds of a batch
  std::size_t rounds_seen = 0;
  TurnStreams streams;
  std::optional<Chain> chain;
  std::optional<ChainGraph> graph;
  std::string refusal;
  std::uint64_t next_round = 1, enqueued_round = 0;
  std::size_t kernel_count = 0;
  Armed armed;

  State(std::uint64_t number, bool waits, double deadline)
      : made(plan_of(number, waits)),
        layout(hash_tiles::layout_of(made.plan.pipeline)),
        deadline_seconds(deadline),
        streams(number) {
    auto const count = static_cast<std::size_t>(layout.values);
    values = on_device<std::uint64_t>(count), round = on_device<std::uint64_t>(1);
    offsets = copied(layout.offsets), needs = copied(layout.needs);
    runs = on_device<unsigned>(count), sequence = on_device<unsigned long long>(1);
    places = on_device<unsigned long long>(count), held = on_device<HeldTile>(1);
  }
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() {
    graph.reset();
    chain.reset();
  }

  /// The plan's kernels, whose arguments can be made to fail.
  std::vector<StageKernel> kernels() {
    auto result = hash_tiles::kernels(made.plan, layout,
                                      {values.get(), round.get(), offsets.get(), needs.get(), runs.get(),
                                       sequence.get(), places.get(), held.get()});
    kernel_count = result.size();
    for (std::size_t k = 0; k < result.size(); ++k)
      result[k].pack = [this, k, pack = result[k].pack](ChainViews const& views, KernelArguments& arguments) {
        bool const now = armed.round == enqueued_round && armed.kernel == k;
        if (now && armed.fault == Fault::exception) throw std::runtime_error("a kernel's arguments throw");
        pack(views, arguments);
        if (!now || armed.fault != Fault::bad_enqueue) return;
        struct Large {
          std::byte bytes[4096];
        };
        for (int i = 0; i < 16; ++i) arguments.add(Large{});
      };
    return result;
  }

  void room_for(std::size_t rounds) {
    if (rounds <= rounds_seen) return;
    void* p = nullptr;
    must(cudaMallocHost(&p, rounds * static_cast<std::size_t>(layout.values) * sizeof(std::uint64_t)),
         "host");
    seen.reset(static_cast<std::uint64_t*>(p));
    rounds_seen = rounds;
  }

  std::string enqueue(std::size_t slot, std::uint64_t number, bool by_graph, cudaStream_t stream) {
    auto const bytes = static_cast<std::size_t>(layout.values) * sizeof(std::uint64_t);
    must(cudaMemcpyAsync(round.get(), &number, sizeof number, cudaMemcpyHostToDevice, stream), "round");
    must(cudaMemsetAsync(values.get(), 0xA5, bytes, stream), "poison");
    enqueued_round = number;
    try {
      auto const launched = by_graph ? graph->launch(stream) : chain->launch(stream);
      if (!launched) return to_text(launched.error());
    } catch (std::exception const& error) {
      return error.what();
    }
    must(cudaMemcpyAsync(seen.get() + slot * static_cast<std::size_t>(layout.values), values.get(), bytes,
                         cudaMemcpyDeviceToHost, stream),
         "values");
    return {};
  }

  void compare(std::size_t slot, std::uint64_t number, Batch& batch) const {
    auto const expected = hash_tiles::reference(made.plan.pipeline, layout, number);
    auto const* got = seen.get() + slot * expected.size();
    ++batch.compared;
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (got[i] != expected[i]) {
        if (batch.wrong++ == 0)
          batch.first_wrong =
              fmt::format("value {} of round {}: {:x}, not {:x}", i, number, got[i], expected[i]);
        return;
      }
  }

  /// A value of a stage whose tiles others wait for, if there is one.
  std::int64_t waited_place(std::uint64_t random) const {
    auto stages = waited_stages(made.plan);
    if (stages.empty()) return static_cast<std::int64_t>(random % static_cast<std::uint64_t>(layout.values));
    auto const s = static_cast<std::size_t>(stages[random % stages.size()]);
    auto const& stage = made.plan.pipeline.stages[s];
    return layout.base[s] +
           static_cast<std::int64_t>(random / 7 % static_cast<std::uint64_t>(stage.blocks()));
  }
};

SoakedChain::SoakedChain(std::uint64_t number, bool waits, double deadline_seconds)
    : state_(std::make_unique<State>(number, waits, deadline_seconds)) {
  ChainOptions options;
  options.deadline_seconds = deadline_seconds;
  auto chain = Chain::make(state_->made.plan, state_->kernels(), options);
  if (!chain) {
    state_->refusal = to_text(chain.error());
    return;
  }
  state_->chain.emplace(std::move(*chain));
  auto graph = state_->chain->capture();
  if (graph)
    state_->graph.emplace(std::move(*graph));
  else
    state_->refusal = to_text(graph.error());
}

SoakedChain::~SoakedChain() = default;

std::string const& SoakedChain::refusal() const { return state_->refusal; }

std::string SoakedChain::description() const {
  std::ostringstream text;
  rc::show(state_->made, text);
  return text.str();
}

Batch SoakedChain::run(int launches, int threads, bool by_graph) {
  auto& s = *state_;
  Batch batch;
  s.room_for(static_cast<std::size_t>(launches));
  s.streams.make(threads);
  auto const first = s.next_round;
  std::uint64_t enqueued = 0;
  in_turns(launches, threads, [&](int i, int thread) {
    auto const slot = static_cast<std::uint64_t>(i);
    batch.error = s.enqueue(slot, first + slot, by_graph, s.streams.begin(thread));
    s.streams.behind(thread);
    enqueued += batch.error.empty() ? 1 : 0;
    return batch.error.empty();
  });
  // No round comes twice: a tile is held, or an enqueue fails, in one of them.
  s.next_round = first + static_cast<std::uint64_t>(launches);
  auto const finished = s.chain->finish();
  if (!finished) batch.error += (batch.error.empty() ? "" : "\n") + to_text(finished.error());
  // Copies behind a launch that gave up are still to come.
  s.streams.wait();
  auto const armed = std::exchange(s.armed, {});
  bool const in_one = armed.fault != Fault::none && armed.fault != Fault::held_sms;
  // Launches before the one that went wrong are right, whatever was said.
  std::uint64_t const sound = batch.error.empty() ? enqueued : in_one ? armed.round - first : 0;
  for (std::uint64_t i = 0; i < std::min(sound, enqueued); ++i) s.compare(i, first + i, batch);
  return batch;
}

void SoakedChain::break_launch(int at, Fault fault, std::uint64_t random) {
  auto& s = *state_;
  s.armed = {fault, s.next_round + static_cast<std::uint64_t>(at), random % s.kernel_count};
  if (fault != Fault::held_tile) return;
  // Shorter than finish() waits for a launch that does not get on, and long enough for others to give up.
  auto const limit_ns = static_cast<unsigned long long>(5e9 * s.deadline_seconds);
  HeldTile const held{s.armed.round, s.waited_place(random), &s.chain->views().stall->state, limit_ns};
  must(cudaMemcpyAsync(s.held.get(), &held, sizeof held, cudaMemcpyHostToDevice, s.streams[0]), "held tile");
  s.streams.behind(0);
  must(cudaStreamSynchronize(s.streams[0]), "held tile");
}

}  // namespace tessera::soak
