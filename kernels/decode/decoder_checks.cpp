// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/decoder_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "kernels/decode/decoder_buffers.hpp"
#include "kernels/decode/hf_model.hpp"
#include "kernels/few_tokens/chain_plan.hpp"

namespace tessera::decode {
namespace {

constexpr int k_most_pages = 1 << 20;

/// Those that the model has, and no others.
bool has_extras_of(Model const& m, LayerWeights const& l) {
  auto const are = [](std::initializer_list<void const*> vectors, bool wanted) {
    return std::all_of(vectors.begin(), vectors.end(),
                       [&](void const* one) { return (one != nullptr) == wanted; });
  };
  return are({l.q_bias, l.k_bias, l.v_bias}, m.qkv_biases) && are({l.o_bias}, m.out_biases) &&
         are({l.q_norm, l.k_norm}, m.norms_heads) && are({l.up_bias, l.down_bias}, m.mlp_biases) &&
         are({l.attention_norm_bias, l.mlp_norm_bias}, m.layer_norms);
}

Expected<void> check_pages(Options const& o) {
  auto const& p = o.paged;
  if (p.positions == 0) return {};
  if (auto ok = check_page_size(p.positions); !ok) return ok;
  if (p.pages < 1 || p.pages > k_most_pages)
    return refused(fmt::format("a cache of {} pages", p.pages), fmt::format("ask for 1 to {}", k_most_pages));
  auto const is_aligned = [](void const* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; };
  if (p.table == nullptr || (p.keys == nullptr) != (p.values == nullptr) || !is_aligned(p.keys) ||
      !is_aligned(p.values))
    return refused(
        "a paged cache without a table, or keys and values that are not both there, 16-byte aligned",
        "give a table in device memory, and memory for keys and for values, or for neither");
  return {};
}

}  // namespace

Expected<void> refused(std::string message, std::string way_out) {
  return refuse({"E0566", Severity::error, {}, std::move(message), {}, std::move(way_out)});
}

Expected<void> check_token(Model const& m, int token) {
  if (token >= 0 && token < m.vocabulary) return {};
  return refused(fmt::format("token {} of a vocabulary of {}", token, m.vocabulary),
                 "see whether the tokenizer is the model's");
}

Expected<void> check_weights(Model const& m, Weights const& w) {
  bool all = w.embedding != nullptr && w.norm != nullptr && (w.head != nullptr || m.tied);
  bool extras =
      (w.norm_bias != nullptr) == m.layer_norms && (w.positions != nullptr) == (m.learned_positions > 0);
  for (auto const& l : w.layers) {
    for (auto const* one : {l.attention_norm, l.q, l.k, l.v, l.o, l.mlp_norm, l.up, l.down})
      all = all && one != nullptr;
    all = all && (l.gate != nullptr) == !m.gelu;
    extras = extras && has_extras_of(m, l);
  }
  if (w.layers.size() != static_cast<std::size_t>(m.layers))
    return refused(fmt::format("weights of {} layers for a model of {}", w.layers.size(), m.layers),
                   "give the weights of each layer");
  if (!all || reinterpret_cast<std::uintptr_t>(w.embedding) % 16 != 0)
    return refused(
        "a matrix or a norm of a decoder is missing, or the embedding is not 16-byte aligned",
        "give all of each layer, the embedding, the last norm, and the head unless the model is tied");
  if (!extras)
    return refused(
        "biases, norms of heads or positions of a decoder are missing, or are not the model's",
        "give q_bias, k_bias and v_bias with Model::qkv_biases, o_bias with out_biases, q_norm and "
        "k_norm with norms_heads, up_bias and down_bias with mlp_biases, biases of norms with "
        "layer_norms, positions with learned_positions, and none without");
  return {};
}

bool asks_for_persistent(Options const& o) {
  auto const& c = o.cut;
  bool const cut = c.blocks > 0 || c.slot_bytes > 0 || c.in_flight > 0 || c.in_flight_within > 0 ||
                   c.late_slots > 0 || c.late_slot_bytes > 0 || c.late_warps != 1 || c.exchange.has_value();
  return cut || o.keep_times || o.head_starts_early || o.missed_tile.has_value() ||
         (o.prompt_rows > 1 && o.prompt_rows <= k_most_prompt_rows);
}

bool by_launches(Options const& o) {
  return layers_by_launches(o.steps, o.batch) && (o.steps == StepBy::launches || !asks_for_persistent(o));
}

bool head_by_launches(Options const& o) {
  return head_launched(o.steps, o.batch) && !o.head_starts_early && o.cut.blocks == 0;
}

Expected<void> check_options(Model const& m, Options const& o) {
  if (auto ok = check_model(m); !ok) return ok;
  if (auto ok = check_sequences(o.batch, o.capacity, most_capacity(m)); !ok) return ok;
  for (int const number : {o.cut.blocks, o.cut.splits, o.usual_cached})
    if (number < 0)
      return refused(fmt::format("{} blocks, parts or cached tokens", number), "ask for 1 or more, or 0");
  if (o.cut.splits > k_most_splits)
    return refused(fmt::format("{} parts of a sequence's cached tokens", o.cut.splits),
                   fmt::format("ask for up to {}, or 0", k_most_splits));
  if (o.prompt_rows < 0 || o.prompt_rows > k_most_pass_rows)
    return refused(fmt::format("{} rows of prompts to a step", o.prompt_rows),
                   fmt::format("ask for 2 to {}, for more, up to {}, for passes of so many, 1 for token by "
                               "token, or 0 for what is of use",
                               k_most_prompt_rows, k_most_pass_rows));
  if (o.steps == StepBy::launches && asks_for_persistent(o))
    return refused(
        "steps by launches with what persistent launches alone have: a cut, an exchange, times of tiles, a "
        "head that starts early, or prompts by steps",
        "ask for StepBy::persistent, or for none of these; prompts by passes are prompt_rows = 0");
  if (auto ok = check_pages(o); !ok) return ok;
  if (auto ok = check_sampling(o.sampling); !ok) return ok;
  for (int const token : o.stop_tokens)
    if (auto ok = check_token(m, token); !ok) return ok;
  if (auto const way = o.cut.exchange.value_or(Exchange::semaphore);
      way == Exchange::cluster || (way == Exchange::words && !words_can(o.batch)))
    return refused(fmt::format("{} sequences whose results travel {}", o.batch,
                               way == Exchange::words ? "as words" : "through clusters"),
                   "take semaphores, or words for 1 or 2 sequences");
  auto const needed = least_bytes_of(m, o);
  if (o.most_bytes > 0 && needed > o.most_bytes)
    return refused(
        fmt::format("{} bytes of device memory for a decoder, {} are allowed", needed, o.most_bytes),
        fmt::format("allow more, or ask for fewer sequences or less capacity: a token of a sequence "
                    "takes {:.0f} bytes{}",
                    m.cache_bytes(),
                    pass_rows_of(o) > 0
                        ? fmt::format("; passes over prompts take {}, prompt_rows = {} has none",
                                      pass_bytes(m, o), k_most_prompt_rows)
                        : ""));
  return {};
}

}  // namespace tessera::decode
