// SPDX-License-Identifier: Apache-2.0
#include "t3_run_command.hpp"

#include <fmt/format.h>

#include "load.hpp"
#include "tessera/overlap/sub_layer_timeline.hpp"
#include "tessera/report/report.hpp"

namespace tessera::cli {
namespace {

/// The one of `all` whose name it is.
template <class T, std::size_t n>
T named(std::string const& name, std::array<T, n> const& all) {
  for (auto const value : all)
    if (name == to_text(value)) return value;
  return all.front();
}

/// Why the options do not name one run, or nothing.
std::string ambiguous(StudyArguments const& study, T3RunArguments const& run) {
  if (study.study != "t3") return "--layer and --config are for one run of --study t3";
  if (run.layer.empty() || run.config.empty())
    return fmt::format("one run has {}, and --{} is missing",
                       run.layer.empty() ? "a layer" : "a configuration",
                       run.layer.empty() ? "layer" : "config");
  if (study.models.size() != 1)
    return fmt::format("one run is of one model, and {} are given", study.models.size());
  if (!study.collectives.empty()) return "--collective compares whole sub-layers, and this is one run";
  if (!study.splits.empty()) return "--splits compares whole sub-layers, and this is one run";
  if (study.quick) return "--quick shortens a whole study, and this is one run";
  return "";
}

Expected<Timeline> recorded(MachineProfile const& machine, StudyArguments const& study,
                            T3RunArguments const& run) {
  auto const model = model_of(study.models.front(), study);
  if (!model) return tl::make_unexpected(model.error());
  if (model->tensor_parallel.size() != 1)
    return tl::make_unexpected(complaint(
        "E0916", fmt::format("the study cuts {} in {} ways", model->name, model->tensor_parallel.size()),
        fmt::format("say which: --tp {}", model->tensor_parallel.front())));
  SubLayerOptions options;
  options.kernel = default_gemm_kernel(machine);
  return sub_layer_timeline(machine, *model, model->tensor_parallel.front(), named(run.layer, k_sub_layers),
                            named(run.config, k_sub_layer_runs), options);
}

}  // namespace

int run_t3(Session const& session, StudyArguments const& study, T3RunArguments const& run,
           TimelineOutputs const& outputs) {
  if (auto const why = ambiguous(study, run); !why.empty())
    return session.fail(
        complaint("E0916", why, "tessera simulate --study t3 --model T-NLG --tp 8 --layer FC-2 --config t3"));
  auto const machine = load_machine(study.machine.empty() ? "t3" : study.machine);
  if (!machine) return session.fail(machine.error());
  auto const timeline = recorded(*machine, study, run);
  if (!timeline) return session.fail(timeline.error());
  return put_out(session, *timeline, outputs,
                 [&] { return timeline_html(*timeline, assumptions(*machine)); });
}

}  // namespace tessera::cli
