// SPDX-License-Identifier: Apache-2.0
// The documents that the command line reads and writes: workloads, machines, plans and timelines.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "plan_value.hpp"
#include "tessera/describe/workload_json.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/shipped.hpp"
#include "tools/tessera/load.hpp"
#include "tools/tessera/session.hpp"

namespace tessera::python {
namespace {

struct Document {
  std::string text, file;
};

/// A dict as a document of one line, which has the number of the line that called: what is said about the
/// document points there.
Document document_of(nb::handle dict) {
  auto const where = calling_line();
  auto const json = nb::cast<std::string>(nb::module_::import_("json").attr("dumps")(dict));
  return {std::string(static_cast<std::size_t>(std::max(where.line - 1, 0)), '\n') + json, where.file};
}

/// The command line's options as the keywords that they are in Python.
std::string in_keywords(std::string text) {
  constexpr std::array<std::string_view, 13> k_options = {
      "mask",  "block",  "tokens", "sequences", "prompts",    "cached", "tp",
      "dtype", "layers", "layer",  "images",    "iterations", "routing"};
  for (auto const& option : k_options) {
    auto const word = fmt::format("--{}", option);
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
      text.erase(at, 2);
      at += option.size();
      if (at + 1 < text.size() && text[at] == ' ' && std::isdigit(static_cast<unsigned char>(text[at + 1])))
        text[at] = '=';
    }
  }
  return text;
}

Diagnostics in_keywords(Diagnostics found) {
  for (auto& one : found) {
    one.message = in_keywords(one.message);
    one.suggestion = in_keywords(one.suggestion);
    for (auto& note : one.notes) note = in_keywords(note);
  }
  return found;
}

/// The name of a model that is given as a dict: its file would name it.
std::string model_name(nb::handle given) {
  return nb::cast<std::string>(nb::str(given.attr("get")("model_type", "document")));
}

void move_to(std::string const& file, std::string const& from, SourceLine& where) {
  if (where.file == from) where.file = file;
}

/// What a model's dict is refused with, or its operators, at the file whose line gave the dict.
Expected<std::vector<cli::SizedWorkload>> moved_to(std::string const& file, std::string const& from,
                                                   Expected<std::vector<cli::SizedWorkload>> sized) {
  if (!sized)
    for (auto& one : sized.error()) move_to(file, from, one.where);
  else if (auto* graph = std::get_if<OperatorGraph>(&sized->front().workload)) {
    move_to(file, from, graph->where);
    for (auto& op : graph->operators) move_to(file, from, op.where);
  }
  return sized;
}

Expected<cli::SourceText> source_of(nb::handle given) {
  if (nb::isinstance<nb::dict>(given)) {
    auto document = document_of(given);
    return cli::source_text(std::move(document.text), document.file);
  }
  return cli::load_workload_text(path_of(given));
}

std::optional<std::string> word_of(std::optional<std::int64_t> number) {
  return number ? std::optional(std::to_string(*number)) : std::nullopt;
}

WorkloadValue workload(nb::handle given, std::optional<std::string> block, std::optional<std::int64_t> tokens,
                       std::optional<std::int64_t> sequences, std::optional<std::int64_t> cached,
                       std::optional<int> tp, std::optional<std::string> dtype,
                       std::optional<std::string> layer, std::optional<std::int64_t> images,
                       std::optional<std::int64_t> iterations,
                       std::optional<std::vector<std::int64_t>> const& routing,
                       std::optional<std::string> layers,
                       std::optional<std::vector<std::int64_t>> const& prompts,
                       std::optional<std::string> mask) {
  cli::WorkloadOptions options;
  if (prompts) options.prompts = fmt::format("{}", fmt::join(*prompts, ","));
  options.layers = std::move(layers);
  options.mask = std::move(mask);
  if (routing) options.routing = fmt::format("{}", fmt::join(*routing, ","));
  options.block = std::move(block);
  options.tokens = word_of(tokens);
  options.sequences = sequences;
  options.cached = cached;
  options.tensor_parallel = tp;
  options.data_type = std::move(dtype);
  options.layer = std::move(layer);
  options.images = word_of(images);
  options.iterations = word_of(iterations);
  auto const source = source_of(given);
  if (!source) throw Refused{source.error()};
  // As it is written, so that a loop stays one until it is planned.
  if (source->summary.kind == DocumentKind::workload && !iterations)
    if (auto const extra = cli::unused_options(options, source->summary.kind, source->file); extra.empty())
      return {value_of(parse_workload(source->text, source->file))};
  bool const model = nb::isinstance<nb::dict>(given) && source->summary.kind == DocumentKind::hf_config;
  auto named = *source;
  if (model) named.file = model_name(given);
  auto sized = moved_to(source->file, named.file, cli::load_workloads(named, options));
  if (!sized) throw Refused{in_keywords(sized.error())};
  return {std::move(sized->front().workload), std::move(sized->front().checked)};
}

template <class Files>
std::vector<std::string> names_of(Files const& files) {
  std::vector<std::string> names;
  for (auto const& file : files) names.emplace_back(file.name);
  return names;
}

nb::object load(nb::handle given) {
  auto const path = path_of(given);
  auto const text = value_of(cli::read_file(path));
  // A notebook saves to where it has loaded from; a command does not.
  cli::forget_what_was_read();
  auto const summary = value_of(summarize_document(text, path));
  auto const kind = summary.kind;
  if (kind == DocumentKind::plan || kind == DocumentKind::timeline) return plan_or_timeline_of(text, path);
  if (kind == DocumentKind::machine) return nb::cast(value_of(parse_machine(text, path)));
  if (kind == DocumentKind::workload) return nb::cast(WorkloadValue{value_of(parse_workload(text, path))});
  bool const needs_sizes = kind == DocumentKind::hf_config || kind == DocumentKind::conv_network;
  throw Refused{
      cli::wrong_kind(path, summary, "a plan, a timeline, a machine profile or a workload",
                      needs_sizes ? "workload() takes its sizes, too: workload(path, tokens=768)" : "")
          .value()};
}

}  // namespace

