// SPDX-License-Identifier: Apache-2.0
#include "study_command.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "files.hpp"
#include "load.hpp"
#include "parallel.hpp"
#include "tessera/report/study.hpp"
#include "tessera/simulate/cusync_study.hpp"

namespace tessera::cli {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

Expected<TransformerModel> model_of(std::string const& name, StudyArguments const& arguments) {
  TransformerModel model;
  for (auto const& known : t3_models())
    if (lower(known.name) == lower(name)) model = known;
  if (model.name.empty()) {
    auto const source = load_workload_text(name);
    if (!source) return tl::make_unexpected(source.error());
    model = {name, 0, 1, 1024, 8, {8}};
    for (auto const& [fact, value] : source->summary.facts) {
      if (fact == "hidden") model.hidden = std::strtoll(value.c_str(), nullptr, 10);
      if (fact == "layers") model.layers = static_cast<int>(std::strtol(value.c_str(), nullptr, 10));
    }
    if (model.hidden < 1)
      return tl::make_unexpected(complaint("E0914", "\"" + name + "\" is no transformer with a hidden size",
                                           "name a model of the study or a Hugging Face config.json"));
  }
  if (arguments.tokens) model.sequence = *arguments.tokens, model.batch = 1;
  if (arguments.tensor_parallel) model.tensor_parallel = {*arguments.tensor_parallel};
  return model;
}

namespace {

Expected<StudyDocument> overlap(StudyArguments const& arguments, MachineProfile const& machine) {
  auto settings = overlap_settings(arguments, machine);
  if (!settings) return tl::make_unexpected(settings.error());
  settings->parallel = [](std::size_t count, std::function<void(std::size_t)> const& job) {
    in_threads(0, count, job);
  };
  auto const study = study_overlap(*settings);
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

int run_study(Session const& session, StudyArguments const& arguments) {
  bool const is_t3 = arguments.study == "t3";
  auto const own = is_t3 ? "t3" : "v100";
  auto const machine = load_machine(arguments.machine.empty() ? own : arguments.machine);
  if (!machine) return session.fail(machine.error());
  auto const document = is_t3 ? overlap(arguments, *machine) : cusync(*machine);
  if (!document) return session.fail(document.error());
  std::vector<OutputFile> files;
  if (!arguments.output.empty()) files.push_back({arguments.output, study_json(*document)});
  if (!arguments.csv.empty()) files.push_back({arguments.csv, study_csv(*document)});
  if (!arguments.html.empty()) files.push_back({arguments.html, study_html(*document)});
  if (auto const written = write_files(session, files); !written) return session.fail(written.error());
  if (fill_standard_output(files)) return k_ok;
  std::vector<std::string> const shown =
      is_t3 ? std::vector<std::string>{"headlines", "range"} : std::vector<std::string>{};
  session.print(session.json ? study_json(*document) : study_text(*document, shown));
  return k_ok;
}

}  // namespace tessera::cli
