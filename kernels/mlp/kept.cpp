// SPDX-License-Identifier: Apache-2.0
#include "kept.hpp"

#include <fmt/format.h>

#include <vector>

#include "kernels/common/refusal.hpp"

namespace tessera::mlp {

using kernels::cuda_failed;

namespace {

int with_room_to_grow(int tokens) {
  int most = 256;
  while (most < tokens) most *= 2;
  return most;
}

Expected<int> current_device() {
  int device = 0;
  if (auto const error = cudaGetDevice(&device); error != cudaSuccess)
    return cuda_failed(error, "cudaGetDevice");
  return device;
}

}  // namespace

Expected<Mlp*> KeptMlps::with_room(Kept& mine, int tokens, bool captured) const {
  std::lock_guard const lock(mine.making);
  if (tokens > mine.most_tokens) {
    Shape most = shape_;
    most.tokens = options_.only ? tokens : with_room_to_grow(tokens);
    auto options = options_;
    if (options.most_plans == 0) options.most_plans = plans_of_a_stream;
    if (captured) options.most_plans = 0;
    auto made = Mlp::make(most, options);
    if (!made) return tl::make_unexpected(made.error());
    mine.all.push_back(std::move(*made));
    mine.most_tokens = most.tokens;
  }
  return &mine.all.back();
}

Expected<Mlp*> KeptMlps::find(int tokens, cudaStream_t stream) {
  Shape shape = shape_;
  shape.tokens = tokens;
  if (auto const right = check(shape); !right) return tl::make_unexpected(right.error());
  auto const device = current_device();
  if (!device) return tl::make_unexpected(device.error());
  Kept* kept = nullptr;
  kernels::StreamNow now;
  {
    std::lock_guard const lock(all_.mutex);
    auto error = kernels::look_at(stream, now);
    if (error == cudaSuccess) error = all_.find(now, *device, kept);
    if (error != cudaSuccess) return cuda_failed(error, "asking for the stream");
  }
  // Making one, launching it and recovering take their time: other streams go on.
  return with_room(*kept, tokens, now.place.capture != 0);
}

Expected<void> KeptMlps::launch(void const* x, void const* w1, void const* w2, void* y, int tokens,
                                cudaStream_t stream, LentScratch scratch) {
  return find(tokens, stream).and_then([&](Mlp* mine) {
    return mine->launch(x, w1, w2, y, tokens, stream, scratch);
  });
}

Expected<void> KeptMlps::launch(void const* x, void const* w1, void const* w2, void* y, int tokens,
                                cudaStream_t stream, std::function<void*(std::size_t)> const& lend) {
  return find(tokens, stream).and_then([&](Mlp* mine) -> Expected<void> {
    auto const bytes = mine->scratch_bytes(tokens);
    if (!bytes) return tl::make_unexpected(bytes.error());
    LentScratch lent;
    if (*bytes > 0) lent = {lend(*bytes), *bytes};
    if (*bytes > 0 && lent.data == nullptr)
      return kernels::refusal("E0536", fmt::format("no {} bytes were lent", *bytes),
                              "give memory, on the device and in the order of the stream");
    return mine->launch(x, w1, w2, y, tokens, stream, lent);
  });
}

Expected<std::size_t> KeptMlps::scratch_bytes(int tokens, cudaStream_t stream) {
  return find(tokens, stream).and_then([&](Mlp* mine) { return mine->scratch_bytes(tokens); });
}

Expected<Plan> KeptMlps::choice(int tokens, cudaStream_t stream) {
  return find(tokens, stream).and_then([&](Mlp* mine) { return mine->choice(tokens); });
}

Expected<void> KeptMlps::finish(cudaStream_t stream) {
  auto const device = current_device();
  if (!device) return tl::make_unexpected(device.error());
  if (auto const error = cudaStreamSynchronize(stream); error != cudaSuccess)
    return cuda_failed(error, "a launch, or what came before it,");
  struct Found {
    Kept* kept;
    bool captured;
  };
  std::vector<Found> found;
  {
    std::lock_guard const lock(all_.mutex);
    auto const error = all_.for_each(stream, [&](int of, Kept& kept, bool captured) {
      if (of == *device) found.push_back({&kept, captured});
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
