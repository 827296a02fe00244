// SPDX-License-Identifier: Apache-2.0
#include "study_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "diagnostic/nearest.hpp"
#include "files.hpp"
#include "load.hpp"
#include "parallel.hpp"
#include "tessera/describe/workload_json.hpp"
#include "tessera/document.hpp"
#include "tessera/overlap/extensions.hpp"
#include "tessera/report/study.hpp"
#include "tessera/shipped.hpp"
#include "tessera/simulate/cusync_study.hpp"

namespace tessera::cli {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::vector<TransformerModel> own_models() {
  auto models = t3_models();
  for (auto const& model : t3_future_models()) models.push_back(model);
  return models;
}

/// E0903, with the names that the study knows.
Diagnostics no_such_model(std::string const& name) {
  std::vector<std::string> own, shipped;
  for (auto const& model : own_models()) own.push_back(model.name);
  for (auto const& file : shipped_workloads())
    if (auto const summary = summarize_document(std::string(file.text), std::string(file.name));
        summary && summary->kind == DocumentKind::hf_config)
      shipped.emplace_back(file.name);
  auto names = own;
  names.insert(names.end(), shipped.begin(), shipped.end());
  return complaint("E0903", fmt::format("there is no model or file \"{}\"", name), did_you_mean(name, names),
                   {"of the study: " + list_of(own), "shipped: " + list_of(shipped)});
}

/// A Hugging Face config.json's, on `tensor_parallel` GPUs.
Expected<TransformerModel> model_of_config(std::string const& name, int tensor_parallel) {
  auto const source = load_workload_text(name);
  if (!source)
    return tl::make_unexpected(source.error().front().code == "E0903" ? no_such_model(name) : source.error());
  auto const kind = source->summary.kind;
  if (kind != DocumentKind::hf_config && kind != DocumentKind::unknown)
    return tl::make_unexpected(complaint("E0914", "\"" + name + "\" is no transformer with a hidden size",
                                         "name a model of the study or a Hugging Face config.json"));
  auto const shape = import_hf_shape(source->text, source->file, tensor_parallel);
  if (!shape) return tl::make_unexpected(shape.error());
  return TransformerModel{name,
                          shape->hidden,
                          0,
                          1024,
                          8,
                          {tensor_parallel},
                          shape->intermediate,
                          is_gated(shape->epilogue),
                          shape->heads,
                          shape->kv_heads,
                          shape->head_dim};
}

}  // namespace

Expected<TransformerModel> model_of(std::string const& name, StudyArguments const& arguments) {
  TransformerModel model;
  for (auto const& known : own_models())
    if (lower(known.name) == lower(name)) model = known;
  if (model.name.empty()) {
    auto const configured = model_of_config(name, arguments.tensor_parallel.value_or(8));
    if (!configured) return configured;
    model = *configured;
  }
  if (arguments.tokens) model.sequence = *arguments.tokens, model.batch = 1;
  if (arguments.tensor_parallel) model.tensor_parallel = {*arguments.tensor_parallel};
  return model;
}

