// SPDX-License-Identifier: Apache-2.0
#include "mlp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <tessera/plan/resize.hpp>
#include <tessera/run/bindings.hpp>
#include <tessera/run/device.hpp>
#include <tessera/shipped_kernels.hpp>
#include <tessera/tune/cache_file.hpp>
#include <tessera/tune/key.hpp>
#include <tessera/tune/plans.hpp>

#include "graph.hpp"
#include "kernels/bindings/families.hpp"
#include "kernels/common/recent.hpp"
#include "kernels/common/refusal.hpp"
#include "src/gpu/relaxed_capture.hpp"

namespace tessera::mlp {
namespace {

using gpu::RelaxedCapture;
using kernels::cuda_failed;
using kernels::refusal;

bool aligned(void const* pointer, std::uintptr_t to = 16) {
  return pointer != nullptr && reinterpret_cast<std::uintptr_t>(pointer) % to == 0;
}

/// For matrices of kernels that are bound and never launched.
void* nowhere() { return reinterpret_cast<void*>(std::uintptr_t{4096}); }

tl::unexpected<Diagnostics> bad_argument(std::string const& message, std::string const& hint) {
  return refusal("E0536", message, hint);
}

Bindings const& bindings() {
  static auto const& shipped = *new Bindings(shipped_bindings());
  return shipped;
}

}  // namespace

Expected<void> check(Shape const& shape) {
  bool const right = shape.tokens >= 1 && shape.model >= 8 && shape.hidden >= 8 && shape.model % 8 == 0 &&
                     shape.hidden % 8 == 0 && shape.tokens <= 1 << 20 && shape.model <= 1 << 20 &&
                     shape.hidden <= 1 << 20;
  if (right) return {};
  return refusal("E0530",
                 fmt::format("an MLP of {} tokens, {} x {} is not for these kernels", shape.tokens,
                             shape.model, shape.hidden),
                 "pad the weights with zeros to a multiple of 8",
                 {"tokens are from 1 to 1048576; model and hidden sizes are multiples of 8 up to 1048576"});
}

Expected<Plan> default_plan(Shape const& shape) {
  auto const machine = with_device();
  if (!machine) return tl::make_unexpected(machine.error());
  return library_plan(graph_of(shape), shipped_kernels(), *machine);
}

struct Mlp::State {
  using Addresses = std::array<void const*, 5>;  // x, w1, w2, y, what is lent
  struct Prepared {
    Plan plan;
    std::size_t scratch_bytes = 0;
    std::unique_ptr<Executable> executable;  ///< none before the first launch
    std::map<Addresses, int> sets;
    std::vector<Addresses> in_order;  ///< of their binding; the oldest gives its place away
    std::size_t oldest = 0;
  };

  Shape most;
  MachineProfile machine;
  MlpOptions options;
  TuneCache tuned;    ///< of this shape, any number of tokens
  TuneCache shipped;  ///< likewise, of what came with the library: where the cache has nothing
  TuneKey key;
  Diagnostics notes;
  void* h = nullptr;  ///< null: in what is lent
  std::shared_ptr<Scratch> scratch = std::make_shared<Scratch>();
  std::mutex mutex;
  kernels::Recent<int, Prepared> prepared;  ///< by the number of tokens

  State() = default;
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() {
    prepared.clear();  // waits for the launches
    cudaFree(h);
  }

  Shape shape(int tokens) const {
    Shape result = most;
    result.tokens = tokens;
    return result;
  }

  void read(TuneCache const* given) {
    if (!options.use_cache || options.only) return;
    auto const mine = tune_key(graph_of(most), bindings());
    auto const file = options.cache_file.empty() ? default_cache_file() : options.cache_file;
    auto const cache = given != nullptr ? Expected<TuneCache>(*given)
                       : file.empty()   ? Expected<TuneCache>(TuneCache{})
                                        : read_cache(file);
    if (!mine || !cache) {
      notes = mine ? cache.error() : mine.error();
      return;
    }
    key = *mine;
    for (auto const* const entry : nearest(*cache, key)) tuned.entries.push_back(*entry);
    if (!tuned.entries.empty()) return;
    notes = say_if_foreign(*cache, key, file);
    if (given != nullptr) return;
    for (auto const& entry : shipped_tunings().entries)
      if (entry.key.gpu == key.gpu && same_but_rows(entry.key.workload, key.workload))
        shipped.entries.push_back(entry);
  }

