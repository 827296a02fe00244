// SPDX-License-Identifier: Apache-2.0
#include "json/hf_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "diagnostic/nearest.hpp"

namespace tessera::json {
namespace {

constexpr std::int64_t k_largest_field = std::int64_t{1} << 24, k_most_layers = 1 << 16;
constexpr std::int64_t k_required = -1;  ///< the config has to say it
constexpr std::int64_t k_as_heads = 0;   ///< as many key and value heads as query heads

enum class Mlp {
  plain,  ///< up, GeLU, down
  gated,  ///< gate and up, SwiGLU or GeGLU by the activation, down
};

/// Which layers see no more than "sliding_window" keys.
enum class Windows {
  none,
  if_flagged,     ///< all, with "use_sliding_window"
  behind_layers,  ///< with "use_sliding_window" those that "max_window_layers" or "layer_types" say
  all_layers,
  some_layers,  ///< those that "layer_types" says, or the family itself
};

/// Where the number of key and value heads stands.
enum class KeyHeads {
  field,
  multi_query,  ///< "multi_query": one
  falcon,       ///< "num_kv_heads" in the new architecture, else by "multi_query"
  mpt,          ///< in "attn_config"
};

struct Fields {
  char const* hidden = "hidden_size";
  char const* intermediate = "intermediate_size";
  char const* heads = "num_attention_heads";
  char const* kv_heads = "num_key_value_heads";
  char const* activation = "hidden_act";
};

/// What the family's configuration class takes where the config says nothing. 0: there is no default.
struct Defaults {
  std::int64_t kv_heads = k_as_heads;
  std::int64_t head_dim = 0;      ///< 0: hidden / heads
  std::int64_t times_hidden = 0;  ///< intermediate, in multiples of hidden
  std::int64_t hidden = 0, intermediate = 0, heads = 0;
  char const* activation = nullptr;  ///< nullptr: SiLU if gated, GeLU if not
  std::int64_t window = 0;           ///< keys; 0: none
};

/// Experts in place of the MLP, or beside it.
struct Experts {
  char const* count = nullptr;  ///< nullptr: the family has none
  char const* intermediate = nullptr;
  char const* shared = nullptr;    ///< width of the expert that all tokens go through
  bool shared_in_experts = false;  ///< `shared` counts experts of the same width
  /// Layers with a plain MLP, if this says more than zero, or is a list with a member.
  char const* dense_layers = nullptr;
};

struct Family {
  char const* model_type;
  Mlp mlp = Mlp::gated;
  Fields fields = {};
  Defaults defaults = {};
  Windows windows = Windows::if_flagged;
  Experts experts = {};
  KeyHeads key_heads = KeyHeads::field;
};

constexpr char const* k_tanh_gelu = "gelu_pytorch_tanh";
constexpr std::int64_t k_usual_window = 4096;
constexpr Fields k_gpt2{"n_embd", "n_inner", "n_head", nullptr, "activation_function"};

// Names and defaults: the configuration classes of transformers (LlamaConfig, ...), and of the published
// configs that lean on them.
constexpr std::array k_families{
    Family{"llama"},
    Family{
        "mistral", Mlp::gated, {}, {.kv_heads = k_required, .window = k_usual_window}, Windows::all_layers},
    Family{
        "qwen2", Mlp::gated, {}, {.kv_heads = k_required, .window = k_usual_window}, Windows::behind_layers},
    Family{"qwen3",
           Mlp::gated,
           {},
           {.kv_heads = k_required, .head_dim = 128, .window = k_usual_window},
           Windows::behind_layers},
    Family{"phi", Mlp::plain},
    Family{"phi3", Mlp::gated, {}, {}, Windows::all_layers},
    Family{"gemma", Mlp::gated, {}, {k_required, 256, 0, 0, 0, 0, k_tanh_gelu}},
    Family{"gemma2",
           Mlp::gated,
           {.activation = "hidden_activation"},
           {k_required, 256, 0, 0, 0, 0, k_tanh_gelu, k_usual_window},
           Windows::some_layers},
    Family{"gemma3_text",
           Mlp::gated,
           {.activation = "hidden_activation"},
           {4, 256, 0, 2304, 9216, 8, k_tanh_gelu, k_usual_window},
           Windows::some_layers},
    Family{"helium", Mlp::gated, {}, {.kv_heads = 20, .head_dim = 128}},
    Family{"ernie4_5", Mlp::gated, {}, {.kv_heads = 2, .head_dim = 128}},
    Family{"granite"},
    Family{"olmo"},
    Family{"olmo2"},
    Family{"cohere"},
    Family{"cohere2", Mlp::gated, {}, {.window = k_usual_window}, Windows::some_layers},
    Family{"glm", Mlp::gated, {}, {k_required, 128}},
    Family{"glm4", Mlp::gated, {}, {k_required, 128}},
    Family{"stablelm", Mlp::gated, {}, {k_required}},
    Family{"starcoder2", Mlp::plain, {}, {k_required}, Windows::all_layers},
    Family{"falcon",
           Mlp::plain,
           {.intermediate = "ffn_hidden_size", .kv_heads = "num_kv_heads", .activation = "activation"},
           {.times_hidden = 4},
           Windows::none,
           {},
           KeyHeads::falcon},
    Family{"mpt",
           Mlp::plain,
           {"d_model", "expansion_ratio", "n_heads", nullptr, "activation"},
           {.times_hidden = 4},
           Windows::none,
           {},
           KeyHeads::mpt},
    Family{"gpt2", Mlp::plain, k_gpt2, {.times_hidden = 4}, Windows::none},
    Family{"gptj", Mlp::plain, k_gpt2, {.times_hidden = 4}, Windows::none},
    Family{"gpt_bigcode", Mlp::plain, k_gpt2, {.times_hidden = 4}, Windows::none, {}, KeyHeads::multi_query},
    Family{"gpt_neox", Mlp::plain, {.kv_heads = nullptr}, {}, Windows::none},
    Family{"mixtral",
           Mlp::gated,
           {},
           {k_required},
           Windows::all_layers,
           {.count = "num_local_experts", .intermediate = "intermediate_size"}},
    Family{"gpt_oss",
           Mlp::gated,
           {},
           {.kv_heads = k_required, .head_dim = 64, .window = 128},
           Windows::some_layers,
           {.count = "num_local_experts", .intermediate = "intermediate_size"}},
    Family{"qwen2_moe",
           Mlp::gated,
           {},
           {.kv_heads = k_required, .window = k_usual_window},
           Windows::behind_layers,
           {"num_experts", "moe_intermediate_size", "shared_expert_intermediate_size", false,
            "mlp_only_layers"}},
    Family{
        "qwen3_moe",
        Mlp::gated,
        {},
        {.kv_heads = k_required, .head_dim = 128, .window = k_usual_window},
        Windows::behind_layers,
        {.count = "num_experts", .intermediate = "moe_intermediate_size", .dense_layers = "mlp_only_layers"}},
    Family{"deepseek_v2",
           Mlp::gated,
           {},
           {k_required},
           Windows::none,
           {"n_routed_experts", "moe_intermediate_size", "n_shared_experts", true, "first_k_dense_replace"}},
    Family{"deepseek_v3",
           Mlp::gated,
           {},
           {k_required},
           Windows::none,
           {"n_routed_experts", "moe_intermediate_size", "n_shared_experts", true, "first_k_dense_replace"}},
};

Family const* family_of(Document& document, ObjectReader& model) {
  std::vector<std::string> known;
  for (auto const& family : k_families) known.emplace_back(family.model_type);
  if (auto const* schema = model.find("schema"); schema != nullptr && !model.has("model_type")) {
    document.report(*schema, "E0213",
                    fmt::format("this is a Tessera file (\"{}\"), not a model's config.json",
                                schema->text().substr(0, 60)));
    return nullptr;
  }
  if (!model.has("model_type")) {
    document.report(model.node(), "E0211", "\"model_type\" is missing", {"known: " + list_of(known)});
    return nullptr;
  }
  auto const type = model.string("model_type");
  for (auto const& family : k_families)
    if (type == family.model_type) return &family;
  if (document.failed()) return nullptr;
  auto hint = did_you_mean(type, known);
  if (hint.empty()) hint = "if the model is built like one of the known families, set its name as model_type";
  document.report(
      *model.find("model_type"), "E0213",
      fmt::format("model_type \"{}\" is not a known family", type.substr(0, 60)),
      {"known: " + list_of(known),
       "needed: hidden_size, intermediate_size, num_attention_heads, num_key_value_heads, hidden_act, "
       "and head_dim where it is not hidden_size / num_attention_heads"},
      hint);
  return nullptr;
}

/// A size that is at least 1. `fallback` 0: E0211 where it is missing.
std::int64_t size_of(ObjectReader& model, char const* name, std::int64_t fallback,
                     std::int64_t most = k_largest_field) {
  return fallback > 0 ? model.integer_or(name, fallback, 1, most) : model.integer(name, 1, most);
}

std::int64_t intermediate_of(ObjectReader& model, Family const& family, std::int64_t hidden) {
  auto const& d = family.defaults;
  if (family.key_heads == KeyHeads::mpt)
    return hidden * model.integer_or(family.fields.intermediate, d.times_hidden, 1, 64);
  return size_of(model, family.fields.intermediate,
                 d.times_hidden > 0 ? d.times_hidden * hidden : d.intermediate, 64 * k_largest_field);
}

std::int64_t kv_heads_of(Document& document, ObjectReader& model, Family const& family, std::int64_t heads) {
  auto const* name = family.fields.kv_heads;
  switch (family.key_heads) {
    case KeyHeads::multi_query: return model.boolean_or("multi_query", true) ? 1 : heads;
    case KeyHeads::falcon:
      if (!model.boolean_or("new_decoder_architecture", false))
        return model.boolean_or("multi_query", true) ? 1 : heads;
      return size_of(model, name, heads);
    case KeyHeads::mpt: {
      auto const* attention = model.object_or("attn_config");
      if (attention == nullptr) return heads;
      ObjectReader reader(document, *attention, "attn_config");
      bool const one = reader.string_or("attn_type", "multihead_attention") == "multiquery_attention";
      return reader.integer_or("kv_n_heads", one ? 1 : heads, 1, k_largest_field);
    }
    case KeyHeads::field: break;
  }
  if (name == nullptr) return heads;
  // Other families' names for it: what they say would be passed over.
  if (!model.has(name))
    for (auto const* other : {"num_kv_heads", "n_kv_heads", "n_head_kv", "kv_n_heads"})
      if (auto const* said = model.find(other); said != nullptr)
        document.report(*said, "E0211",
                        fmt::format("\"{}\" is not read for model_type \"{}\", and \"{}\" is missing", other,
                                    family.model_type, name),
                        {}, fmt::format("write it as \"{}\"", name));
  auto const fallback = family.defaults.kv_heads;
  // A null means "as many as heads" also where the class has a number for what is missing.
  if (fallback == k_required && model.find(name) == nullptr) return model.integer(name, 1);
  return model.integer_or(name, fallback > 0 ? fallback : heads, 1, k_largest_field);
}

Epilogue epilogue_of(Document& document, ObjectReader& model, Family const& family) {
  static std::vector<std::string> const silu{"silu", "swish"};
  static std::vector<std::string> const gelu{"gelu",      "gelu_new",    "gelu_fast",
                                             k_tanh_gelu, "gelu_python", "quick_gelu"};
  bool const gated = family.mlp == Mlp::gated;
  auto const* standard = family.defaults.activation;
  auto const given = model.string_or(family.fields.activation, standard != nullptr ? standard
                                                               : gated             ? silu.front()
                                                                                   : gelu.front());
  auto const is = [&](std::vector<std::string> const& names) {
    return std::find(names.begin(), names.end(), given) != names.end();
  };
  if (gated && is(silu)) return Epilogue::swiglu;
  if (is(gelu)) return gated ? Epilogue::geglu : Epilogue::gelu;
  auto words = gated ? silu : gelu;
  if (gated) words.insert(words.end(), gelu.begin(), gelu.end());
  document.report(place_of(document, model, family.fields.activation), "E0214",
                  fmt::format("\"{}\": activation \"{}\" is not supported for {}", family.fields.activation,
                              given.substr(0, 60), family.model_type),
                  {"supported: " + list_of(words)},
                  given.find("relu") == std::string::npos ? did_you_mean(given, words) : "");
  return Epilogue::none;
}

/// Of the kinds that newer configs give, one for each layer.
WindowedLayers windowed_layers(Document& document, ObjectReader& model, std::int64_t keys) {
  constexpr std::string_view k_all_keys = "full_attention", k_window = "sliding_attention";
  auto const& kinds = model.array("layer_types");
  auto const layers = static_cast<std::int64_t>(kinds.size());
  if (auto const said = model.integer_or("num_hidden_layers", layers, 1, k_most_layers); said != layers)
    document.report(*model.find("layer_types"), "E0217",
                    fmt::format("\"layer_types\" has {} kinds, and there are {} layers", layers, said));
  WindowedLayers found;
  bool before = false;
  for (std::int64_t layer = 0; layer < layers && !document.failed(); ++layer) {
    auto const& kind = kinds[static_cast<std::size_t>(layer)];
    if (kind.text() == k_window) {
      if (found.keys == 0) found.from = layer;
      found.keys = keys;
    } else if (kind.text() == k_all_keys) {
      before = true;
      found.in_turns = found.in_turns || found.keys > 0;
    } else {
      document.report(kind, "E0214",
                      fmt::format("layer {} of a kind that is not supported{}", layer,
                                  kind.text().empty() ? "" : ": \"" + kind.text().substr(0, 60) + "\""),
                      {fmt::format("supported: \"{}\" and \"{}\"", k_all_keys, k_window)});
    }
  }
  found.some_see_all = found.keys > 0 && before;
  return found;
}

void read_experts(Document& document, ObjectReader& model, Family const& family, TransformerShape& shape) {
  auto const& names = family.experts;
  for (auto const* name : {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}) {
    auto const count = model.integer_or(name, 0, 0, k_largest_field);
    if (count > 1 && (names.count == nullptr || std::string_view(name) != names.count))
      document.report(*model.find(name), "E0214",
                      fmt::format("experts are not known of {} ({} = {})", family.model_type, name, count),
                      {}, "if its experts are built like mixtral's or qwen3_moe's, set that as model_type");
  }
  if (names.count == nullptr || document.failed()) return;
  auto& experts = shape.experts;
  experts.count = model.integer(names.count, 1, k_largest_field);
  experts.per_token = model.integer("num_experts_per_tok", 1, k_largest_field);
  experts.intermediate = model.integer(names.intermediate, 1, k_largest_field);
  if (names.shared != nullptr) {
    auto const shared = model.integer_or(names.shared, 0, 0, k_largest_field);
    experts.shared_intermediate = names.shared_in_experts ? shared * experts.intermediate : shared;
  }
  if (experts.per_token > experts.count)
    document.report(*model.find("num_experts_per_tok"), "E0217",
                    fmt::format("{} of {} experts for each token", experts.per_token, experts.count), {},
                    fmt::format("between 1 and {} can be", experts.count));
  auto const* dense = names.dense_layers != nullptr ? model.find(names.dense_layers) : nullptr;
  bool const some =
      dense != nullptr && (dense->is(Node::Kind::integer) ? dense->integer > 0 : !dense->items().empty());
  // Experts in every so many layers: the others have an MLP.
  bool const sparse = model.integer_or("decoder_sparse_step", 1, 1, k_largest_field) > 1;
  if (!some && !sparse) shape.intermediate = 0;
}

}  // namespace

Node const& language_model(Document const& document) {
  auto const* text = document.root().find("text_config");
  return text != nullptr && text->is(Node::Kind::object) ? *text : document.root();
}

WindowedLayers read_windows(Document& document, ObjectReader& model, std::string_view type) {
  constexpr std::int64_t k_usual_layers_before = 28;
  auto const& family = *std::find_if(k_families.begin(), k_families.end(),
                                     [&](Family const& one) { return one.model_type == type; });
  auto const windows = family.windows;
  bool const flag = model.boolean_or("use_sliding_window",
                                     windows != Windows::if_flagged && windows != Windows::behind_layers);
  if (windows == Windows::none || !flag) return {};
  // The configuration class has a number for what is missing; a null says that there is no window.
  auto const keys =
      model.has("sliding_window") ? model.integer_or("sliding_window", 0, 1) : family.defaults.window;
  if (keys == 0 || document.failed()) return {};
  bool const by_layer = windows == Windows::behind_layers || windows == Windows::some_layers;
  if (by_layer && !model.array_or("layer_types").empty()) return windowed_layers(document, model, keys);
  if (windows != Windows::behind_layers) {
    bool const some = windows == Windows::some_layers;
    return {keys, 0, some, some};
  }
  auto const layers = model.integer("num_hidden_layers", 1, k_most_layers);
  auto const from = model.integer_or("max_window_layers", k_usual_layers_before, 0, k_most_layers);
  if (from >= layers) return {};
  return {keys, from, from > 0, false};
}

void check_whole_rotation(Document& document, ObjectReader& reader) {
  auto const part = reader.number_or("partial_rotary_factor", 1, 0, 1);
  if (part < 1)
    document.report(*reader.find("partial_rotary_factor"), "E0214",
                    fmt::format("positions that turn {} of a head are not supported", part));
}

Node const& place_of(Document const& document, ObjectReader& object, char const* name) {
  auto const* member = name != nullptr ? object.find(name) : nullptr;
  return member != nullptr ? *member : document.root();
}

std::optional<TransformerShape> read_shape(Document& document) {
  ObjectReader model(document, language_model(document), "the config");
  if (document.failed()) return std::nullopt;
  auto const* family = family_of(document, model);
  if (family == nullptr) return std::nullopt;
  auto const& fields = family->fields;
  TransformerShape shape;
  shape.type = family->model_type;
  shape.hidden = size_of(model, fields.hidden, family->defaults.hidden);
  shape.intermediate = intermediate_of(model, *family, shape.hidden);
  shape.heads = size_of(model, fields.heads, family->defaults.heads);
  shape.kv_heads = kv_heads_of(document, model, *family, shape.heads);
  shape.head_dim = model.integer_or("head_dim", family->defaults.head_dim, 1, k_largest_field);
  shape.latent_attention = model.integer_or("kv_lora_rank", 0, 0, k_largest_field) > 0;
  // Nothing here costs other times with a bias; what is neither yes nor no is no config all the same.
  for (auto const* name :
       {"mlp_bias", "attention_bias", "use_bias", "bias", "no_bias", "use_cache", "tie_word_embeddings"})
    (void)model.boolean_or(name, false);
  auto const windows = read_windows(document, model, shape.type);
  shape.window = windows.keys, shape.some_layers_see_all = windows.some_see_all;
  shape.epilogue = epilogue_of(document, model, *family);
  read_experts(document, model, *family, shape);
  for (auto const* name : {"torch_dtype", "quantization_config"}) (void)model.find(name);  // read elsewhere
  // Members that families have beside those that are read: no slip of one of these.
  for (auto const* name : {"v_head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "q_lora_rank"})
    (void)model.find(name);
  model.report_slips("E0211");
  if (document.failed()) return std::nullopt;

  if (shape.head_dim == 0) {
    if (shape.hidden % shape.heads != 0)
      document.report(place_of(document, model, fields.heads), "E0217",
                      fmt::format("\"{}\" {} is not divisible by \"{}\" {}", fields.hidden, shape.hidden,
                                  fields.heads, shape.heads),
                      {}, "give \"head_dim\" if heads are not hidden / heads wide");
    shape.head_dim = std::max<std::int64_t>(shape.hidden / shape.heads, 1);
  }
  if (shape.heads % shape.kv_heads != 0)
    document.report(place_of(document, model, fields.kv_heads), "E0217",
                    fmt::format("\"{}\" {} do not share \"{}\" {} evenly", fields.heads, shape.heads,
                                fields.kv_heads != nullptr ? fields.kv_heads : "kv heads", shape.kv_heads));
  if (document.failed()) return std::nullopt;
  return shape;
}

}  // namespace tessera::json
