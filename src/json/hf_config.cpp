// SPDX-License-Identifier: Apache-2.0
// Hugging Face config.json of decoder-only transformers, and the operators of one GPU's share of a block.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

#include "describe/attention_sight.hpp"
#include "describe/operator_check.hpp"
#include "diagnostic/nearest.hpp"
#include "json/hf_blocks.hpp"
#include "json/hf_family.hpp"
#include "json/hf_type.hpp"
#include "json/workload_parts.hpp"
#include "tessera/describe/workload_json.hpp"

namespace tessera {
namespace {

using json::Document;
using json::Node;
using json::ObjectReader;

constexpr json::Codes k_codes{"E0201", "E0211", "E0212", "E0212", true};

using json::LayerParts;
using json::Mlp;
using Model = TransformerShape;

constexpr std::int64_t k_most_chained = 1024;  // layers in one chain

/// E0214: weights that are not 16 bits wide, unless --dtype (`wanted`) says to plan the model as if they
/// were.
ElementType element_type(Document& document, std::string const& wanted) {
  static json::TypesTaken const taken{
      {"float16", "bfloat16"},
      "--dtype bf16 or --dtype fp16 plans the model as if its weights were that",
      "leave out the one that is wrong, or say which to plan: --dtype bf16"};
  if (!wanted.empty()) json::check_type_words(document);
  auto const type = wanted.empty() ? json::weights_type(document, taken) : json::plain_type(wanted);
  return type == "bfloat16" ? ElementType::bf16 : ElementType::fp16;
}

/// E0215: an MLP whose inner features cannot be dealt out to the GPUs.
void check_parallel_mlp(Document& document, std::int64_t inner, std::int64_t parallel) {
  if (inner % parallel != 0)
    document.report(
        document.root(), "E0215",
        fmt::format("{} inner features of the MLP cannot be divided among {} GPUs", inner, parallel), {},
        fmt::format("use a tensor-parallel degree that divides {}", inner));
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

/// Rows that tokens make: each goes to `per_token` experts.
std::int64_t routed_rows(Model const& model, BlockOptions const& options) {
  return options.sequences * options.tokens * model.experts.per_token;
}

/// As given, or even: of the experts that get any, none gets two more than another.
std::vector<std::int64_t> groups_of(Model const& model, BlockOptions const& options) {
  std::vector<std::int64_t> groups;
  if (!options.routing.empty()) {
    for (auto const rows : options.routing)
      if (rows > 0) groups.push_back(rows);
    return groups;
  }
  auto const routed = routed_rows(model, options);
  auto const active = std::min(model.experts.count, routed);
  for (std::int64_t e = 0; e < active; ++e) groups.push_back(routed / active + (e < routed % active ? 1 : 0));
  return groups;
}

bool is_windowed(Model const& model, BlockOptions const& options) {
  return model.window > 0 && (options.block == "local_attention" || !model.some_layers_see_all);
}

bool is_attention(BlockOptions const& options) {
  return options.block == "attention" || options.block == "local_attention" ||
         options.block == "fused_attention" || options.block == "layer";
}

bool in_one_kernel(BlockOptions const& options) {
  return options.block == "fused_attention" || options.block == "layer";
}

/// In a window, new tokens together see window - 1 keys before them.
AttentionShape attention_shape(Model const& model, BlockOptions const& options) {
  bool const windowed = is_windowed(model, options);
  AttentionShape shape{options.sequences,
                       options.tokens,
                       windowed ? std::min(options.cached, model.window - 1) : options.cached,
                       model.heads / options.tensor_parallel,
                       std::max<std::int64_t>(model.kv_heads / options.tensor_parallel, 1),
                       model.head_dim};
  if (in_one_kernel(options)) {
    shape.causal = !options.all_keys;
    if (windowed) shape.window = model.window;
  }
  if (!options.prompts.empty()) {
    shape.sequences = std::ssize(options.prompts);
    shape.tokens = *std::max_element(options.prompts.begin(), options.prompts.end());
  }
  return shape;
}

/// "prompts of 512, 128, 2048 tokens"; of many how many they are.
std::string words_of(std::vector<std::int64_t> const& prompts) {
  constexpr std::size_t k_named = 8;
  if (prompts.size() <= k_named) return fmt::format("prompts of {} tokens", fmt::join(prompts, ", "));
  auto const [least, most] = std::minmax_element(prompts.begin(), prompts.end());
  return fmt::format("{} prompts of {} to {} tokens", prompts.size(), *least, *most);
}

std::string title(std::string const& file, BlockOptions const& options, std::int64_t layers) {
  auto text = fmt::format("{} {}, ", json::stem_of(file), options.block);
  if (options.prompts.empty())
    text += fmt::format("{} token{}", options.tokens, options.tokens == 1 ? "" : "s");
  else
    text += words_of(options.prompts);
  if (options.prompts.empty() && options.sequences > 1)
    text += fmt::format(", {} sequences", options.sequences);
  if (layers != 1) text += fmt::format(", {} layers", layers);
  if (options.cached > 0) text += fmt::format(", {} cached", options.cached);
  if (options.all_keys) text += ", all keys";
  return text + fmt::format(", tp {}", options.tensor_parallel);
}

/// E0216: prompts of unequal length that are none, or not described.
template <class Report>
void check_prompts(BlockOptions const& options, std::int64_t most_tokens, Report const& report) {
  auto const& prompts = options.prompts;
  if (prompts.empty()) return;
  if (!in_one_kernel(options))
    report(fmt::format("prompts of unequal length are of attention in one kernel, and not of --block {}",
                       options.block.substr(0, 60)),
           "use --block fused_attention or layer; of others only the number of tokens counts (--tokens)");
  if (prompts.size() > k_most_prompts)
    report(fmt::format("{} prompts of unequal length are more than {}", prompts.size(), k_most_prompts),
           "plan them in parts, or as --sequences of one length");
  for (auto const tokens : prompts)
    if (tokens < 1 || tokens > most_tokens)
      return report(fmt::format("a prompt has between 1 and {} tokens, not {}", most_tokens, tokens), "");
  if (options.cached > 0)
    report("prompts of unequal length have no cached tokens here",
           "leave --cached out, or give --tokens and --sequences");
}

/// E0216: options that no model could satisfy. They come from the caller, so no file is named.
Diagnostics problems_of(BlockOptions const& options) {
  Diagnostics out;
  auto const report = [&](std::string message, std::string hint = {}) {
    out.push_back({"E0216", Severity::error, {}, std::move(message), {}, std::move(hint)});
  };
  static std::vector<std::string> const blocks{"mlp",   "attention", "local_attention", "fused_attention",
                                               "layer", "experts",   "shared_expert"};
  if (std::find(blocks.begin(), blocks.end(), options.block) == blocks.end()) {
    auto hint = did_you_mean(options.block, blocks);
    report(fmt::format("there is no block \"{}\"", options.block.substr(0, 60)),
           hint.empty() ? "use " + list_of(blocks, "or") : hint);
  }
  auto const range = [&](char const* what, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value < least || value > most)
      report(fmt::format("{} must be between {} and {}, not {}", what, least, most, value));
  };
  constexpr std::int64_t k_most_tokens = std::int64_t{1} << 24;
  if (!options.routing.empty() && options.block != "experts")
    report("only experts have a routing", "use --block experts, or leave it out");
  for (auto const rows : options.routing)
    if (rows < 0 || rows > k_most_tokens) {
      report(fmt::format("an expert gets between 0 and {} tokens, not {}", k_most_tokens, rows));
      break;
    }
  check_prompts(options, k_most_tokens, report);
  if (options.layers != 1 && options.block != "layer")
    report(fmt::format("several layers are of --block layer, and not of --block {}",
                       options.block.substr(0, 60)),
           "use --block layer, or leave --layers out");
  if (options.all_keys && options.block != "fused_attention")
    report(fmt::format("attention to all keys is of --block fused_attention, and not of --block {}",
                       options.block.substr(0, 60)),
           options.block == "attention" ? "leave --mask out: --block attention scores all keys"
                                        : "use --block fused_attention, or leave --mask out");
  if (options.all_keys && !options.prompts.empty())
    report("prompts of unequal length are behind a causal mask",
           "leave --mask out, or give --tokens and --sequences");
  range("layers", options.layers, 0, k_most_chained);
  range("tokens", options.tokens, 1, k_most_tokens);
  range("sequences", options.sequences, 1, 1 << 16);
  range("cached tokens", options.cached, 0, k_most_tokens);
  range("tensor-parallel degree", options.tensor_parallel, 1, 1 << 16);
  if (!options.data_type.empty() && options.data_type != "fp16" && options.data_type != "bf16")
    report(fmt::format("there is no data type \"{}\"", options.data_type.substr(0, 60)), "use fp16 or bf16");
  return out;
}

/// E0216: routing that is not the tokens'.
void check_routing(Document& document, Model const& model, BlockOptions const& options) {
  if (options.routing.empty() || model.experts.count == 0) return;
  auto const& experts = model.experts;
  auto const routed = routed_rows(model, options);
  auto const given = std::accumulate(options.routing.begin(), options.routing.end(), std::int64_t{0});
  if (static_cast<std::int64_t>(options.routing.size()) > experts.count)
    document.report(
        document.root(), "E0216",
        fmt::format("routing to {} experts, and there are {}", options.routing.size(), experts.count), {},
        "leave out those that get no tokens");
  else if (given != routed)
    document.report(document.root(), "E0216",
                    fmt::format("routing of {} rows, and there are {}: each of {} tokens goes to {} experts",
                                given, routed, options.sequences * options.tokens, experts.per_token),
                    {}, fmt::format("give numbers whose sum is {}", routed));
  else if (auto const most = *std::max_element(options.routing.begin(), options.routing.end());
           most > options.sequences * options.tokens)
    document.report(document.root(), "E0216",
                    fmt::format("an expert gets {} rows, and there are {} tokens", most,
                                options.sequences * options.tokens),
                    {fmt::format("each token goes to {} different experts", experts.per_token)},
                    fmt::format("give every expert at most {} rows", options.sequences * options.tokens));
}

/// E0216: more layers than there are or are described, or how many nobody says. E0214: layers that are not
/// alike.
void check_layers(Document& document, Model const& model, LayerParts const& parts, std::int64_t layers) {
  if (layers == 0)
    document.report(document.root(), "E0216", "the config does not say how many layers the model has", {},
                    "say how many: --layers 24");
  else if (layers > k_most_chained)
    document.report(document.root(), "E0216",
                    fmt::format("{} layers in one chain are more than {}", layers, k_most_chained), {},
                    "plan a part of them");
  else if (parts.layers > 0 && layers > parts.layers)
    document.report(document.root(), "E0216",
                    fmt::format("{} layers, and the model has {}", layers, parts.layers), {},
                    fmt::format("let them be at most {}, or all", parts.layers));
  if (layers > 1 && model.window > 0 && model.some_layers_see_all)
    document.report(document.root(), "E0214",
                    "layers with a window behind others that see all keys are not described together", {},
                    "plan one layer");
}

/// E0214: prompts of unequal length in a window that hides some of a prompt's own keys.
void check_window(Document& document, Model const& model, BlockOptions const& options) {
  if (options.prompts.empty() || !in_one_kernel(options) || !is_windowed(model, options)) return;
  auto const longest = *std::max_element(options.prompts.begin(), options.prompts.end());
  if (longest > model.window)
    document.report(document.root(), "E0214",
                    fmt::format("a prompt of {} tokens among others of unequal length is longer than the "
                                "sliding window of {}",
                                longest, model.window),
                    {}, "plan prompts of one length (--tokens, --sequences), or shorter ones");
}

/// E0214: a block that the model does not have, or that cannot be planned.
void check_block(Document& document, Model const& model, BlockOptions const& options) {
  auto const refuse = [&](std::string message, std::vector<std::string> notes, std::string hint) {
    document.report(document.root(), "E0214", std::move(message), std::move(notes), std::move(hint));
  };
  auto const& experts = model.experts;
  if (options.block == "mlp" && model.intermediate == 0)
    refuse(fmt::format("every layer of this model has {} experts in place of an MLP", experts.count), {},
           experts.shared_intermediate > 0
               ? "--block experts plans them, --block shared_expert the shared one"
               : "--block experts plans them");
  if (options.block == "layer" && experts.count > 0)
    refuse(fmt::format("layers with experts are not described whole ({} of them)", experts.count), {},
           "--block fused_attention and --block experts plan their parts");
  if (options.block == "experts" && experts.count == 0)
    refuse("this model has no experts", {}, "--block mlp plans its MLP");
  if (options.block == "shared_expert" && experts.shared_intermediate == 0)
    refuse("this model has no shared expert", {},
           experts.count > 0 ? "--block experts plans those it has" : "--block mlp plans its MLP");
  if (options.block == "local_attention" && (model.window == 0 || !model.some_layers_see_all))
    refuse("this model has no layers with a window beside others", {}, "--block attention plans what it has");
  if (options.block == "experts") check_routing(document, model, options);
  if (!is_attention(options)) return;
  if (model.latent_attention)
    refuse(
        "attention over a latent vector (kv_lora_rank) is not supported",
        {"keys and values of a head are made of a vector that all heads share"},
        "describe its operators as a tessera.workload/1 file; --block mlp and --block experts are planned");
  if (options.all_keys && is_windowed(model, options))
    refuse(fmt::format("tokens of this model see a window of {} keys, not all", model.window), {},
           "leave --mask out");
  if (!in_one_kernel(options) && is_windowed(model, options) && options.tokens > model.window)
    refuse(
        fmt::format("{} new tokens are more than the sliding window of {}: a band of keys is not supported",
                    options.tokens, model.window),
        {},
        fmt::format("let tokens be at most {}; cached tokens may be more{}", model.window,
                    options.block == "attention" ? "; or --block fused_attention, which has the band" : ""));
}

std::vector<Operator> operators_of(Model const& model, LayerParts const& parts, BlockOptions const& options,
                                   std::int64_t layers) {
  auto const rows = options.sequences * options.tokens;
  if (options.block == "mlp")
    return json::mlp_operators(model, {rows, model.intermediate / options.tensor_parallel});
  if (options.block == "shared_expert")
    return json::mlp_operators(model, {rows, model.experts.shared_intermediate / options.tensor_parallel});
  if (options.block == "experts")
    return json::mlp_operators(
        model, {routed_rows(model, options), model.experts.intermediate / options.tensor_parallel,
                groups_of(model, options)});
  auto const shape = attention_shape(model, options);
  if (options.block == "layer")
    return json::layer_operators(model, parts, shape, options.prompts,
                                 model.intermediate / options.tensor_parallel, layers);
  return in_one_kernel(options) ? json::fused_attention_operators(model, shape, options.prompts)
                                : json::attention_operators(model, shape);
}

}  // namespace

Expected<TransformerShape> import_hf_shape(std::string_view text, std::string const& file,
                                           int tensor_parallel) {
  auto document = Document::parse(text, file, k_codes);
  if (!document) return tl::make_unexpected(document.error());
  auto const model = json::read_shape(*document);
  if (!model) return document->refusal();
  element_type(*document, "");
  if (model->experts.count > 0)
    document->report(document->root(), "E0214",
                     fmt::format("experts are not supported here ({} of them)", model->experts.count), {},
                     "name a model without experts");
  if (model->latent_attention)
    document->report(document->root(), "E0214",
                     "attention over a latent vector (kv_lora_rank) is not supported");
  if (model->intermediate > 0) check_parallel_mlp(*document, model->intermediate, tensor_parallel);
  check_parallel(*document, *model, tensor_parallel);
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
  auto const read = json::read_shape(document);
  if (!read) return document.refusal();
  auto const& model = *read;
  bool const layer = options.block == "layer";
  auto type = element_type(document, options.data_type);
  if (layer && options.data_type.empty()) type = ElementType::bf16;
  check_block(document, model, options);
  check_window(document, model, options);
  LayerParts parts;
  if (layer && !document.failed()) parts = json::read_layer(document, model);
  auto const layers = options.layers == 0 ? parts.layers : options.layers;
  if (layer && !document.failed()) check_layers(document, model, parts, layers);
  bool const attention = is_attention(options);
  if (attention) check_parallel(document, model, options.tensor_parallel);
  if (layer) check_parallel_mlp(document, model.intermediate, options.tensor_parallel);
  if (!attention)
    check_parallel_mlp(document,
                       options.block == "mlp"       ? model.intermediate
                       : options.block == "experts" ? model.experts.intermediate
                                                    : model.experts.shared_intermediate,
                       options.tensor_parallel);
  if (document.failed()) return document.refusal();

  OperatorGraph graph;
  graph.name = title(file, options, layers);
  graph.where = document.at(document.root());
  graph.element_bytes = 2;
  graph.type = type;
  if (attention) graph.attention = attention_shape(model, options);
  graph.operators = operators_of(model, parts, options, layers);
  for (auto& op : graph.operators) op.where = graph.where;
  if (auto problems = tessera::problems_of(graph); !problems.empty())
    return tl::make_unexpected(std::move(problems));
  return graph;
}

}  // namespace tessera