  /// The plan that was tuned for this size or near it, else cuBLASLt's.
  Expected<Plan> choose(int tokens) const {
    auto const graph = graph_of(shape(tokens));
    if (options.only) return resize(*options.only, graph, shipped_kernels(), machine);
    auto here = key;
    here.workload = workload_key(graph);
    auto const runs = [&](Plan const& plan) { return can_run(plan, tokens); };
    if (auto plan = tuned_plan(tuned, here, graph, shipped_kernels(), machine, runs)) return *plan;
    if (auto const* const entry = shipped_entry(shipped, here, shipped_kernels()); entry != nullptr)
      if (auto plan = resize(entry->plan, graph, shipped_kernels(), machine); plan && runs(*plan))
        return *plan;
    return default_plan(shape(tokens));
  }

  /// Whether it can be launched, at addresses that any matrix may have.
  bool can_run(Plan const& plan, int tokens) const {
    return Executable::make(plan, shipped_kernels(), bindings(), tensors(anywhere(), tokens), {}, scratch)
        .has_value();
  }

  static Addresses anywhere() { return {nowhere(), nowhere(), nowhere(), nowhere(), nowhere()}; }

  /// What kernels ask for from now on is behind h in the memory that is lent.
  Tensors tensors(Addresses const& at, int tokens) const {
    auto const h_bytes = 2 * static_cast<std::size_t>(tokens) * static_cast<std::size_t>(most.hidden);
    void* const hidden =
        options.lends_scratch ? scratch->lend(const_cast<void*>(at[4])).place("h", h_bytes) : h;
    auto const type =
        most.type == ElementType::fp16 ? tessera::ElementType::fp16 : tessera::ElementType::bf16;
    int const up = most.form == Form::swiglu ? 2 : 1;
    auto const matrix = [&](void const* data, std::int64_t rows, std::int64_t columns) {
      return Tensor{const_cast<void*>(data), rows, columns, 1, 0, type};
    };
    return {{"x", matrix(at[0], tokens, most.model)},
            {"w1", matrix(at[1], up * most.hidden, most.model)},
            {"h", matrix(hidden, tokens, most.hidden)},
            {"w2", matrix(at[2], most.model, most.hidden)},
            {"y", matrix(at[3], tokens, most.model)}};
  }

  Expected<Prepared*> prepare(int tokens) {
    if (auto* const known = prepared.find(tokens)) return known;
    RelaxedCapture const relaxed;
    if (auto room = make_room(); !room) return tl::make_unexpected(room.error());
    auto plan = choose(tokens);
    if (!plan) return tl::make_unexpected(plan.error());
    if (!options.early_weights) {
      plan->launches.front().start = LaunchStart::in_order;
      plan->proof.clear();  // of other launches; Chain::make() proves these
    }
    std::size_t lent = 0;
    if (options.lends_scratch) {
      auto const bound =
          bind_kernels(*plan, shipped_kernels(), bindings(), tensors(anywhere(), tokens), *scratch);
      if (!bound) return tl::make_unexpected(bound.error());
      lent = scratch->lent_bytes();
    }
    return &prepared.add(tokens, Prepared{std::move(*plan), lent, nullptr, {}, {}, 0});
  }

  /// E0520 if a launch of what was given up had given up waiting: nobody would say so later.
  Expected<void> make_room() {
    Expected<void> result;
    while (auto* const one = prepared.in_the_way()) {
      if (one->executable != nullptr) result = one->executable->finish();
      prepared.give_up();
      if (!result) break;
    }
    return result;
  }

  /// The set of operands at these addresses.
  Expected<int> bind(Prepared& one, Addresses const& at, int tokens) {
    if (auto const known = one.sets.find(at); known != one.sets.end()) return known->second;
    RelaxedCapture const relaxed;
    int set = 0;
    if (one.executable == nullptr) {
      ChainOptions chain;
      chain.deadline_seconds = options.deadline_seconds;
      auto made =
          Executable::make(one.plan, shipped_kernels(), bindings(), tensors(at, tokens), chain, scratch);
      if (!made) return tl::make_unexpected(made.error());
      one.executable = std::make_unique<Executable>(std::move(*made));
    } else {
      bool const full = one.in_order.size() >= static_cast<std::size_t>(std::max(options.address_sets, 1));
      auto const added = one.executable->add_set(shipped_kernels(), bindings(), tensors(at, tokens),
                                                 full ? one.sets.at(one.in_order[one.oldest]) : -1);
      if (!added) return tl::make_unexpected(added.error());
      set = *added;
      if (full) {
        one.sets.erase(one.in_order[one.oldest]);
        one.in_order[one.oldest] = at;
        one.oldest = (one.oldest + 1) % one.in_order.size();
        return one.sets[at] = set;
      }
    }
    one.in_order.push_back(at);
    return one.sets[at] = set;
  }

