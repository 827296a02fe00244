// SPDX-License-Identifier: Apache-2.0
// Hugging Face config.json of decoder-only transformers, and the operators of one GPU's share of a block.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "describe/operator_check.hpp"
#include "diagnostic/nearest.hpp"
#include "json/reader.hpp"
#include "json/workload_parts.hpp"
#include "tessera/describe/workload_json.hpp"

namespace tessera {
namespace {

using json::Document;
using json::Node;
using json::ObjectReader;

constexpr json::Codes k_codes{"E0201", "E0211", "E0212", "E0212", true};
constexpr std::int64_t k_largest_field = std::int64_t{1} << 24;

/// Where a family keeps its sizes, and what it is built of. A null name: the family has no such field.
struct Family {
  char const* model_type;
  char const* hidden;
  char const* intermediate;
  char const* heads;
  char const* kv_heads;
  char const* activation;
  bool gated;                     ///< gate and up projections, SwiGLU
  std::int64_t default_head_dim;  ///< when head_dim is missing; 0: hidden / heads
  bool kv_heads_required;         ///< the family's own default is a number, not "as many as heads"
  bool windowed;                  ///< sliding_window applies unless use_sliding_window says otherwise
};

// transformers' configuration classes: LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config (head_dim 128
// by default), GPT2Config (n_inner null: 4 * n_embd), GPTNeoXConfig.
constexpr std::array k_families{
    Family{"llama", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
           "hidden_act", true, 0, false, false},
    Family{"mistral", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
           "hidden_act", true, 0, true, true},
    Family{"qwen2", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
           "hidden_act", true, 0, true, false},
    Family{"qwen3", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
           "hidden_act", true, 128, true, false},
    Family{"gpt2", "n_embd", "n_inner", "n_head", nullptr, "activation_function", false, 0, false, false},
    Family{"gpt_neox", "hidden_size", "intermediate_size", "num_attention_heads", nullptr, "hidden_act",
           false, 0, false, false},
};

using Model = TransformerShape;

void refuse_experts(Document& document, ObjectReader& root) {
  for (auto const* name : {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}) {
    auto const experts = root.integer_or(name, 0, 0);
    if (experts > 1)
      document.report(*root.find(name), "E0214",
                      fmt::format("mixture-of-experts models are not supported ({} = {})", name, experts),
                      {"which tokens an expert gets, and so which tiles depend on which, is known only when "
                       "the router has run"},
                      "describe the experts' GEMMs of one routing as a tessera.workload/1 file");
  }
}

Family const* family_of(Document& document, ObjectReader& root) {
  std::vector<std::string> known;
  for (auto const& family : k_families) known.emplace_back(family.model_type);
  if (auto const* schema = root.find("schema"); schema != nullptr && !root.has("model_type")) {
    document.report(*schema, "E0213",
                    fmt::format("this is a Tessera file (\"{}\"), not a model's config.json",
                                schema->text().substr(0, 60)));
    return nullptr;
  }
  if (!root.has("model_type")) {
    document.report(document.root(), "E0211", "\"model_type\" is missing", {"known: " + list_of(known)},
                    root.has("text_config") ? "the language model's fields are in \"text_config\": save that "
                                              "object as a file of its own"
                                            : "");
    return nullptr;
  }
  auto const type = root.string("model_type");
  for (auto const& family : k_families)
    if (type == family.model_type) return &family;
  if (document.failed()) return nullptr;
  auto hint = did_you_mean(type, known);
  if (hint.empty()) hint = "if the model is built like one of the known families, set its name as model_type";
  if (root.has("text_config"))
    hint = "the language model's fields are in \"text_config\": save that object as a file of its own";
  document.report(
      *root.find("model_type"), "E0213",
      fmt::format("model_type \"{}\" is not a known family", type.substr(0, 60)),
      {"known: " + list_of(known),
       "needed: hidden_size, intermediate_size, num_attention_heads, num_key_value_heads, hidden_act, "
       "and head_dim where it is not hidden_size / num_attention_heads"},
      hint);
  return nullptr;
}

/// E0214: weights that are not 16 bits wide, unless --dtype (`wanted`) says to plan the model as if they
/// were. Without a type in the config they are taken for fp16.
ElementType element_type(Document& document, ObjectReader& root, std::string const& wanted) {
  static std::vector<std::string> const bf16{"bfloat16", "bf16"};
  static std::vector<std::string> const fp16{"float16", "fp16", "half"};
  auto const is = [](std::vector<std::string> const& names, std::string const& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  auto given = root.string_or("torch_dtype", root.string_or("dtype", "float16"));
  if (given.rfind("torch.", 0) == 0) given.erase(0, 6);
  auto const type = wanted.empty() ? given : wanted;
  if (document.failed() || (!wanted.empty() && is(bf16, wanted))) return ElementType::bf16;
  if (!wanted.empty()) return ElementType::fp16;
  constexpr char const* k_way_out =
      "--dtype bf16 or --dtype fp16 plans the model as if its weights were that";
  if (!is(bf16, type) && !is(fp16, type))
    document.report(root.has("torch_dtype") ? *root.find("torch_dtype") : *root.find("dtype"), "E0214",
                    fmt::format("weights of type \"{}\" are not supported", type.substr(0, 60)),
                    {"supported: float16 and bfloat16"}, k_way_out);
  auto const* quantized = root.find("quantization_config");
  if (quantized != nullptr && !quantized->is(Node::Kind::null))
    document.report(*quantized, "E0214", "quantized weights are not supported",
                    {"supported: float16 and bfloat16"}, k_way_out);
  return is(bf16, type) ? ElementType::bf16 : ElementType::fp16;
}

/// The member's line, or the whole object's.
Node const& place_of(Document const& document, ObjectReader& root, char const* name) {
  auto const* member = name != nullptr ? root.find(name) : nullptr;
  return member != nullptr ? *member : document.root();
}

void check_activation(Document& document, ObjectReader& root, Family const& family) {
  static std::vector<std::string> const gated{"silu", "swish"};
  static std::vector<std::string> const plain{"gelu",        "gelu_new",  "gelu_fast", "gelu_pytorch_tanh",
                                              "gelu_python", "quick_gelu"};
  auto const& words = family.gated ? gated : plain;
  auto const act = root.string_or(family.activation, words.front());
  for (auto const& word : words)
    if (act == word) return;
  document.report(place_of(document, root, family.activation), "E0214",
                  fmt::format("\"{}\": activation \"{}\" is not supported for {}", family.activation,
                              act.substr(0, 60), family.model_type),
                  {"supported: " + list_of(words)}, did_you_mean(act, words));
}

Model read_model(Document& document, ObjectReader& root, Family const& family) {
  Model model;
  model.type = family.model_type;
  model.gated = family.gated;
  model.hidden = root.integer(family.hidden, 1, k_largest_field);
  bool const gpt2_default = model.type == "gpt2";
  model.intermediate = gpt2_default
                           ? root.integer_or(family.intermediate, 4 * model.hidden, 1, 4 * k_largest_field)
                           : root.integer(family.intermediate, 1, k_largest_field);
  model.heads = root.integer(family.heads, 1, k_largest_field);
  model.kv_heads = model.heads;
  if (family.kv_heads != nullptr) {
    auto const* given = root.find(family.kv_heads);
    if (given == nullptr && family.kv_heads_required)
      root.integer(family.kv_heads, 1);  // reports that it is missing
    else
      model.kv_heads = root.integer_or(family.kv_heads, model.heads, 1, k_largest_field);
  }
  model.head_dim = root.integer_or("head_dim", family.default_head_dim, 1, k_largest_field);
  bool const uses_window = family.windowed ? root.boolean_or("use_sliding_window", true)
                                           : root.boolean_or("use_sliding_window", false);
  if (uses_window) model.window = root.integer_or("sliding_window", 0, 1);
  check_activation(document, root, family);
  if (document.failed()) return model;

  if (model.head_dim == 0) {
    if (model.hidden % model.heads != 0)
      document.report(place_of(document, root, family.heads), "E0217",
                      fmt::format("\"{}\" {} is not divisible by \"{}\" {}", family.hidden, model.hidden,
                                  family.heads, model.heads),
                      {}, "give \"head_dim\" if heads are not hidden / heads wide");
    model.head_dim = std::max<std::int64_t>(model.hidden / model.heads, 1);
  }
  if (model.heads % model.kv_heads != 0)
    document.report(place_of(document, root, family.kv_heads), "E0217",
                    fmt::format("\"{}\" {} do not share \"{}\" {} evenly", family.heads, model.heads,
                                family.kv_heads, model.kv_heads));
  return model;
}

/// E0215: an MLP whose inner features cannot be dealt out to the GPUs.
void check_parallel_mlp(Document& document, Model const& model, std::int64_t parallel) {
  if (model.intermediate % parallel != 0)
    document.report(document.root(), "E0215",
                    fmt::format("{} inner features of the MLP cannot be divided among {} GPUs",
                                model.intermediate, parallel),
                    {}, fmt::format("use a tensor-parallel degree that divides {}", model.intermediate));
}

/// E0215: heads that cannot be dealt out to the GPUs.
void check_parallel(Document& document, Model const& model, std::int64_t parallel) {
  if (model.heads % parallel != 0)
    document.report(document.root(), "E0215",
                    fmt::format("{} attention heads cannot be divided among {} GPUs", model.heads, parallel),
                    {}, fmt::format("use a tensor-parallel degree that divides {}", model.heads));
  else if (model.kv_heads % parallel != 0 && parallel % model.kv_heads != 0)
    document.report(
        document.root(), "E0215",
        fmt::format("{} kv heads can be neither divided among nor repeated over {} GPUs", model.kv_heads,
                    parallel),
        {},
        fmt::format("use a tensor-parallel degree that divides {} or is a multiple of it", model.kv_heads));
}

OperatorInput external(std::string name, std::string buffer) {
  return {std::move(name), std::move(buffer), "", {}};
}
OperatorInput from(std::string name, std::string const& producer, ReadPattern pattern) {
  return {std::move(name), producer, producer, pattern};
}

Operator gemm(std::string name, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch,
              std::vector<OperatorInput> inputs) {
  return {std::move(name), OperatorKind::gemm, Epilogue::none, m, n, k, batch, std::move(inputs), "", {}};
}

/// GPT: up projection with GeLU, down projection. Gated: gate and up as one GEMM of twice the width, each
/// gate beside its up, with SwiGLU in its epilogue, which is how the compiled kernels have it (cuSync, II-B1,
/// has it in the down projection's loads).
std::vector<Operator> mlp_operators(Model const& model, BlockOptions const& options) {
  auto const rows = options.sequences * options.tokens;
  auto const inner = model.intermediate / options.tensor_parallel;
  if (model.gated) {
    auto gate_up =
        gemm("gate_up", rows, 2 * inner, model.hidden, 1, {external("a", "x"), external("b", "w_gate_up")});
    gate_up.epilogue = Epilogue::swiglu;
    return {gate_up, gemm("down", rows, model.hidden, inner, 1,
                          {from("a", "gate_up", ReadPattern::rows), external("b", "w_down")})};
  }
  auto up = gemm("up", rows, inner, model.hidden, 1, {external("a", "x"), external("b", "w_up")});
  up.epilogue = Epilogue::gelu;
  return {up, gemm("down", rows, model.hidden, inner, 1,
                   {from("a", "up", ReadPattern::rows), external("b", "w_down")})};
}

AttentionShape attention_shape(Model const& model, BlockOptions const& options) {
  return {options.sequences,
          options.tokens,
          options.cached,
          model.heads / options.tensor_parallel,
          std::max<std::int64_t>(model.kv_heads / options.tensor_parallel, 1),
          model.head_dim};
}

/// Unfused attention (cuSync, figure 2b): QKV GEMM, scores, softmax and dropout, context, output GEMM. All
/// keys are scored, without use of the causal mask. Keys and values of earlier tokens come from the cache
/// and have no producer; the QKV GEMM writes the new ones.
std::vector<Operator> attention_operators(Model const& model, AttentionShape const& a) {
  auto const rows = a.sequences * a.tokens;
  auto const keys = a.cached + a.tokens;
  auto const entries = a.sequences * a.query_heads;
  auto const columns = (a.query_heads + 2 * a.kv_heads) * a.head_dim;
  auto scores = gemm("scores", a.tokens, keys, a.head_dim, entries,
                     {from("a", "qkv", ReadPattern::query_heads), from("b", "qkv", ReadPattern::key_heads)});
  auto context =
      gemm("context", a.tokens, a.head_dim, keys, entries,
           {from("a", "softmax", ReadPattern::same_batch_rows), from("b", "qkv", ReadPattern::value_heads)});
  if (a.cached > 0) {
    scores.inputs.push_back({"b_cached", "k_cache", "", ReadPattern::key_heads});
    context.inputs.push_back({"b_cached", "v_cache", "", ReadPattern::value_heads});
  }
  Operator softmax{"softmax",
                   OperatorKind::softmax_dropout,
                   Epilogue::none,
                   a.tokens,
                   keys,
                   1,
                   entries,
                   {from("a", "scores", ReadPattern::same_batch_rows)},
                   "",
                   {}};
  return {gemm("qkv", rows, columns, model.hidden, 1, {external("a", "x"), external("b", "w_qkv")}), scores,
          softmax, context,
          gemm("output", rows, model.hidden, a.query_heads * a.head_dim, 1,
               {from("a", "context", ReadPattern::heads_to_columns), external("b", "w_output")})};
}

std::string title(std::string const& file, BlockOptions const& options) {
  auto text = fmt::format("{} {}, {} token{}", json::stem_of(file), options.block, options.tokens,
                          options.tokens == 1 ? "" : "s");
  if (options.sequences > 1) text += fmt::format(", {} sequences", options.sequences);
  if (options.cached > 0) text += fmt::format(", {} cached", options.cached);
  return text + fmt::format(", tp {}", options.tensor_parallel);
}

/// E0216: options that no model could satisfy. They come from the caller, so no file is named.
Diagnostics problems_of(BlockOptions const& options) {
  Diagnostics out;
  auto const report = [&](std::string message, std::string hint = {}) {
    out.push_back({"E0216", Severity::error, {}, std::move(message), {}, std::move(hint)});
  };
  std::vector<std::string> const blocks{"mlp", "attention"};
  if (options.block != "mlp" && options.block != "attention") {
    auto hint = did_you_mean(options.block, blocks);
    report(fmt::format("there is no block \"{}\"", options.block.substr(0, 60)),
           hint.empty() ? "use mlp or attention" : hint);
  }
  auto const range = [&](char const* what, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value < least || value > most)
      report(fmt::format("{} must be between {} and {}, not {}", what, least, most, value));
  };
  constexpr std::int64_t k_most_tokens = std::int64_t{1} << 24;
  range("tokens", options.tokens, 1, k_most_tokens);
  range("sequences", options.sequences, 1, 1 << 16);
  range("cached tokens", options.cached, 0, k_most_tokens);
  range("tensor-parallel degree", options.tensor_parallel, 1, 1 << 16);
  if (!options.data_type.empty() && options.data_type != "fp16" && options.data_type != "bf16")
    report(fmt::format("there is no data type \"{}\"", options.data_type.substr(0, 60)), "use fp16 or bf16");
  return out;
}

/// The whole layer; nothing if the document was refused.
std::optional<Model> model_of(Document& document) {
  ObjectReader root(document, document.root(), "the config");
  if (document.failed()) return std::nullopt;
  refuse_experts(document, root);
  if (document.failed()) return std::nullopt;
  auto const* family = family_of(document, root);
  if (family == nullptr) return std::nullopt;
  auto model = read_model(document, root, *family);
  if (document.failed()) return std::nullopt;
  return model;
}

}  // namespace

Expected<TransformerShape> import_hf_shape(std::string_view text, std::string const& file,
                                           int tensor_parallel) {
  auto document = Document::parse(text, file, k_codes);
  if (!document) return tl::make_unexpected(document.error());
  auto const model = model_of(*document);
  if (model) {
    ObjectReader root(*document, document->root(), "the config");
    element_type(*document, root, "");
    check_parallel_mlp(*document, *model, tensor_parallel);
    check_parallel(*document, *model, tensor_parallel);
  }
  if (document->failed()) return document->refusal();
  return *model;
}

Expected<OperatorGraph> import_hf_config(std::string_view text, std::string const& file,
                                         BlockOptions const& options) {
  if (auto problems = problems_of(options); !problems.empty())
    return tl::make_unexpected(std::move(problems));
  auto parsed = Document::parse(text, file, k_codes);
  if (!parsed) return tl::make_unexpected(parsed.error());
  auto& document = *parsed;
  auto const read = model_of(document);
  if (!read) return document.refusal();
  auto const& model = *read;
  ObjectReader root(document, document.root(), "the config");
  auto const type = element_type(document, root, options.data_type);
  if (options.block == "mlp") check_parallel_mlp(document, model, options.tensor_parallel);
  if (options.block == "attention") {
    check_parallel(document, model, options.tensor_parallel);
    if (model.window > 0 && options.cached + options.tokens > model.window)
      document.report(
          place_of(document, root, "sliding_window"), "E0214",
          fmt::format("{} keys are more than the sliding window of {}: windowed attention is not supported",
                      options.cached + options.tokens, model.window),
          {}, fmt::format("let tokens and cached tokens be at most {} together", model.window));
  }
  if (document.failed()) return document.refusal();

  OperatorGraph graph;
  graph.name = title(file, options);
  graph.where = document.at(document.root());
  graph.element_bytes = 2;
  graph.type = type;
  if (options.block == "attention") {
    graph.attention = attention_shape(model, options);
    graph.operators = attention_operators(model, graph.attention);
  } else {
    graph.operators = mlp_operators(model, options);
  }
  for (auto& op : graph.operators) op.where = graph.where;
  if (auto problems = tessera::problems_of(graph); !problems.empty())
    return tl::make_unexpected(std::move(problems));
  return graph;
}

}  // namespace tessera
