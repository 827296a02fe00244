// SPDX-License-Identifier: Apache-2.0
#include "sweep_subject.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "plan_workload.hpp"
#include "session.hpp"
#include "study_command.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/overlap/parameters.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/version.hpp"

namespace tessera::cli {
namespace {

using Settings = std::vector<SweepSetting>;
using Texts = std::vector<std::string>;

/// Version and machine: what both subjects' results depend on.
std::string identity_of(std::string const& subject, MachineProfile const& machine) {
  return fmt::format("{}\n{}\n{}", k_version, subject, print_machine(machine));
}

MachineProfile changed_machine(MachineProfile machine, Settings const& settings) {
  for (auto const& setting : settings) change_machine(machine, setting);
  return machine;
}

Texts t3_columns(OverlapStudySettings const& settings, SweepGrid const& grid) {
  std::set<int> gpus;
  for (auto const& model : settings.models)
    gpus.insert(model.tensor_parallel.begin(), model.tensor_parallel.end());
  for (auto const& axis : grid.axes)
    if (axis.name == "tp") {
      gpus.clear();
      for (auto const& value : axis.values) gpus.insert(std::atoi(value.c_str()));
    }
  Texts columns{"ideal", "ideal_most", "t3", "t3_most", "t3_mca", "t3_mca_most", "traffic_saved"};
  for (int const count : gpus) columns.push_back(fmt::format("gemm_reads_tp{}", count));
  return columns;
}

Texts t3_results(SubLayerMeans const& means, Texts const& columns) {
  std::map<std::string, double> values{{"ideal", means.ideal.mean},
                                       {"ideal_most", means.ideal.most},
                                       {"t3", means.t3.mean},
                                       {"t3_most", means.t3.most},
                                       {"t3_mca", means.t3_mca.mean},
                                       {"t3_mca_most", means.t3_mca.most},
                                       {"traffic_saved", means.traffic_saved}};
  for (auto const& [gpus, reads] : means.gemm_reads) values[fmt::format("gemm_reads_tp{}", gpus)] = reads;
  Texts texts;
  for (auto const& column : columns)
    texts.push_back(values.count(column) ? number_text(values[column]) : std::string());
  return texts;
}

Expected<SweepSubject> t3_subject(SweepSubjectArguments const& arguments) {
  auto const& given = arguments.workload;
  if (!given.workload.empty() || given.block || given.sequences || given.prompts || given.layers ||
      given.cached || given.data_type || given.layer || given.images || given.iterations)
    return tl::make_unexpected(complaint("E0906",
                                         "--study t3 takes --model, --tokens and --tp, no other sizes",
                                         "leave the workload and its other sizes out"));
  StudyArguments study;
  study.study = arguments.study;
  study.models = arguments.models;
  study.tensor_parallel = given.tensor_parallel;
  if (given.tokens) {
    auto const sizes = parse_sizes(*given.tokens, "--tokens");
    if (!sizes) return tl::make_unexpected(sizes.error());
    if (sizes->size() > 1)
      return tl::make_unexpected(
          complaint("E0921", "--tokens takes one number here", "--set tokens=" + *given.tokens));
    study.tokens = sizes->front();
  }
  auto const machine = load_machine(arguments.machine.empty() ? "t3" : arguments.machine);
  if (!machine) return tl::make_unexpected(machine.error());
  auto settings = overlap_settings(study, *machine);
  if (!settings) return tl::make_unexpected(settings.error());
  if (arguments.models.empty()) settings->models = main_models(settings->models);

  std::string models;
  for (auto const& m : settings->models)
    models += fmt::format("{} {} {} {} {}\n", m.name, m.hidden, m.sequence, m.batch,
                          fmt::join(m.tensor_parallel, ","));
  SweepSubject subject;
  subject.title = "T3's sub-layers on " + machine->name;
  subject.identity = identity_of("t3\n" + models, *machine);
  subject.parameters = overlap_parameters();
  subject.main_result = "t3_mca";
  subject.base = [s = *settings](std::string const& name) { return overlap_value(s, name); };
  subject.results = [s = *settings](SweepGrid const& grid) { return t3_columns(s, grid); };
  subject.machine = [m = *machine](Settings const& changes) { return changed_machine(m, changes); };
  subject.run = [s = *settings](Settings const& changes, Texts const& columns) -> Expected<Texts> {
    auto changed = s;
    for (auto const& setting : changes) change(changed, setting);
    auto const means = sub_layer_means(changed);
    if (!means) return tl::make_unexpected(means.error());
    return t3_results(*means, columns);
  };
  return subject;
}

/// A size of the workload as a parameter; nothing for the machine's names.
bool change_size(WorkloadOptions& options, SweepSetting const& setting) {
  auto const& [name, value] = setting;
  auto const number = [&] { return std::strtoll(value.c_str(), nullptr, 10); };
  if (name == "tokens")
    options.tokens = value;
  else if (name == "sequences")
    options.sequences = number();
  else if (name == "cached")
    options.cached = number();
  else if (name == "tp")
    options.tensor_parallel = static_cast<int>(number());
  else if (name == "images")
    options.images = value;
  else if (name == "iterations")
    options.iterations = value;
  else if (name == "block")
    options.block = value;
  else if (name == "dtype")
    options.data_type = value;
  else if (name == "layer")
    options.layer = value;
  else
    return false;
  return true;
}

std::string size_of(WorkloadOptions const& o, std::string const& name) {
  auto const text = [](auto const& value) { return value ? fmt::format("{}", *value) : std::string(); };
  return name == "tokens"       ? text(o.tokens)
         : name == "sequences"  ? text(o.sequences)
         : name == "cached"     ? text(o.cached)
         : name == "tp"         ? text(o.tensor_parallel)
         : name == "images"     ? text(o.images)
         : name == "iterations" ? text(o.iterations)
         : name == "block"      ? text(o.block)
         : name == "dtype"      ? text(o.data_type)
         : name == "layer"      ? text(o.layer)
                                : std::string();
}

std::vector<Parameter> plan_parameters() {
  auto parameters = machine_parameters();
  for (auto& parameter : parameters) parameter.read = parameter.name.rfind("overlap.", 0) != 0;
  for (auto const& [name, most] :
       {std::pair{"tokens", 1 << 24}, {"sequences", 65536}, {"images", 1 << 24}, {"iterations", 4096}})
    parameters.push_back(whole_parameter(name, "1", 1, most));
  parameters.push_back(whole_parameter("cached", "1", 0, 1 << 24));
  parameters.push_back(whole_parameter("tp", "1", 1, 65536));
  parameters.push_back(word_parameter("block", {"mlp", "attention"}));
  parameters.push_back(word_parameter("dtype", {"fp16", "bf16"}));
  parameters.push_back(word_parameter("layer", {}));
  return parameters;
}

Expected<Plan> plan_at(WorkloadOptions options, MachineProfile machine, Settings const& settings) {
  for (auto const& setting : settings)
    if (!change_size(options, setting)) change_machine(machine, setting);
  if (auto found = contradictions(machine); !found.empty()) return tl::make_unexpected(std::move(found));
  auto const sized = load_workloads(options);
  if (!sized) return tl::make_unexpected(sized.error());
  if (sized->size() > 1)
    return tl::make_unexpected(
        complaint("E0921", "an option with several sizes does not sweep them",
                  options.iterations && options.iterations->find(',') != std::string::npos
                      ? "--set iterations=" + *options.iterations
                  : options.images && options.images->find(',') != std::string::npos
                      ? "--set images=" + *options.images
                      : "--set tokens=" + options.tokens.value_or("1,64,256")));
  return plan_workload(sized->front().workload, machine);
}

Expected<SweepSubject> plan_subject(SweepSubjectArguments const& arguments) {
  auto const& options = arguments.workload;
  if (!arguments.models.empty())
    return tl::make_unexpected(
        complaint("E0906", "--model is for --study t3", "name the workload alone: tessera sweep llama-65b"));
  if (options.workload == "-")
    return tl::make_unexpected(
        complaint("E0906", "a sweep reads its workload more than once, and standard input only once",
                  "write it to a file first"));
  auto const source = load_workload_text(options.workload);
  if (!source) return tl::make_unexpected(source.error());
  auto const machine = load_machine(arguments.machine.empty() ? "h200" : arguments.machine);
  if (!machine) return tl::make_unexpected(machine.error());
  auto text = source->text;
  auto const parameters = plan_parameters();
  for (auto const& parameter : parameters) text += '\n' + size_of(options, parameter.name);
  SweepSubject subject;
  subject.title = options.workload + ", planned for " + machine->name;
  subject.identity = identity_of("plan\n" + text, *machine);
  subject.parameters = parameters;
  subject.main_result = "us";
  subject.base = [options, m = *machine](std::string const& name) {
    auto const size = size_of(options, name);
    return size.empty() ? machine_value(m, name) : size;
  };
  subject.results = [](SweepGrid const&) { return Texts{"us", "stream_order_us", "mechanism", "plan"}; };
  subject.machine = [m = *machine](Settings const& changes) { return changed_machine(m, changes); };
  subject.run = [options, m = *machine](Settings const& settings, Texts const&) -> Expected<Texts> {
    auto const plan = plan_at(options, m, settings);
    if (!plan) return tl::make_unexpected(plan.error());
    return Texts{number_text(plan->predicted_us), number_text(plan->stream_order_us), mechanism_text(*plan),
                 describe(*plan)};
  };
  return subject;
}

bool is_mechanism(std::string const& text) {
  using enum Mechanism;
  for (auto const mechanism : {stream_order, pdl, wait_kernel, pdl_tiles, fused})
    if (text == to_text(mechanism)) return true;
  return text.rfind("mixed: ", 0) == 0;
}

/// Columns are those of the two subjects above.
bool is_result(std::string const& column, std::string const& cell) {
  if (column == "mechanism") return is_mechanism(cell);
  if (column == "plan") return !cell.empty();
  // Points with another number of GPUs have none.
  bool const reads = column.rfind("gemm_reads_tp", 0) == 0;
  static std::set<std::string> const numbers{"us",           "stream_order_us", "ideal",  "ideal_most",
                                             "t3",           "t3_most",         "t3_mca", "t3_mca_most",
                                             "traffic_saved"};
  if (!reads && numbers.count(column) == 0) return false;
  if (reads && cell.empty()) return true;
  auto const number = number_of(cell);
  return number && (*number > 0 || column == "traffic_saved");
}

}  // namespace

SweepRules sweep_rules() {
  SweepRules rules{plan_parameters(), is_result};
  auto const more = overlap_parameters();
  rules.parameters.insert(rules.parameters.end(), more.begin(), more.end());
  return rules;
}

Expected<void> check_given_once(SweepSubjectArguments const& arguments, SweepGrid const& grid) {
  for (auto const& axis : grid.axes)
    if (auto const given = size_of(arguments.workload, axis.name); !given.empty())
      return tl::make_unexpected(complaint("E0921",
                                           fmt::format("--{0} {1} and --set {0}={2} are of one size",
                                                       axis.name, given, fmt::join(axis.values, ",")),
                                           fmt::format("leave --{} out", axis.name)));
  return {};
}

Expected<SweepSubject> sweep_subject(SweepSubjectArguments const& arguments) {
  if (!arguments.study.empty()) return t3_subject(arguments);
  if (arguments.workload.workload.empty())
    return tl::make_unexpected(complaint("E0913", "there is neither a workload nor a study to sweep",
                                         "tessera sweep llama-65b --set l2_mib=25,50, or --study t3"));
  return plan_subject(arguments);
}

}  // namespace tessera::cli