  Expected<void> in_range(int tokens) const {
    if (tokens >= 1 && tokens <= most.tokens) return {};
    return bad_argument(fmt::format("{} tokens, but this Mlp was made for 1 to {}", tokens, most.tokens),
                        "make it for the largest number of tokens");
  }
};

Mlp::Mlp(std::unique_ptr<State> state) : state_(std::move(state)) {}
Mlp::Mlp(Mlp&&) noexcept = default;
Mlp& Mlp::operator=(Mlp&&) noexcept = default;
Mlp::~Mlp() = default;

Expected<Mlp> Mlp::make(Shape const& most, MlpOptions const& options) {
  if (auto const right = check(most); !right) return tl::make_unexpected(right.error());
  RelaxedCapture const relaxed;
  auto machine = with_device();
  if (!machine) return tl::make_unexpected(machine.error());
  auto state = std::make_unique<State>();
  state->most = most;
  state->machine = std::move(*machine);
  state->options = options;
  state->options.cache = nullptr;
  state->prepared.keep(static_cast<std::size_t>(std::max(options.most_plans, 0)));
  if (auto const stalls = state->scratch->stalls(); !stalls) return tl::make_unexpected(stalls.error());
  state->read(options.cache);
  auto const bytes = 2 * static_cast<std::size_t>(most.tokens) * static_cast<std::size_t>(most.hidden);
  if (!options.lends_scratch)
    if (auto const error = cudaMalloc(&state->h, bytes); error != cudaSuccess)
      return cuda_failed(error, fmt::format("allocating {} bytes for {} tokens", bytes, most.tokens));
  // Loads the kernels, so that none is loaded behind one that spins.
  for (auto const* const cache : {&state->tuned, &state->shipped})
    for (auto const& entry : cache->entries)
      if (auto const tokens = static_cast<int>(entry.key.workload.sizes.front().front());
          tokens <= most.tokens)
        if (auto const plan =
                resize(entry.plan, graph_of(state->shape(tokens)), shipped_kernels(), state->machine))
          (void)state->can_run(*plan, tokens);
  if (auto const first = state->prepare(most.tokens); !first) return tl::make_unexpected(first.error());
  return Mlp(std::move(state));
}

Expected<void> Mlp::launch(void const* x, void const* w1, void const* w2, void* y, int tokens,
                           cudaStream_t stream, LentScratch scratch) {
  if (auto const right = state_->in_range(tokens); !right) return right;
  if (!aligned(x) || !aligned(w1) || !aligned(w2) || !aligned(y))
    return bad_argument("an operand's address is null or no multiple of 16 bytes",
                        "x, w1, w2 and y are device memory, each matrix 16-byte aligned");
  std::lock_guard const lock(state_->mutex);
  auto const prepared = state_->prepare(tokens);
  if (!prepared) return tl::make_unexpected(prepared.error());
  auto const needed = (*prepared)->scratch_bytes;
  if (needed > 0 && (scratch.bytes < needed || !aligned(scratch.data, 256)))
    return bad_argument(
        fmt::format("{} bytes at {} are lent, but {} tokens take {} bytes at a multiple of 256",
                    scratch.bytes, fmt::ptr(scratch.data), tokens, needed),
        "ask for the bytes in the same stream, on the same device, and lend as many");
  auto const set = state_->bind(**prepared, {x, w1, w2, y, needed > 0 ? scratch.data : nullptr}, tokens);
  if (!set) return tl::make_unexpected(set.error());
  return (*prepared)->executable->launch(stream, *set);
}

Expected<std::size_t> Mlp::scratch_bytes(int tokens) {
  if (auto const right = state_->in_range(tokens); !right) return tl::make_unexpected(right.error());
  std::lock_guard const lock(state_->mutex);
  auto const prepared = state_->prepare(tokens);
  if (!prepared) return tl::make_unexpected(prepared.error());
  return (*prepared)->scratch_bytes;
}

Expected<Plan> Mlp::choice(int tokens) {
  if (auto const right = state_->in_range(tokens); !right) return tl::make_unexpected(right.error());
  std::lock_guard const lock(state_->mutex);
  auto const prepared = state_->prepare(tokens);
  if (!prepared) return tl::make_unexpected(prepared.error());
  return (*prepared)->plan;
}

bool Mlp::stalled() const {
  // All executables share the scratch memory. No lock: launch() may hold it for as long as it waits.
  return state_->scratch->stalled();
}

int Mlp::plans() const {
  std::lock_guard const lock(state_->mutex);
  return static_cast<int>(state_->prepared.size());
}

Diagnostics const& Mlp::notes() const { return state_->notes; }

Expected<void> Mlp::finish(cudaStream_t stream) {
  if (auto const error = cudaStreamSynchronize(stream); error != cudaSuccess)
    return cuda_failed(error, "a launch, or what came before it,");
  std::lock_guard const lock(state_->mutex);
  Expected<void> result;
  state_->prepared.for_each([&](State::Prepared const& one) {
    if (one.executable != nullptr)
      if (auto finished = one.executable->finish(); !finished && result) result = std::move(finished);
  });
  return result;
}

}  // namespace tessera::mlp
