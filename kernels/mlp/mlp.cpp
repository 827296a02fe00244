// SPDX-License-Identifier: Apache-2.0
#include "mlp.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "cache_file.hpp"
#include "candidates.hpp"
#include "kernels/common/capture.hpp"
#include "kernels/common/refusal.hpp"
#include "tune_key.hpp"

namespace tessera::mlp {
namespace {

using kernels::cuda_failed;
using kernels::refusal;
using kernels::RelaxedCapture;
using kernels::zero;

// Of all sizes that were ever launched; one takes a few kilobytes. A size that finds none left is done by
// cuBLASLt, which needs none.
constexpr long long counter_words = (16 << 20) / 8;

bool aligned(void const* pointer) {
  return pointer != nullptr && reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

tl::unexpected<Diagnostics> bad_argument(std::string const& message, std::string const& hint) {
  return refusal("E0536", message, hint);
}

}  // namespace

struct Mlp::State {
  struct Prepared {
    Candidate candidate;
    Workspace workspace;
  };

  Shape most;
  std::string only;
  TuneEntry tuned;
  Diagnostics notes;
  void* h = nullptr;
  Workspace workspace;
  long long counters_used = 0;
  std::mutex mutex;
  std::map<int, Prepared> prepared;

  State() = default;
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() {
    for (void* const memory : {h, workspace.gate_up, workspace.library,
                               static_cast<void*>(workspace.counters), static_cast<void*>(workspace.stall)})
      cudaFree(memory);
  }

  Shape shape(int tokens) const {
    Shape result = most;
    result.tokens = tokens;
    return result;
  }

  void read(MlpOptions const& options) {
    if (!options.use_cache) return;
    auto const key = tune_key(most);
    auto const file = options.cache_file.empty() ? default_cache_file() : options.cache_file;
    auto const cache = options.cache != nullptr ? Expected<TuneCache>(*options.cache)
                       : file.empty()           ? Expected<TuneCache>(TuneCache{})
                                                : read_cache(file);
    if (!key || !cache) {
      notes = key ? cache.error() : key.error();
    } else if (auto const* const entry = find(*cache, *key); entry != nullptr) {
      tuned = *entry;
    } else {
      notes = say_if_foreign(*cache, *key, file);
    }
  }

  Expected<void> allocate() {
    std::size_t const rows =
        static_cast<std::size_t>(most.tokens) * static_cast<std::size_t>(most.hidden) * 2;
    auto const take = [](auto*& memory, std::size_t bytes) {
      return cudaMalloc(reinterpret_cast<void**>(&memory), bytes) == cudaSuccess;
    };
    bool const right = take(h, rows) && (most.form == Form::gelu || take(workspace.gate_up, 2 * rows)) &&
                       take(workspace.library, library_bytes) &&
                       take(workspace.counters, counter_words * 8) &&
                       take(workspace.stall, sizeof(StallRecord));
    if (!right) return cuda_failed(cudaGetLastError(), fmt::format("memory for {} tokens", most.tokens));
    if (auto const error = zero(workspace.counters, counter_words * 8); error != cudaSuccess)
      return cuda_failed(error, "zeroing the counters");
    if (auto const error = zero(workspace.stall, sizeof(StallRecord)); error != cudaSuccess)
      return cuda_failed(error, "zeroing the stall record");
    return {};
  }

  /// The tuned candidate for this size or near it, else cuBLASLt.
  Expected<Candidate> choose(int tokens) const {
    if (!only.empty()) return find_candidate(shape(tokens), only);
    for (auto const* const size : nearest(tuned, tokens))
      if (auto found = find_candidate(shape(tokens), size->candidate);
          found && counters_used + found->counter_words <= counter_words)
        return found;
    return default_candidate(shape(tokens));
  }

