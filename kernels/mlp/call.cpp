// SPDX-License-Identifier: Apache-2.0
#include <deque>
#include <mutex>
#include <tuple>
#include <vector>

#include "kernels/common/per_stream.hpp"
#include "kernels/common/refusal.hpp"
#include "mlp.hpp"
#include "one_call.hpp"

namespace tessera::mlp {
namespace {

using kernels::cuda_failed;

struct Kept {
  std::mutex making;  ///< held while the following is looked at, and not while anything is launched
  int most_tokens = 0;
  /// The last one is used; graphs may still hold the memory of those before. They stay where they are.
  std::deque<Mlp> all;
};

/// Device, shape and the number of the options.
using Rest = std::tuple<int, int, int, Form, ElementType, int>;
using All = kernels::PerStream<Rest, Kept>;

/// Never destroyed: when statics are, the driver may be gone.
All& all() {
  static auto& one = *new All;
  return one;
}

struct Options {
  MlpOptions options;
  int number = 0;
};
/// With the lock of all().
Options& options_of_new() {
  static auto& one = *new Options;
  return one;
}

int with_room_to_grow(int tokens) {
  int most = 256;
  while (most < tokens) most *= 2;
  return most;
}

/// One that has room; null if there is none for so many tokens, which are refused.
Expected<Mlp*> mlp_of(Kept& mine, Shape const& shape, MlpOptions const& options) {
  std::lock_guard const lock(mine.making);
  if (shape.tokens > mine.most_tokens) {
    Shape most = shape;
    if (!options.only) most.tokens = with_room_to_grow(shape.tokens);
    auto made = Mlp::make(most, options);
    if (!made) return tl::make_unexpected(made.error());
    mine.all.push_back(std::move(*made));
    mine.most_tokens = most.tokens;
  }
  return mine.all.empty() ? nullptr : &mine.all.back();
}

}  // namespace

void options_of_new_mlps(MlpOptions const& options) {
  std::lock_guard const lock(all().mutex);
  options_of_new() = {options, options_of_new().number + 1};
}

Expected<void> mlp(void const* x, void const* w1, void const* w2, void* y, Shape const& shape,
                   cudaStream_t stream) {
  if (auto const right = check(shape); !right) return right;
  int device = 0;
  if (auto const error = cudaGetDevice(&device); error != cudaSuccess)
    return cuda_failed(error, "cudaGetDevice");
  Kept* kept = nullptr;
  MlpOptions options;
  {
    std::lock_guard const lock(all().mutex);
    auto const& [now, number] = options_of_new();
    Rest const rest{device, shape.model, shape.hidden, shape.form, shape.type, number};
    if (auto const error = all().find(stream, rest, kept); error != cudaSuccess)
      return cuda_failed(error, "asking for the stream");
    if (number > 0) options = now;
  }
  // Making one, launching it and recovering take their time: other streams go on.
  auto const mine = mlp_of(*kept, shape, options);
  if (!mine) return tl::make_unexpected(mine.error());
  if (*mine == nullptr) return Mlp::make(shape).map([](auto const&) {});
  return (*mine)->launch(x, w1, w2, y, shape.tokens, stream);
}

Expected<void> finish(cudaStream_t stream) {
  int device = 0;
  if (auto const error = cudaGetDevice(&device); error != cudaSuccess)
    return cuda_failed(error, "cudaGetDevice");
  if (auto const error = cudaStreamSynchronize(stream); error != cudaSuccess)
    return cuda_failed(error, "a launch, or what came before it,");
  struct Found {
    Kept* kept;
    bool captured;
  };
  std::vector<Found> found;
  {
    std::lock_guard const lock(all().mutex);
    auto const error = all().for_each(stream, [&](Rest const& rest, Kept& kept, bool captured) {
      if (std::get<0>(rest) == device) found.push_back({&kept, captured});
    });
    if (error != cudaSuccess) return cuda_failed(error, "asking for the stream");
  }
  Expected<void> result;
  for (auto const& [kept, captured] : found) {
    std::vector<Mlp*> each;
    {
      std::lock_guard const lock(kept->making);
      for (auto& one : kept->all) each.push_back(&one);
    }
    for (auto* const one : each) {
      if (captured && !one->stalled()) continue;
      if (auto finished = one->finish(stream); !finished && result) result = std::move(finished);
    }
  }
  return result;
}

}  // namespace tessera::mlp
