// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace tessera::decode {
namespace {

constexpr int k_largest = 1 << 20;
constexpr int k_largest_table = 1 << 30;  ///< numbers of an embedding of positions
constexpr char k_share_mark = ':';

Expected<void> refused(std::string message, std::string way_out) {
  return refuse({"E0566", Severity::error, {}, std::move(message), {}, std::move(way_out)});
}

// Sizes as in the published config.json of each.
Model sizes(char const* name, int layers, int hidden, int intermediate, int heads, int kv_heads,
            int head_size) {
  Model model;
  model.name = name;
  model.layers = layers, model.hidden = hidden, model.intermediate = intermediate;
  model.heads = heads, model.kv_heads = kv_heads, model.head_size = head_size;
  return model;
}

Model llama(Model model) {
  model.vocabulary = 128256;
  model.rotation.theta = 500000;
  return model;
}

std::vector<Model> llamas() {
  auto one = llama(sizes("llama-3.2-1b", 16, 2048, 8192, 32, 8, 64));
  auto three = llama(sizes("llama-3.2-3b", 28, 3072, 8192, 24, 8, 128));
  for (auto* model : {&one, &three}) {
    model->rotation.factor = 32;
    model->tied = true;
  }
  return {one, three, llama(sizes("llama-3-8b", 32, 4096, 14336, 32, 8, 128))};
}

Model qwen(Model model, int vocabulary, bool tied) {
  model.vocabulary = vocabulary;
  model.norm_epsilon = 1e-6;
  model.rotation.theta = 1000000;
  model.tied = tied;
  return model;
}
Model qwen2(Model const& sizes, int vocabulary, bool tied) {
  auto model = qwen(sizes, vocabulary, tied);
  model.qkv_biases = true;
  return model;
}
Model qwen3(Model const& sizes, bool tied) {
  auto model = qwen(sizes, 151936, tied);
  model.norms_heads = true;
  return model;
}

std::vector<Model> qwens() {
  return {qwen2(sizes("qwen2.5-0.5b", 24, 896, 4864, 14, 2, 64), 151936, true),
          qwen2(sizes("qwen2.5-7b", 28, 3584, 18944, 28, 4, 128), 152064, false),
          qwen3(sizes("qwen3-0.6b", 28, 1024, 3072, 16, 8, 128), true),
          qwen3(sizes("qwen3-4b", 36, 2560, 9728, 32, 8, 128), true),
          qwen3(sizes("qwen3-8b", 36, 4096, 12288, 32, 8, 128), false)};
}

Model gpt(Model model, int vocabulary, int positions) {
  model.vocabulary = vocabulary;
  model.tied = model.gelu = model.layer_norms = true;
  model.qkv_biases = model.out_biases = model.mlp_biases = true;
  model.learned_positions = positions;
  return model;
}

std::vector<Model> gpts() { return {gpt(sizes("gpt2", 12, 768, 3072, 12, 12, 64), 50257, 1024)}; }

std::string names() {
  std::string result;
  for (auto const* models : {&known_models(), &large_models()})
    for (auto const& model : *models) result += (result.empty() ? "" : ", ") + model.name;
  return result;
}

}  // namespace

double Model::weight_bytes() const {
  double const layer = static_cast<double>(hidden) * (qkv_features() + attended()) +
                       (1.0 + mlp_rows()) * static_cast<double>(hidden) * intermediate;
  return 2 * (layers * layer + static_cast<double>(vocabulary) * hidden);
}

std::vector<Model> const& known_models() {
  static std::vector<Model> const all = [] {
    auto models = llamas();
    for (auto const& more : {qwens(), gpts()}) models.insert(models.end(), more.begin(), more.end());
    return models;
  }();
  return all;
}

std::vector<Model> const& large_models() {
  static std::vector<Model> const all = [] {
    auto old = sizes("llama-65b", 80, 8192, 22016, 64, 64, 128);
    old.vocabulary = 32000;
    return std::vector<Model>{llama(sizes("llama-3-70b", 80, 8192, 28672, 64, 8, 128)), old,
                              gpt(sizes("gpt-3-145b", 80, 12288, 4 * 12288, 96, 96, 128), 51200, 2048)};
  }();
  return all;
}

