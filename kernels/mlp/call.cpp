// SPDX-License-Identifier: Apache-2.0
#include <mutex>
#include <tuple>
#include <vector>

#include "kernels/common/per_stream.hpp"
#include "kernels/common/refusal.hpp"
#include "mlp.hpp"

namespace tessera::mlp {
namespace {

using kernels::cuda_failed;

struct Kept {
  int most_tokens = 0;
  std::vector<Mlp> all;  ///< the last one is used; graphs may still hold the memory of those before
};

/// Device and shape.
using Rest = std::tuple<int, int, int, Form, ElementType>;
using All = kernels::PerStream<Rest, Kept>;

/// Never destroyed: when statics are, the driver may be gone.
All& all() {
  static auto& one = *new All;
  return one;
}

int with_room_to_grow(int tokens) {
  int most = 256;
  while (most < tokens) most *= 2;
  return most;
}

}  // namespace

Expected<void> mlp(void const* x, void const* w1, void const* w2, void* y, Shape const& shape,
                   cudaStream_t stream) {
  if (auto const right = check(shape); !right) return right;
  int device = 0;
  if (auto const error = cudaGetDevice(&device); error != cudaSuccess)
    return cuda_failed(error, "cudaGetDevice");
  std::lock_guard const lock(all().mutex);
  Kept* kept = nullptr;
  if (auto const error =
          all().find(stream, {device, shape.model, shape.hidden, shape.form, shape.type}, kept);
      error != cudaSuccess)
    return cuda_failed(error, "asking for the stream");
  auto& mine = *kept;
  if (shape.tokens > mine.most_tokens) {
    Shape most = shape;
    most.tokens = with_room_to_grow(shape.tokens);
    auto made = Mlp::make(most);
    if (!made) return tl::make_unexpected(made.error());
    mine.all.push_back(std::move(*made));
    mine.most_tokens = most.tokens;
  }
  if (mine.all.empty()) return Mlp::make(shape).map([](auto const&) {});
  return mine.all.back().launch(x, w1, w2, y, shape.tokens, stream);
}

Expected<void> finish(cudaStream_t stream) {
  int device = 0;
  if (auto const error = cudaGetDevice(&device); error != cudaSuccess)
    return cuda_failed(error, "cudaGetDevice");
  // Not with the lock: other threads may go on.
  if (auto const error = cudaStreamSynchronize(stream); error != cudaSuccess)
    return cuda_failed(error, "a launch, or what came before it,");
  std::lock_guard const lock(all().mutex);
  Expected<void> result;
  auto const error = all().for_each(stream, [&](Rest const& rest, Kept& kept, bool captured) {
    if (std::get<0>(rest) != device) return;
    for (auto& each : kept.all)
      if (captured && !each.stalled())
        continue;
      else if (auto finished = each.finish(stream); !finished && result)
        result = std::move(finished);
  });
  if (error != cudaSuccess) return cuda_failed(error, "asking for the stream");
  return result;
}

}  // namespace tessera::mlp