std::string path_of(nb::handle given) {
  return nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(given));
}

Workload workload_of(nb::handle given) {
  if (nb::isinstance<WorkloadValue>(given)) return nb::cast<WorkloadValue const&>(given).workload;
  if (nb::isinstance<PipelineBuilder>(given)) {
    auto loop = value_of(nb::cast<PipelineBuilder const&>(given).build_loop());
    if (loop.carried.empty() && loop.copies.empty()) return std::move(loop.body);
    return loop;
  }
  return workload(given, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}).workload;
}

Workload flat_workload_of(nb::handle given, std::optional<int> iterations) {
  auto workload = workload_of(given);
  auto const* loop = std::get_if<Loop>(&workload);
  if (loop != nullptr) {
    if (iterations) return value_of(check(*loop, *iterations)).pipeline();
    auto refusal = cli::complaint(
        "E0906", fmt::format("\"{}\" is a loop and needs iterations", loop->body.name), "iterations=10");
    refusal.front().where = loop->body.where;
    throw Refused{std::move(refusal)};
  }
  if (iterations)
    throw Refused{cli::complaint("E0906",
                                 fmt::format("iterations is for a loop; \"{}\" is none", name_of(workload)),
                                 "leave iterations out")};
  return workload;
}

MachineProfile machine_of(nb::handle given) {
  if (nb::isinstance<MachineProfile>(given)) return nb::cast<MachineProfile const&>(given);
  if (nb::isinstance<nb::dict>(given)) {
    auto const document = document_of(given);
    return value_of(parse_machine(document.text, document.file));
  }
  return value_of(cli::load_machine(path_of(given)));
}

void bind_documents(nb::module_& m) {
  nb::class_<WorkloadValue> workloads(m, "Workload",
                                      "Operators of a model, or a pipeline of tiles, or a loop.");
  add_document(workloads, "The document of schema tessera.workload/1.",
               [](WorkloadValue const& self) { return print_workload(self.workload); });
  workloads.def_prop_ro("name", [](WorkloadValue const& self) { return name_of(self.workload); })
      .def("__repr__", [](WorkloadValue const& self) {
        return fmt::format("<tessera.Workload {}>", name_of(self.workload));
      });
  m.def(
      "workload", &workload, nb::arg("source"), nb::kw_only(), nb::arg("block").none() = nb::none(),
      nb::arg("tokens").none() = nb::none(), nb::arg("sequences").none() = nb::none(),
      nb::arg("cached").none() = nb::none(), nb::arg("tp").none() = nb::none(),
      nb::arg("dtype").none() = nb::none(), nb::arg("layer").none() = nb::none(),
      nb::arg("images").none() = nb::none(), nb::arg("iterations").none() = nb::none(),
      nb::arg("routing").none() = nb::none(), nb::arg("layers").none() = nb::none(),
      nb::arg("prompts").none() = nb::none(), nb::arg("mask").none() = nb::none(),
      nb::sig(
          "def workload(source: str | os.PathLike[str] | dict[str, typing.Any], *, block: str | None = None, "
          "tokens: int | None = None, sequences: int | None = None, cached: int | None = None, tp: int "
          "| None = None, dtype: str | None = None, layer: str | None = None, images: int | None = "
          "None, iterations: int | None = None, routing: collections.abc.Sequence[int] | None = None, "
          "layers: str | None = None, prompts: collections.abc.Sequence[int] | None = None, "
          "mask: str | None = None) -> Workload"),
      "A shipped workload by name, a file, or a document: a model's config.json, a convolution network, or "
      "Tessera's own format. Of a model: `block` (\"mlp\", \"attention\", \"experts\", ...), `tokens`, "
      "`sequences`, `cached`, `tp` (GPUs that share it), `dtype`, `routing` (tokens that each expert "
      "gets), `layers` (\"4\", or \"all\"), `prompts` (tokens of each of several sequences) and `mask` "
      "(\"causal\", or \"all\"); of a network: `layer` and `images`; of a loop: `iterations`.");
  m.def(
      "workloads", [] { return names_of(shipped_workloads()); }, "Names of the workloads that are shipped.");

  nb::class_<MachineProfile> profiles(m, "MachineProfile",
                                      "What a GPU holds, how fast it is, what waiting costs on it.");
  add_document(profiles, "The document of schema tessera.machine/1.", &print_machine);
  profiles.def_ro("name", &MachineProfile::name)
      .def_ro("gpu", &MachineProfile::gpu)
      .def_ro("sms", &MachineProfile::sms)
      .def_ro("provisional", &MachineProfile::provisional, "Not measured by `tessera probe`.")
      .def("__repr__",
           [](MachineProfile const& self) { return fmt::format("<tessera.MachineProfile {}>", self.name); });
  m.def("machine", &machine_of, nb::arg("source"),
        nb::sig("def machine(source: str | os.PathLike[str] | dict[str, typing.Any] | MachineProfile) -> "
                "MachineProfile"),
        "A shipped profile by name, a file, or a document.");
  m.def(
      "machines", [] { return names_of(shipped_machines()); }, "Names of the profiles that are shipped.");
  m.def("load", &load, nb::arg("path"),
        nb::sig("def load(path: str | os.PathLike[str]) -> Plan | Timeline | MachineProfile | Workload"),
        "What stands in a file that the command line or save() wrote. A plan is held against its machine and "
        "proved again.");
}

}  // namespace tessera::python
