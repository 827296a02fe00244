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

}  // namespace

Expected<void> mlp(void const* x, void const* w1, void const* w2, void* y, Shape const& shape,
                   cudaStream_t stream) {
  if (auto const right = check(shape); !right) return right;
  // Never destroyed: when statics are, the driver may be gone.
  static auto& kept = *new std::map<Key, Kept>;
  static std::mutex mutex;
  int device = 0;
  if (auto const error = cudaGetDevice(&device); error != cudaSuccess)
    return cuda_failed(error, "cudaGetDevice");
  std::lock_guard const lock(mutex);
  auto& mine = kept[{device, stream, shape.model, shape.hidden, shape.form, shape.type}];
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

}  // namespace tessera::mlp
