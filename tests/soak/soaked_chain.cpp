// SPDX-License-Identifier: Apache-2.0
#include "soak/soaked_chain.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <rapidcheck.h>

#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

#include "run_gpu/hash_tiles.hpp"
#include "support/random_plan.hpp"
#include "tessera/run/chain.hpp"

namespace tessera::soak {
namespace {

void must(cudaError_t error, char const* what) {
  if (error != cudaSuccess) throw std::runtime_error(fmt::format("{}: {}", what, cudaGetErrorString(error)));
}

struct Free {
  void operator()(void* p) const { cudaFree(p); }
};
struct FreeHost {
  void operator()(void* p) const { cudaFreeHost(p); }
};
template <class T>
using OnDevice = std::unique_ptr<T, Free>;

template <class T>
OnDevice<T> on_device(std::size_t count) {
  void* p = nullptr;
  must(cudaMalloc(&p, std::max<std::size_t>(count, 1) * sizeof(T)), "cudaMalloc");
  OnDevice<T> owner(static_cast<T*>(p));
  must(cudaMemset(p, 0, std::max<std::size_t>(count, 1) * sizeof(T)), "cudaMemset");
  return owner;
}
template <class T>
OnDevice<T> copied(std::vector<T> const& values) {
  auto result = on_device<T>(values.size());
  must(cudaMemcpy(result.get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
       "cudaMemcpy");
  return result;
}

/// The first provable plan from the number on.
PlanOnMachine plan_of(std::uint64_t number) {
  // Generators that draw from others while they make a value need what exec() puts around them. It is one for
  // all threads, and chains are made in several.
  static std::mutex one_at_a_time;
  std::lock_guard const lock(one_at_a_time);
  auto const plans = rc::gen::exec([] { return *random::plans({16, 64, {}}); });
  for (std::uint64_t attempt = 0;; ++attempt) {
    auto made = plans(rc::Random(number * 1000 + attempt), 100).value();
    if (prove_progress(made.plan, made.machine)) return made;
  }
}

}  // namespace

struct SoakedChain::State {
  PlanOnMachine made;
  hash_tiles::Layout layout;
  OnDevice<std::uint64_t> values, round;
  OnDevice<std::int32_t> offsets, needs;
  OnDevice<unsigned> runs;
  OnDevice<unsigned long long> sequence, places;
  OnDevice<hash_tiles::Late> late;
  std::unique_ptr<std::uint64_t, FreeHost> seen;  ///< values of the rounds of a batch
  std::size_t rounds_seen = 0;
  cudaStream_t stream = nullptr;
  std::optional<Chain> chain;
  std::optional<ChainGraph> graph;
  std::string refusal;
  std::uint64_t next_round = 1;
  bool throws = false, overflows = false;

  explicit State(std::uint64_t number)
      : made(plan_of(number)), layout(hash_tiles::layout_of(made.plan.pipeline)) {
    auto const count = static_cast<std::size_t>(layout.values);
    values = on_device<std::uint64_t>(count), round = on_device<std::uint64_t>(1);
    offsets = copied(layout.offsets), needs = copied(layout.needs);
    runs = on_device<unsigned>(count), sequence = on_device<unsigned long long>(1);
    places = on_device<unsigned long long>(count), late = on_device<hash_tiles::Late>(1);
    int lowest = 0, highest = 0;
    must(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "priorities");
    auto const priority =
        lowest - static_cast<int>(number % static_cast<std::uint64_t>(lowest - highest + 1));
    must(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority), "stream");
  }
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() {
    graph.reset();
    chain.reset();
    cudaStreamDestroy(stream);
  }

  /// The plan's kernels, whose arguments can be made to fail.
  std::vector<StageKernel> kernels() {
    auto result = hash_tiles::kernels(made.plan, layout,
                                      {values.get(), round.get(), offsets.get(), needs.get(), runs.get(),
                                       sequence.get(), places.get(), late.get()});
    auto& last = result.back();
    last.pack = [this, pack = last.pack](ChainViews const& views, KernelArguments& arguments) {
      if (std::exchange(throws, false)) throw std::runtime_error("a kernel's arguments throw");
      pack(views, arguments);
      if (!std::exchange(overflows, false)) return;
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

  std::string enqueue(std::size_t slot, std::uint64_t number, bool by_graph) {
    auto const bytes = static_cast<std::size_t>(layout.values) * sizeof(std::uint64_t);
    must(cudaMemcpyAsync(round.get(), &number, sizeof number, cudaMemcpyHostToDevice, stream), "round");
    must(cudaMemsetAsync(values.get(), 0xA5, bytes, stream), "poison");
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
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (got[i] != expected[i]) {
        if (batch.wrong++ == 0)
          batch.first_wrong =
              fmt::format("value {} of round {}: {:x}, not {:x}", i, number, got[i], expected[i]);
        return;
      }
  }
};

SoakedChain::SoakedChain(std::uint64_t number, double deadline_seconds)
    : state_(std::make_unique<State>(number)) {
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

Batch SoakedChain::run(int launches, bool by_graph) {
  auto& s = *state_;
  Batch batch;
  s.room_for(static_cast<std::size_t>(launches));
  auto const first = s.next_round;
  for (int i = 0; i < launches && batch.error.empty(); ++i) {
    batch.error = s.enqueue(static_cast<std::size_t>(i), s.next_round, by_graph);
    if (batch.error.empty()) ++s.next_round, ++batch.launches;
  }
  auto const finished = s.chain->finish();
  if (!finished) batch.error += (batch.error.empty() ? "" : "\n") + to_text(finished.error());
  // Copies behind a launch that gave up are still to come.
  must(cudaStreamSynchronize(s.stream), "stream");
  if (batch.error.empty())
    for (std::uint64_t i = 0; i < batch.launches; ++i) s.compare(i, first + i, batch);
  return batch;
}

void SoakedChain::make_a_tile_late(int milliseconds) {
  auto& s = *state_;
  std::mt19937_64 random(s.next_round);
  hash_tiles::Late const late{
      s.next_round, static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(s.layout.values)),
      1000000ll * milliseconds};
  must(cudaMemcpy(s.late.get(), &late, sizeof late, cudaMemcpyHostToDevice), "late");
}

void SoakedChain::throw_at_next_launch() { state_->throws = true; }
void SoakedChain::overflow_at_next_launch() { state_->overflows = true; }

}  // namespace tessera::soak
