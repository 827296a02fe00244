// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/hf_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "kernels/decode/cache.hpp"

namespace tessera::decode {
namespace {

/// Families whose layers are those of Llama, but for biases, norms of heads and how positions turn; and
/// GPT-2.
bool is_known(std::string const& family) {
  constexpr std::string_view k_known[] = {"llama", "mistral",  "qwen2",  "qwen3",
                                          "phi3",  "ernie4_5", "helium", "gpt2"};
  return std::find(std::begin(k_known), std::end(k_known), family) != std::end(k_known);
}

/// Names of GELU by tanh. "gelu" itself is by the error function.
bool is_tanh_gelu(std::string const& name) {
  return name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast";
}

tl::unexpected<Diagnostics> refused(SourceLine where, std::string message, std::string way_out) {
  return refuse({"E0566", Severity::error, std::move(where), std::move(message), {}, std::move(way_out)});
}

/// Sizes beyond int are beyond every limit.
int small(std::int64_t size) { return static_cast<int>(std::min<std::int64_t>(size, 1 << 30)); }

constexpr double k_gigabyte = 1e9;

/// The member of a GPT-2's config that says the same.
std::string name_of_gpt2(std::string const& member) {
  static std::map<std::string, std::string> const names = {{"hidden_size", "n_embd"},
                                                           {"intermediate_size", "n_inner"},
                                                           {"num_key_value_heads", "n_head"},
                                                           {"num_hidden_layers", "n_layer"},
                                                           {"rms_norm_eps", "layer_norm_epsilon"},
                                                           {"head_dim", "n_head"}};
  auto const found = names.find(member);
  return found == names.end() ? member : found->second;
}

/// GPT-2's tensors have names of their own, and its matrices are [in][out].
bool is_named_as_gpt2(Model const& m) { return m.learned_positions > 0; }

std::vector<WantedTensor> layer_of_gpt2(Model const& m, int layer, std::string const& prefix) {
  std::vector<WantedTensor> all;
  auto const add = [&](char const* name, std::vector<std::int64_t> shape, bool transposed = false) {
    all.push_back({fmt::format("{}h.{}.{}", prefix, layer, name), std::move(shape), transposed});
  };
  add("ln_1.weight", {m.hidden});
  add("ln_1.bias", {m.hidden});
  add("attn.c_attn.weight", {m.hidden, m.qkv_features()}, true);
  add("attn.c_attn.bias", {m.qkv_features()});
  add("attn.c_proj.weight", {m.attended(), m.hidden}, true);
  add("attn.c_proj.bias", {m.hidden});
  add("ln_2.weight", {m.hidden});
  add("ln_2.bias", {m.hidden});
  add("mlp.c_fc.weight", {m.hidden, m.intermediate}, true);
  add("mlp.c_fc.bias", {m.intermediate});
  add("mlp.c_proj.weight", {m.intermediate, m.hidden}, true);
  add("mlp.c_proj.bias", {m.hidden});
  return all;
}

}  // namespace

Expected<Model> model_of(DecoderConfig const& config, std::string name, int gpus) {
  auto const& family = config.layer.type;
  if (!is_known(family))
    return refused(
        config.at("model_type"),
        fmt::format("there are no kernels for the layers of \"{}\"", family.substr(0, 60)),
        "tokens are generated with models of Llama's layers, or nearly, and GPT-2's: llama, mistral, qwen2, "
        "qwen3, phi3, ernie4_5, helium, gpt2");
  Model m;
  m.name = std::move(name);
  m.layers = small(config.layers);
  m.hidden = small(config.layer.hidden), m.intermediate = small(config.layer.intermediate);
  m.heads = small(config.layer.heads), m.kv_heads = small(config.layer.kv_heads);
  m.head_size = small(config.layer.head_dim);
  m.vocabulary = small(config.vocabulary);
  m.norm_epsilon = config.norm_epsilon;
  m.rotation.theta = config.rotation.theta, m.rotation.factor = config.rotation.factor;
  if (config.rotation.factor > 1) {
    m.rotation.low_frequency_factor = config.rotation.low_frequency_factor;
    m.rotation.high_frequency_factor = config.rotation.high_frequency_factor;
    m.rotation.original_positions = small(config.rotation.original_positions);
  }
  auto const narrow = [](std::vector<double> const& from) {
    return std::vector<float>(from.begin(), from.end());
  };
  m.rotation.short_factors = narrow(config.rotation.short_factors);
  m.rotation.long_factors = narrow(config.rotation.long_factors);
  m.rotation.attention_factor = config.rotation.attention_factor;
  m.rotation.interleaved = config.rotation.interleaved;
  if (!m.rotation.long_factors.empty())
    m.rotation.original_positions = small(config.rotation.original_positions);
  m.tied = config.tied;
  // Qwen2's class has no switch for its biases, of which the product behind attention has none.
  m.qkv_biases = config.attention_bias || family == "qwen2";
  m.out_biases = config.attention_bias && family != "qwen2";
  if (family == "phi3") m.joined_files = true, m.qkv_biases = m.out_biases = false;  // whatever is said
  m.mlp_biases = config.mlp_bias;
  m.norms_heads = family == "qwen3";
  if (family == "gpt2") {
    m.gelu = m.layer_norms = true;
    m.learned_positions = small(config.positions);
  }
  m.window = small(config.layer.window), m.window_from = small(config.window_from);
  if (m.window > 0 && family == "llama")
    return refused(config.at("sliding_window"), fmt::format("a window of {} keys", m.window),
                   "llama's class has none; mistral's, qwen2's, qwen3's and phi3's have");
  if (m.gelu && !is_tanh_gelu(config.activation))
    return refused(config.at("activation_function"),
                   fmt::format("an MLP with \"{}\"", config.activation.substr(0, 60)),
                   "there is a kernel for GELU by tanh: gelu_new, gelu_pytorch_tanh, gelu_fast");
  if (!m.gelu && config.layer.epilogue != Epilogue::swiglu)
    return refused(config.at("hidden_act"), "an MLP without SiLU in its gate",
                   "there is a kernel for SwiGLU alone");
  auto share = share_of(std::move(m), gpus);
  if (!share) {
    share.error().front().where = config.at("");
    return share;
  }
  if (auto const wrong = unsupported(*share); wrong) {
    std::string member = wrong->member;
    // A size that follows from others stands where these do.
    if (share->gelu) member = name_of_gpt2(member);
    if (config.lines.count(member) == 0) member = member == "head_dim" ? "hidden_size" : "model_type";
    if (gpus == 1) return refused(config.at(member), wrong->message, wrong->way_out);
    return refused(config.at(member), fmt::format("{} in one GPU's share of {}", wrong->message, gpus),
                   "divide the model among another number of GPUs, or: " + wrong->way_out);
  }
  return share;
}

Expected<void> check_same(Model const& a, Model const& b, std::string const& file) {
  std::vector<std::string> differ;
  auto const compare = [&](char const* what, auto asked, auto found) {
    if (asked != found) differ.push_back(fmt::format("{}: {} of {}, {} here", what, asked, a.name, found));
  };
  compare("layers", a.layers, b.layers);
  compare("hidden size", a.hidden, b.hidden);
  compare("intermediate size", a.intermediate, b.intermediate);
  compare("query heads", a.heads, b.heads);
  compare("key heads", a.kv_heads, b.kv_heads);
  compare("head size", a.head_size, b.head_size);
  compare("vocabulary", a.vocabulary, b.vocabulary);
  compare("norm's epsilon", a.norm_epsilon, b.norm_epsilon);
  compare("theta", a.rotation.theta, b.rotation.theta);
  compare("interleaved positions", a.rotation.interleaved, b.rotation.interleaved);
  compare("factor of positions", a.rotation.factor, b.rotation.factor);
  compare("factor of attention", a.rotation.attention_factor, b.rotation.attention_factor);
  compare("factors of frequencies", fmt::format("{:g}", fmt::join(a.rotation.long_factors, " ")),
          fmt::format("{:g}", fmt::join(b.rotation.long_factors, " ")));
  compare("tied", a.tied, b.tied);
  compare("window", a.window, b.window);
  compare("first layer with a window", a.window_from, b.window_from);
  compare("biases of queries, keys and values", a.qkv_biases, b.qkv_biases);
  compare("biases behind attention", a.out_biases, b.out_biases);
  compare("norms of heads", a.norms_heads, b.norms_heads);
  compare("LayerNorm", a.layer_norms, b.layer_norms);
  compare("an MLP without gates", a.gelu, b.gelu);
  compare("learned positions", a.learned_positions, b.learned_positions);
  compare("joined matrices", a.joined_files, b.joined_files);
  if (differ.empty()) return {};
  Diagnostic found;
  found.code = "E0572";
  found.where.file = file;
  found.message = fmt::format("the weights are of another model than {}", a.name);
  found.notes = std::move(differ);
  found.suggestion = fmt::format("name this file in place of {}", a.name);
  return refuse(std::move(found));
}

std::vector<WantedTensor> layer_tensors(Model const& m, int layer, std::string const& prefix) {
  if (is_named_as_gpt2(m)) return layer_of_gpt2(m, layer, prefix);
  auto const keys = m.kv_heads * m.head_size;
  std::vector<WantedTensor> all;
  auto const add = [&](char const* name, std::vector<std::int64_t> shape) {
    all.push_back({fmt::format("model.layers.{}.{}", layer, name), std::move(shape)});
  };
  add("input_layernorm.weight", {m.hidden});
  if (m.joined_files) {
    add("self_attn.qkv_proj.weight", {m.qkv_features(), m.hidden});
  } else {
    add("self_attn.q_proj.weight", {m.attended(), m.hidden});
    add("self_attn.k_proj.weight", {keys, m.hidden});
    add("self_attn.v_proj.weight", {keys, m.hidden});
  }
  add("self_attn.o_proj.weight", {m.hidden, m.attended()});
  add("post_attention_layernorm.weight", {m.hidden});
  if (m.joined_files) {
    add("mlp.gate_up_proj.weight", {2 * m.intermediate, m.hidden});
  } else {
    add("mlp.gate_proj.weight", {m.intermediate, m.hidden});
    add("mlp.up_proj.weight", {m.intermediate, m.hidden});
  }
  add("mlp.down_proj.weight", {m.hidden, m.intermediate});
  if (m.qkv_biases) {
    add("self_attn.q_proj.bias", {m.attended()});
    add("self_attn.k_proj.bias", {keys});
    add("self_attn.v_proj.bias", {keys});
  }
  if (m.out_biases) add("self_attn.o_proj.bias", {m.hidden});
  if (m.norms_heads) {
    add("self_attn.q_norm.weight", {m.head_size});
    add("self_attn.k_norm.weight", {m.head_size});
  }
  return all;
}

EndTensors end_tensors(Model const& m, std::string const& prefix) {
  EndTensors ends;
  if (is_named_as_gpt2(m)) {
    ends.embedding = {prefix + "wte.weight", {m.vocabulary, m.hidden}};
    ends.others = {{prefix + "ln_f.weight", {m.hidden}},
                   {prefix + "ln_f.bias", {m.hidden}},
                   {prefix + "wpe.weight", {m.learned_positions, m.hidden}}};
  } else {
    ends.embedding = {"model.embed_tokens.weight", {m.vocabulary, m.hidden}};
    ends.others = {{"model.norm.weight", {m.hidden}}};
  }
  if (!m.tied) ends.head = {"lm_head.weight", {m.vocabulary, m.hidden}};
  return ends;
}

std::string prefix_of(Model const& m, WeightFiles const& files) {
  if (!is_named_as_gpt2(m)) return k_usual_prefix;
  return files.find("wte.weight") != nullptr ? "" : k_usual_prefix;
}

WantedTensors tensors_of(Model const& m, std::string const& prefix) {
  WantedTensors all;
  auto const ends = end_tensors(m, prefix);
  all.tensors = {ends.embedding};
  all.tensors.insert(all.tensors.end(), ends.others.begin(), ends.others.end());
  for (int i = 0; i < m.layers; ++i)
    for (auto& one : layer_tensors(m, i, prefix)) all.tensors.push_back(std::move(one));
  // Tables that old files have of what is computed anew.
  if (is_named_as_gpt2(m))
    all.ignored_ends = {".attn.bias", ".attn.masked_bias"};
  else
    all.ignored_ends = {".rotary_emb.inv_freq"};
  if (m.tied)
    all.ignored_ends.emplace_back("lm_head.weight");
  else
    all.tensors.push_back(*ends.head);
  return all;
}

Expected<void> check_page_size(int positions) {
  if (positions >= 0 && positions % k_position_block == 0 && positions <= k_most_page) return {};
  return refused(
      {}, fmt::format("pages of {} positions", positions),
      fmt::format("ask for a multiple of {} up to {}, or 0: no pages", k_position_block, k_most_page));
}

DecoderMemory memory_of(Model const& m, int batch, int capacity, bool random) {
  DecoderMemory memory;
  double const matrix = 2.0 * m.vocabulary * m.hidden;
  memory.packed = m.weight_bytes();
  double const layers = memory.packed - matrix;
  memory.stored = (random ? layers / m.layers : layers) + (m.tied ? 1 : 2) * matrix;
  double const table = 2.0 * m.learned_positions * m.hidden;
  memory.stored += table, memory.packed += 2 * table;
  memory.cache = static_cast<double>(batch) * capacity * m.cache_bytes();
  return memory;
}

Expected<void> check_memory(DecoderMemory const& needed, double bytes, std::string const& where) {
  if (needed.sum() <= bytes) return {};
  auto const gb = [](double amount) { return fmt::format("{:.1f}", amount / k_gigabyte); };
  auto found = refused(
      {}, fmt::format("{} GB of device memory are needed, and {} has {}", gb(needed.sum()), where, gb(bytes)),
      needed.cache > needed.packed ? "ask for less --capacity or fewer prompts"
                                   : "take a smaller model; the cache is the smaller part of it");
  found.value().front().notes = {
      fmt::format("weights as stored: {} GB, until they are packed", gb(needed.stored)),
      fmt::format("weights as read: {} GB", gb(needed.packed)),
      fmt::format("cache: {} GB", gb(needed.cache))};
  return found;
}

double step_bytes(Model const& m, double cached) { return m.weight_bytes() + cached * m.cache_bytes(); }

}  // namespace tessera::decode