  Expected<Prepared*> prepare(int tokens) {
    std::lock_guard const lock(mutex);
    if (auto const known = prepared.find(tokens); known != prepared.end()) return &known->second;
    RelaxedCapture const relaxed;
    auto candidate = choose(tokens);
    if (!candidate) return tl::make_unexpected(candidate.error());
    Prepared one{std::move(*candidate), workspace};
    one.workspace.counters += counters_used;
    counters_used += (one.candidate.counter_words + 15) / 16 * 16;
    return &prepared.emplace(tokens, std::move(one)).first->second;
  }
};

Mlp::Mlp(std::unique_ptr<State> state) : state_(std::move(state)) {}
Mlp::Mlp(Mlp&&) noexcept = default;
Mlp& Mlp::operator=(Mlp&&) noexcept = default;
Mlp::~Mlp() = default;

Expected<Mlp> Mlp::make(Shape const& most, MlpOptions const& options) {
  if (auto const right = check(most); !right) return tl::make_unexpected(right.error());
  RelaxedCapture const relaxed;
  auto state = std::make_unique<State>();
  state->most = most;
  state->only = options.only;
  state->read(options);
  if (auto const made = state->allocate(); !made) return tl::make_unexpected(made.error());
  // Loads the kernels, so that none is loaded behind one that spins.
  for (auto const& size : state->tuned.sizes)
    if (size.tokens <= most.tokens)
      (void)find_candidate(state->shape(static_cast<int>(size.tokens)), size.candidate);
  if (auto const first = state->prepare(most.tokens); !first && options.only.empty())
    return tl::make_unexpected(first.error());
  return Mlp(std::move(state));
}

Expected<void> Mlp::launch(void const* x, void const* w1, void const* w2, void* y, int tokens,
                           cudaStream_t stream) {
  if (tokens < 1 || tokens > state_->most.tokens)
    return bad_argument(
        fmt::format("{} tokens, but this Mlp was made for 1 to {}", tokens, state_->most.tokens),
        "make it for the largest number of tokens");
  if (!aligned(x) || !aligned(w1) || !aligned(w2) || !aligned(y))
    return bad_argument("an operand's address is null or no multiple of 16 bytes",
                        "x, w1, w2 and y are device memory, each matrix 16-byte aligned");
  auto const prepared = state_->prepare(tokens);
  if (!prepared) return tl::make_unexpected(prepared.error());
  Buffers const buffers{x, w1, state_->h, w2, y};
  auto const& [candidate, workspace] = **prepared;
  if (auto const error = candidate.launch(buffers, workspace, stream); error != cudaSuccess)
    return cuda_failed(error, fmt::format("launching \"{}\" for {} tokens", candidate.name, tokens));
  return {};
}

Expected<std::string> Mlp::choice(int tokens) {
  if (tokens < 1 || tokens > state_->most.tokens)
    return bad_argument(
        fmt::format("{} tokens, but this Mlp was made for 1 to {}", tokens, state_->most.tokens),
        "make it for the largest number of tokens");
  auto const prepared = state_->prepare(tokens);
  if (!prepared) return tl::make_unexpected(prepared.error());
  return (*prepared)->candidate.name;
}

Diagnostics const& Mlp::notes() const { return state_->notes; }

Expected<void> Mlp::finish(cudaStream_t stream) {
  if (auto const error = cudaStreamSynchronize(stream); error != cudaSuccess)
    return cuda_failed(error, "a launch, or what came before it,");
  StallRecord stall;
  if (auto const error = cudaMemcpy(&stall, state_->workspace.stall, sizeof stall, cudaMemcpyDeviceToHost);
      error != cudaSuccess)
    return cuda_failed(error, "reading the stall record");
  if (stall.state == 0) return {};
  // Counters of a launch that gave up do not fit the next one's.
  std::lock_guard const lock(state_->mutex);
  for (auto const error :
       {zero(state_->workspace.stall, sizeof stall), zero(state_->workspace.counters, counter_words * 8)})
    if (error != cudaSuccess) return cuda_failed(error, "zeroing the counters");
  return refusal("E0534",
                 fmt::format("a wait in the second GEMM gave up after {:.2f} s: y is wrong",
                             static_cast<double>(stall.waited_ns) * 1e-9),
                 "see that launches of one Mlp are in one stream, and that no other kernel keeps the GPU for "
                 "a second",
                 {fmt::format("tile row {} waited for semaphore {}: {} posts of {}", stall.tile,
                              stall.semaphore, stall.seen, stall.expected)});
}

}  // namespace tessera::mlp