Expected<Model> model_of(std::string const& name) {
  auto const colon = name.rfind(k_share_mark);
  for (auto const* models : {&known_models(), &large_models()})
    for (auto const& model : *models) {
      if (model.name == name) return model;
      if (colon == std::string::npos || model.name != name.substr(0, colon)) continue;
      int gpus = 0;
      auto const* const end = name.data() + name.size();
      auto const read = std::from_chars(name.data() + colon + 1, end, gpus);
      if (read.ec == std::errc() && read.ptr == end) return share_of(model, gpus);
    }
  auto const no = refused(fmt::format("no decoder is known by the name \"{}\"", name.substr(0, 60)),
                          "known: " + names() + "; for others fill in a Model");
  return tl::make_unexpected(no.error());
}

Expected<Model> share_of(Model m, int gpus) {
  auto const no = [](char const* code, std::string message, std::string way_out) {
    return refuse({code, Severity::error, {}, std::move(message), {}, std::move(way_out)});
  };
  constexpr int k_most_gpus = 1 << 16;
  if (gpus < 1 || gpus > k_most_gpus)
    return no("E0216",
              fmt::format("tensor-parallel degree must be between 1 and {}, not {}", k_most_gpus, gpus), {});
  if (gpus == 1) return m;
  if (m.gpus > 1) return no("E0566", fmt::format("{} is a share already", m.name), "divide the whole model");
  if (m.heads % gpus != 0)
    return no("E0215",
              fmt::format("{} attention heads of {} cannot be divided among {} GPUs", m.heads, m.name, gpus),
              fmt::format("use a tensor-parallel degree that divides {}", m.heads));
  if (m.kv_heads % gpus != 0 && gpus % m.kv_heads != 0)
    return no("E0215",
              fmt::format("{} kv heads of {} can be neither divided among nor repeated over {} GPUs",
                          m.kv_heads, m.name, gpus),
              fmt::format("use a tensor-parallel degree that divides {} or is a multiple of it", m.kv_heads));
  if (m.intermediate % gpus != 0)
    return no("E0215",
              fmt::format("{} inner features of {}'s MLP cannot be divided among {} GPUs", m.intermediate,
                          m.name, gpus),
              fmt::format("use a tensor-parallel degree that divides {}", m.intermediate));
  m.heads /= gpus, m.kv_heads = std::max(m.kv_heads / gpus, 1), m.intermediate /= gpus;
  m.gpus = gpus;
  m.name += k_share_mark + std::to_string(gpus);
  return m;
}

