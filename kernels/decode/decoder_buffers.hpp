// SPDX-License-Identifier: Apache-2.0
// Where a decoder's device memory lies, beside its weights.
#pragma once

#include <array>

#include "kernels/decode/decoder.hpp"
#include "kernels/decode/launched_layers.hpp"
#include "kernels/decode/layer_stages.hpp"
#include "kernels/decode/prompt_pass.hpp"
#include "kernels/decode/prompt_reader.hpp"

namespace tessera::decode {

/// What steps write, and the cache.
struct Buffers {
  LayerBuffers layer;
  PromptBuffers prompts;     ///< where prompts are read many tokens at once
  PassBuffers pass;          ///< and some thousand
  LaunchedBuffers launched;  ///< of steps by launches
  float* parts = nullptr;
  unsigned* arrived = nullptr;  ///< of attention, and behind it of the head: of each sequence, at most
  unsigned long long* best = nullptr;
  int *cached = nullptr, *known = nullptr, *ids = nullptr;
  int* first_cached = nullptr;  ///< as begin() left it
  int *ended = nullptr, *not_finite = nullptr, *stops = nullptr;
  int* wrong_pages = nullptr;   ///< CachePages::wrong
  int* wrong_tokens = nullptr;  ///< GivenTokens::wrong
  float* logits = nullptr;
  std::array<few_tokens::TileTimes*, k_stages> times = {};
  Turn* turns = nullptr;
  void *keys = nullptr, *values = nullptr;
  std::size_t bytes = 0;
};

CacheShape cache_of(Model const& model, Options const& options);

/// Items of a step that reads prompts, for each key head; 0 where prompts are read token by token.
int items_of(Model const& model, Options const& options, int blocks);

/// Pieces behind `base`, one behind the other; nullptr: only how many bytes they take.
Buffers places(Model const& model, Options const& options, Tiles const& tiles, int items,
               unsigned char* base);

}  // namespace tessera::decode
