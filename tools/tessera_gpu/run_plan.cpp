// SPDX-License-Identifier: Apache-2.0
// Runs a plan of registered kernels on random operands with poisoned outputs, and compares what each stage
// wrote with plain fp32 arithmetic on what it read.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "arguments.hpp"
#include "files/whole_files.hpp"
#include "kernels/bindings/families.hpp"
#include "kernels/common/refusal.hpp"
#include "kernels/plan_check/stage_check.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/report/report.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/simulate.hpp"
#include "tessera/tune/plans.hpp"

namespace tessera::command {
namespace {

using plan_check::Buffers;

/// What a stage read and wrote can be looked at when all are done only if nobody writes over it: E0563.
Expected<void> nothing_is_overwritten(Pipeline const& pipeline) {
  std::vector<std::string> used;
  auto const seen = [&](std::string const& buffer) {
    return std::find(used.begin(), used.end(), buffer) != used.end();
  };
  for (auto const& stage : pipeline.stages) {
    auto const& output = stage.output.empty() ? stage.name : stage.output;
    for (auto const& operand : stage.operands) used.push_back(operand.buffer);
    if (seen(output)) {
      auto refused = kernels::refusal(
          "E0563",
          fmt::format("{} writes buffer \"{}\" over what was read or written before: that cannot be compared",
                      stage.name, output),
          "run plans whose stages write a buffer each");
      refused.value().front().where = stage.where;
      return refused;
    }
    used.push_back(output);
  }
  return {};
}

/// One line for each stage; how many are wrong.
Expected<int> compare(Plan const& plan, char const* when, Buffers const& buffers, cudaStream_t stream) {
  int wrong = 0;
  for (int l = 0; l < static_cast<int>(plan.launches.size()); ++l)
    for (int i = 0; i < plan.launches[static_cast<std::size_t>(l)].stages; ++i) {
      auto const compared = plan_check::compare_stage(plan, l, i, buffers, stream);
      if (!compared) return tl::make_unexpected(compared.error());
      auto const& stage =
          plan.pipeline
              .stages[static_cast<std::size_t>(plan.launches[static_cast<std::size_t>(l)].first + i)];
      std::printf("%s\n", plan_check::line_of(stage, when, *compared).c_str());
      wrong += compared->right() ? 0 : 1;
    }
  return wrong;
}

/// Microseconds of a launch in replayed graphs, and once more on poisoned outputs.
Expected<double> replay(Executable& executable, int replays, Buffers const& buffers, cudaStream_t stream) {
  auto graph = executable.capture();
  if (!graph) return tl::make_unexpected(graph.error());
  cudaEvent_t begin = nullptr, end = nullptr;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  float milliseconds = 0;
  Expected<void> launched;
  for (int i = 0; i < replays + 1 && launched; ++i) {
    if (i == 1) cudaEventRecord(begin, stream);  // the first warms up
    launched = graph->launch(stream);
  }
  cudaEventRecord(end, stream);
  // One more, on outputs that hold nothing: inputs that a stage stores again have changed since.
  buffers.poison(stream);
  if (launched) launched = graph->launch(stream);
  auto const finished = executable.finish();
  cudaEventElapsedTime(&milliseconds, begin, end);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  if (!launched) return tl::make_unexpected(launched.error());
  if (!finished) return tl::make_unexpected(finished.error());
  return milliseconds * 1e3 / replays;
}

/// A file that is asked for.
Expected<void> write(std::string const& path, std::string const& text) {
  return path.empty() ? Expected<void>() : files::write_whole({{path, text}});
}

}  // namespace

bool can_launch(Plan const& plan, std::vector<std::int64_t> const& prompts) {
  Buffers buffers;
  return buffers.make(plan, nullptr, prompts) &&
         Executable::make(plan, shipped_kernels(), shipped_bindings(), buffers.tensors);
}

Expected<bool> run_plan(Plan const& plan, std::vector<std::int64_t> const& prompts, int replays) {
  cudaStream_t stream = nullptr;
  if (auto const error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); error != cudaSuccess)
    return kernels::cuda_failed(error, "cudaStreamCreateWithFlags");
  if (auto fine = nothing_is_overwritten(plan.pipeline); !fine) return tl::make_unexpected(fine.error());
  Buffers buffers;
  if (auto made = buffers.make(plan, stream, prompts); !made) return tl::make_unexpected(made.error());
  auto executable = Executable::make(plan, shipped_kernels(), shipped_bindings(), buffers.tensors);
  if (!executable) return tl::make_unexpected(executable.error());
  buffers.poison(stream);
  if (auto launched = executable->launch(stream); !launched) return tl::make_unexpected(launched.error());
  if (auto finished = executable->finish(); !finished) return tl::make_unexpected(finished.error());
  auto const wrong = compare(plan, "launched", buffers, stream);
  if (!wrong) return tl::make_unexpected(wrong.error());
  auto const us = replay(*executable, replays, buffers, stream);
  if (!us) return tl::make_unexpected(us.error());
  auto const again = compare(plan, "replayed", buffers, stream);
  if (!again) return tl::make_unexpected(again.error());
  cudaStreamDestroy(stream);
  std::printf("%s (%s): %.1f us a replay (%d of one graph, on the same operands)%s\n",
              plan.pipeline.name.c_str(), shown(plan_name(plan)).c_str(), *us, replays,
              plan.predicted_us > 0 ? fmt::format(", {:.1f} us predicted", plan.predicted_us).c_str() : "");
  return *wrong + *again == 0;
}

Expected<void> write_timeline(Plan const& plan, std::vector<std::int64_t> const& prompts,
                              std::string const& json_path, std::string const& html_path) {
  cudaStream_t stream = nullptr;
  Buffers buffers;
  if (auto made = buffers.make(plan, stream, prompts); !made) return made;
  ChainOptions options;
  options.time_launches = true;
  auto executable = Executable::make(plan, shipped_kernels(), shipped_bindings(), buffers.tensors, options);
  if (!executable) return tl::make_unexpected(executable.error());
  // A graph, so that launches do not wait for the host; what counts is the last replay.
  auto graph = executable->capture();
  if (!graph) return tl::make_unexpected(graph.error());
  constexpr int warm_replays = 3;
  for (int i = 0; i <= warm_replays; ++i)
    if (auto launched = graph->launch(stream); !launched) return launched;
  if (auto finished = executable->finish(); !finished) return finished;
  auto const measured = executable->timeline();
  if (!measured) return tl::make_unexpected(measured.error());
  std::printf("%s", summary(*measured).c_str());
  if (auto written = write(json_path, print_timeline(*measured)); !written) return written;
  if (html_path.empty()) return {};
  auto profile = machine(plan.machine);
  if (!profile) profile = machine_here();
  if (!profile) return tl::make_unexpected(profile.error());
  auto const simulated = simulate(plan, *profile);
  if (!simulated) return tl::make_unexpected(simulated.error());
  return write(html_path, html_report(plan.pipeline.name, {{plan, *simulated, {}, *measured}}));
}

}  // namespace tessera::command