std::optional<Unsupported> unsupported(Model const& m) {
  using Found = Unsupported;
  if (m.head_size != 64 && m.head_size != 96 && m.head_size != 128)
    return Found{"head_dim", fmt::format("heads of size {}", m.head_size),
                 "there are kernels for 64, 96 and 128"};
  if (m.heads < 1 || m.kv_heads < 1 || m.heads % m.kv_heads != 0 || m.heads / m.kv_heads > k_most_group)
    return Found{"num_key_value_heads", fmt::format("{} query heads on {} key heads", m.heads, m.kv_heads),
                 fmt::format("1 to {} query heads can share a key head, all as many", k_most_group)};
  if (m.attended() % 64 != 0)
    return Found{"num_attention_heads", fmt::format("{} heads of {}", m.heads, m.head_size),
                 "ask for a multiple of 64 elements of all heads together"};
  if (m.gpus > 1 && m.attended() < 128)  // nobody has run one
    return Found{"num_attention_heads", fmt::format("{} head of {}", m.heads, m.head_size),
                 "ask for 128 elements of all heads together, or more"};
  if (m.norms_heads && m.head_size == 96)
    return Found{"head_dim", "normed heads of size 96", "there are kernels for 64 and 128"};
  if (m.norms_heads && m.rotation.interleaved)
    return Found{"model_type", "normed heads whose positions turn neighbouring dimensions",
                 "there are kernels for half-split positions with normed heads"};
  if (m.layers < 1 || m.layers > 1024)
    return Found{"num_hidden_layers", fmt::format("{} layers", m.layers), "ask for 1 to 1024"};
  struct Size {
    char const *member, *what;
    int size;
  };
  for (auto const& [member, what, size] : {Size{"hidden_size", "a hidden size", m.hidden},
                                           {"intermediate_size", "an intermediate size", m.intermediate}})
    if (size < 64 || size % 64 != 0 || size > k_largest)
      return Found{member, fmt::format("{} of {}", what, size),
                   "ask for a multiple of 64 up to 2^20; pad the weights with zeros"};
  if (m.vocabulary < 64 || m.vocabulary > k_largest)
    return Found{"vocab_size", fmt::format("a vocabulary of {}", m.vocabulary), "ask for 64 up to 2^20"};
  if (m.mlp_biases && !m.gelu)
    return Found{"mlp_bias", "an MLP with gates and biases",
                 "there is no kernel that adds them; attention may have some, and an MLP without gates"};
  if (m.layer_norms && (!m.gelu || m.learned_positions == 0))
    return Found{"model_type", "LayerNorm beside an MLP with gates, or positions that turn queries and keys",
                 "there are kernels for it with GELU and learned positions, as GPT-2 has them"};
  if (int const most = k_largest_table / m.hidden; m.learned_positions < 0 || m.learned_positions > most)
    return Found{"n_positions", fmt::format("{} learned positions", m.learned_positions),
                 fmt::format("ask for 1 to {}, or 0: positions turn queries and keys", most)};
  if (m.window < 0)
    return Found{"sliding_window", fmt::format("a window of {} keys", m.window),
                 "ask for 1 or more, or 0: all keys"};
  if (m.window_from < 0 || (m.window > 0 ? m.window_from >= m.layers : m.window_from > 0))
    return Found{"max_window_layers",
                 fmt::format("a window of {} keys from layer {} of {} on", m.window, m.window_from, m.layers),
                 "ask for a layer that there is, and for 0 without a window"};
  for (auto const* factors : {&m.rotation.short_factors, &m.rotation.long_factors})
    if (auto const count = factors->size();
        count != m.rotation.long_factors.size() ||
        (count > 0 && (count != static_cast<std::size_t>(m.head_size / 2) || m.rotation.factor > 1)) ||
        !std::all_of(factors->begin(), factors->end(), [](float one) { return one > 0; }))
      return Found{"rope_scaling",
                   fmt::format("{} factors of frequencies for heads of {}", count, m.head_size),
                   "give one above 0 for half of the dimensions, short and long ones, and no other scaling"};
  if (!(m.norm_epsilon > 0))
    return Found{"rms_norm_eps", fmt::format("a norm with epsilon {}", m.norm_epsilon),
                 "ask for epsilon above 0"};
  if (!(m.rotation.theta > 1) || !(m.rotation.factor >= 1) || !(m.rotation.attention_factor > 0))
    return Found{"rope_theta",
                 fmt::format("a rotation with theta {} and factor {}", m.rotation.theta, m.rotation.factor),
                 "ask for theta above 1, a factor of 1 or more"};
  return std::nullopt;
}

Expected<void> check_model(Model const& model) {
  if (auto found = unsupported(model); found)
    return refused(std::move(found->message), std::move(found->way_out));
  return {};
}

int most_capacity(Model const& m) {
  return m.learned_positions > 0 ? std::min(m.learned_positions, k_most_capacity) : k_most_capacity;
}

Expected<void> check_sequences(int batch, int capacity, int most) {
  if (batch < 1 || batch > k_most_batch)
    return refused(fmt::format("{} sequences at once", batch), fmt::format("ask for 1 to {}", k_most_batch));
  if (capacity < 1 || capacity > most)
    return refused(fmt::format("room for {} tokens of a sequence", capacity),
                   fmt::format("ask for 1 to {}", most));
  return {};
}

}  // namespace tessera::decode
