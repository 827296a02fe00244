// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "kept.hpp"
#include "kernels/common/refusal.hpp"
#include "one_call.hpp"

namespace tessera::mlp {
namespace {

/// Sizes, form, type and the number of the options.
using Key = std::tuple<int, int, Form, ElementType, int>;

/// Never destroyed: when statics are, the driver may be gone, and graphs may be left.
struct All {
  std::mutex mutex;
  std::map<Key, KeptMlps> kept;  ///< they stay where they are
  MlpOptions options;            ///< of new ones
  int number = 0;
};
All& all() {
  static auto& one = *new All;
  return one;
}

KeptMlps& kept_for(Shape const& shape) {
  std::lock_guard const lock(all().mutex);
  Key const key{shape.model, shape.hidden, shape.form, shape.type, all().number};
  return all().kept.try_emplace(key, shape, all().options).first->second;
}

}  // namespace

void options_of_new_mlps(MlpOptions const& options) {
  std::lock_guard const lock(all().mutex);
  all().options = options;
  ++all().number;
}

Expected<void> mlp(void const* x, void const* w1, void const* w2, void* y, Shape const& shape,
                   cudaStream_t stream) {
  if (auto const right = check(shape); !right) return right;
  return kept_for(shape).launch(x, w1, w2, y, shape.tokens, stream);
}

Expected<void> finish(cudaStream_t stream) {
  std::vector<KeptMlps*> each;
  {
    std::lock_guard const lock(all().mutex);
    for (auto& [key, kept] : all().kept) each.push_back(&kept);
  }
  Expected<void> result;
  if (auto const error = cudaStreamSynchronize(stream); error != cudaSuccess)
    return kernels::cuda_failed(error, "a launch, or what came before it,");
  for (auto* const one : each)
    if (auto finished = one->finish(stream); !finished && result) result = std::move(finished);
  return result;
}

}  // namespace tessera::mlp
