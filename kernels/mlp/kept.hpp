// SPDX-License-Identifier: Apache-2.0
// Mlps for calls in any stream, by any thread, on any device: one for each stream, and for each capture.
#pragma once

#include <deque>
#include <functional>
#include <mutex>

#include "kernels/common/per_stream.hpp"
#include "mlp.hpp"

namespace tessera::mlp {

/// For how many numbers of tokens a stream keeps a plan where MlpOptions::most_plans does not say: more than
/// decoding has, and few enough for a service that reads prompts of every length.
constexpr int plans_of_a_stream = 128;

/// Of one model and hidden size, form and type; for any number of tokens. What a capture has is kept for as
/// long as there are graphs of it, whose replays must not overlap each other. Once a launch has been
/// captured, never destroy the object: graphs tell it of their end.
class KeptMlps {
 public:
  /// shape.tokens does not count. With a plan (MlpOptions::only) the Mlps have room for the tokens that are
  /// asked for, and no more.
  KeptMlps(Shape const& shape, MlpOptions const& options) : shape_(shape), options_(options) {}

  /// As Mlp's, on the current device.
  Expected<void> launch(void const* x, void const* w1, void const* w2, void* y, int tokens,
                        cudaStream_t stream, LentScratch scratch = {});
  /// `lend` is asked for so many bytes, once, before anything is enqueued; where it gives null, nothing is.
  Expected<void> launch(void const* x, void const* w1, void const* w2, void* y, int tokens,
                        cudaStream_t stream, std::function<void*(std::size_t)> const& lend);
  Expected<std::size_t> scratch_bytes(int tokens, cudaStream_t stream);
  Expected<Plan> choice(int tokens, cudaStream_t stream);

  /// Of the current device, and in this stream or in any graph: waits for the stream. E0520 if a call gave up
  /// since the last time.
  Expected<void> finish(cudaStream_t stream);

 private:
  struct Kept {
    std::mutex making;  ///< held while the following is looked at, and not while anything is launched
    int most_tokens = 0;
    /// The last one is used; graphs may still hold the memory of those before. They stay where they are.
    std::deque<Mlp> all;
  };
  /// The Mlp that has room; the pointer stays right.
  Expected<Mlp*> find(int tokens, cudaStream_t stream);
  Expected<Mlp*> with_room(Kept& mine, int tokens, bool captured) const;

  Shape const shape_;
  MlpOptions const options_;
  kernels::PerStream<int, Kept> all_;  ///< and by device
};

}  // namespace tessera::mlp