namespace {

Expected<StudyDocument> overlap(Session const& session, StudyArguments const& arguments,
                                MachineProfile const& machine) {
  auto settings = overlap_settings(arguments, machine);
  if (!settings) return tl::make_unexpected(settings.error());
  settings->parallel = [](std::size_t count, std::function<void(std::size_t)> const& job) {
    in_threads(0, count, job);
  };
  settings->progress = [&](std::string const& what, std::size_t done, std::size_t count) {
    session.progress(fmt::format("{}: {} of {}", what, done, count));
  };
  if (arguments.models.empty() && !arguments.quick && !arguments.tokens && !arguments.tensor_parallel)
    settings->future = t3_future_models();
  if (!arguments.splits.empty()) {
    auto const rows = arguments.tokens ? std::vector{*arguments.tokens} : k_generation_rows;
    auto const points = study_splits(*settings, rows, arguments.splits);
    session.progress("");
    if (!points) return tl::make_unexpected(points.error());
    return study_document(machine, *points);
  }
  if (!arguments.collectives.empty()) {
    std::vector<CollectiveWay> ways;
    for (auto const& way : k_collective_ways)
      if (std::count(arguments.collectives.begin(), arguments.collectives.end(), way.name) > 0)
        ways.push_back(way);
    auto const runs = study_collectives(*settings, ways);
    session.progress("");
    if (!runs) return tl::make_unexpected(runs.error());
    return study_document(machine, *runs);
  }
  auto const study = study_overlap(*settings);
  session.progress("");
  if (!study) return tl::make_unexpected(study.error());
  return study_document(*study);
}

Expected<StudyDocument> cusync(MachineProfile const& machine) {
  auto const study = study_cusync(machine);
  if (!study) return tl::make_unexpected(study.error());
  return study_document(*study);
}

}  // namespace

Expected<OverlapStudySettings> overlap_settings(StudyArguments const& arguments,
                                                MachineProfile const& machine) {
  OverlapStudySettings settings{machine, {}, {}, !arguments.quick, {}};
  settings.options.kernel = default_gemm_kernel(machine);
  std::vector<std::string> names = arguments.models;
  if (names.empty())
    for (auto const& known : t3_models()) names.push_back(known.name);
  for (auto const& name : names) {
    auto model = model_of(name, arguments);
    if (!model) return tl::make_unexpected(model.error());
    settings.models.push_back(std::move(*model));
  }
  return settings;
}

Expected<void> check_study_options(StudyArguments const& arguments, std::string const& what) {
  if (what.empty()) {
    if (!arguments.quick || (arguments.collectives.empty() && arguments.splits.empty())) return {};
    auto const* const other = arguments.splits.empty() ? "--collective" : "--splits";
    return tl::make_unexpected(
        complaint("E0916", fmt::format("--quick leaves out the whole study's sweep, and {} has none", other),
                  "leave --quick out"));
  }
  std::vector<std::string> given;
  if (!arguments.models.empty()) given.emplace_back("--model");
  if (arguments.tokens) given.emplace_back("--tokens");
  if (arguments.tensor_parallel) given.emplace_back("--tp");
  if (!arguments.collectives.empty()) given.emplace_back("--collective");
  if (!arguments.splits.empty()) given.emplace_back("--splits");
  if (arguments.quick) given.emplace_back("--quick");
  if (given.empty()) return {};
  return tl::make_unexpected(complaint("E0916", fmt::format("{} has no use for {}", what, list_of(given)),
                                       "these are for --study t3; leave them out"));
}

int run_study(Session const& session, StudyArguments const& arguments) {
  bool const is_t3 = arguments.study == "t3";
  auto const own = is_t3 ? "t3" : "v100";
  auto const machine = load_machine(arguments.machine.empty() ? own : arguments.machine);
  if (!machine) return session.fail(machine.error());
  auto const document = is_t3 ? overlap(session, arguments, *machine) : cusync(*machine);
  if (!document) return session.fail(document.error());
  std::vector<OutputFile> files;
  if (!arguments.output.empty()) files.push_back({arguments.output, study_json(*document)});
  if (!arguments.csv.empty()) files.push_back({arguments.csv, study_csv(*document)});
  if (!arguments.html.empty()) files.push_back({arguments.html, study_html(*document)});
  if (auto const written = write_files(session, files); !written) return session.fail(written.error());
  if (fill_standard_output(files)) return k_ok;
  bool const whole = is_t3 && arguments.collectives.empty() && arguments.splits.empty();
  std::vector<std::string> const shown =
      whole ? std::vector<std::string>{"headlines", "controls", "range"} : std::vector<std::string>{};
  session.print(session.json ? study_json(*document) : study_text(*document, shown));
  return k_ok;
}

}  // namespace tessera::cli
