// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "kernels/common/refusal.hpp"
#include "mlp.hpp"

namespace tessera::mlp {
namespace {

using kernels::cuda_failed;

using Key = std::tuple<int, cudaStream_t, int, int, Form, ElementType>;

struct Kept {
  int most_tokens = 0;
  std::vector<Mlp> all;  ///< the last one is used; graphs may still hold the memory of those before
};

int with_room_to_grow(int tokens) {
  int most = 256;
  while (most < tokens) most *= 2;
  return most;
}

/// Never destroyed: when statics are, the driver may be gone.
struct All {
  std::mutex mutex;
  std::map<Key, Kept> kept;
};
All& all() {
  static auto& one = *new All;
  return one;
}

}  // namespace

Expected<void> mlp(void const* x, void const* w1, void const* w2, void* y, Shape const& shape,
                   cudaStream_t stream) {
  if (auto const right = check(shape); !right) return right;
  int device = 0;
  if (auto const error = cudaGetDevice(&device); error != cudaSuccess)
    return cuda_failed(error, "cudaGetDevice");
  std::lock_guard const lock(all().mutex);
  auto& mine = all().kept[{device, stream, shape.model, shape.hidden, shape.form, shape.type}];
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
  for (auto& [key, one] : all().kept)
    if (std::get<0>(key) == device && std::get<1>(key) == stream)
      for (auto& each : one.all)
        if (auto finished = each.finish(stream); !finished && result) result = std::move(finished);
  return result;
}

}  // namespace tessera::mlp
