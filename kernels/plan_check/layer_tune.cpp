// SPDX-License-Identifier: Apache-2.0
#include "layer_tune.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "kernels/common/refusal.hpp"
#include "src/bench/operand_sets.hpp"
#include "stage_check.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/tune/promised.hpp"
#include "tessera/tune/variants.hpp"

namespace tessera::plan_check {
namespace {

constexpr double k_deadline_seconds = 1;  // far above any launch's time, far below a driver's watchdog

/// Sets of buffers that all plans of a graph have.
struct Sets {
  std::vector<std::unique_ptr<Buffers>> all;
  std::shared_ptr<Scratch> scratch = std::make_shared<Scratch>();
  Bindings bindings;
  cudaStream_t stream = nullptr;
};

std::size_t bytes_of(Pipeline const& pipeline) {
  std::size_t sum = 0;
  for (auto const& buffer : pipeline.buffers)
    sum += static_cast<std::size_t>(buffer.rows * buffer.columns * buffer.batch) *
           (buffer.type == to_text(ElementType::fp32) || buffer.type == to_text(ElementType::int32) ? 4 : 2);
  return sum;
}

Expected<std::shared_ptr<Sets>> make_sets(Plan const& plan, Prompts const& prompts, cudaStream_t stream,
                                          Bindings const& bindings) {
  auto sets = std::make_shared<Sets>();
  sets->stream = stream;
  sets->bindings = bindings;
  int const count = bench::sets_beyond_l2(bytes_of(plan.pipeline));
  for (int set = 0; set < count; ++set) {
    sets->all.push_back(std::make_unique<Buffers>());
    if (auto made = sets->all.back()->make(plan, stream, prompts); !made)
      return tl::make_unexpected(made.error());
  }
  return sets;
}

/// The worst stage, as a part of what its arithmetic allows, in terms of what all candidates are allowed.
double worst_error(Plan const& plan, Buffers const& buffers, cudaStream_t stream) {
  double worst = 0;
  for (int l = 0; l < static_cast<int>(plan.launches.size()); ++l)
    for (int i = 0; i < plan.launches[static_cast<std::size_t>(l)].stages; ++i) {
      auto const compared = compare_stage(plan, l, i, buffers, stream);
      if (!compared) return std::numeric_limits<double>::quiet_NaN();
      if (compared->later) continue;
      auto part = compared->error / compared->allowed;
      if (compared->row_allowed > 0) part = std::max(part, compared->row_error / compared->row_allowed);
      if (!compared->right() && !(part > 1)) return std::numeric_limits<double>::quiet_NaN();
      worst = std::max(worst, part);
    }
  return worst * k_allowed_error;
}

Expected<Launchable> launchable_of(Plan const& plan, std::shared_ptr<Sets> const& sets) {
  ChainOptions options;
  options.deadline_seconds = k_deadline_seconds;
  auto bound = Executable::make(plan, shipped_kernels(), sets->bindings, sets->all.front()->tensors, options,
                                sets->scratch);
  if (!bound) return tl::make_unexpected(bound.error());
  auto const executable = std::make_shared<Executable>(std::move(*bound));
  for (std::size_t set = 1; set < sets->all.size(); ++set)
    if (auto added = executable->add_set(shipped_kernels(), sets->bindings, sets->all[set]->tensors); !added)
      return tl::make_unexpected(added.error());
  Launchable result;
  result.launch = [executable](GpuStream stream, int set) {
    return executable->launch(stream, set) ? 0 : static_cast<int>(cudaErrorUnknown);
  };
  result.stalled = [executable] { return !executable->finish(); };
  result.error = [executable, sets, plan] {
    constexpr double wrong = std::numeric_limits<double>::quiet_NaN();
    sets->all.front()->poison(sets->stream);
    if (!executable->launch(sets->stream) || !executable->finish()) return wrong;
    return worst_error(plan, *sets->all.front(), sets->stream);
  };
  return result;
}

/// Of a step that generates: how products are cut decides, and no simulation knows it. The fastest variants
/// of the library's plan, and of the one that simulation promises most of, are for all.
void take_fastest_variants(Found& found, Subject const& subject, GpuStream stream,
                           TuneOptions const& options) {
  for (bool const baseline : {true, false}) {
    auto& all = found.candidates;
    auto const first = std::find_if(all.begin(), all.end(),
                                    [&](TuneCandidate const& one) { return one.baseline == baseline; });
    if (first == all.end()) continue;
    auto const fastest = with_fastest_variants(first->plan, subject, stream, options);
    for (auto& candidate : all) {
      take_variants(candidate.plan, fastest);
      candidate.name = plan_name(candidate.plan);
    }
  }
}

}  // namespace

bool is_layer(OperatorGraph const& graph) {
  return std::any_of(graph.operators.begin(), graph.operators.end(), [](Operator const& op) {
    return op.kind == OperatorKind::attention || op.kind == OperatorKind::norm ||
           op.kind == OperatorKind::turn_heads || op.epilogue == Epilogue::residual;
  });
}

Expected<Subject> layer_subject(OperatorGraph const& graph, Plan const& plan, GpuStream stream,
                                Bindings const& bindings) {
  auto const sets = make_sets(plan, prompts_of(graph), stream, bindings);
  if (!sets) return tl::make_unexpected(sets.error());
  Subject subject;
  subject.sets = static_cast<int>((*sets)->all.size());
  subject.make = [sets = *sets](Plan const& one) { return launchable_of(one, sets); };
  subject.variants = [sets = *sets](Plan const& one, int launch) {
    return variants_of(one, launch, shipped_kernels(), sets->bindings, sets->all.front()->tensors,
                       *sets->scratch);
  };
  return subject;
}

Expected<Tuned> tune_layer(OperatorGraph const& graph, MachineProfile const& machine, double floor_us,
                           GpuStream stream, TuneOptions const& options) {
  auto found = promised_plans(graph, shipped_kernels(), machine);
  if (!found) return tl::make_unexpected(found.error());
  auto subject = layer_subject(graph, found->candidates.front().plan, stream);
  if (!subject) return tl::make_unexpected(subject.error());
  subject->about_us = floor_us;
  if (generates(graph)) take_fastest_variants(*found, *subject, stream, options);
  return tessera::tune(*subject, found->candidates, found->times, stream, options);
}

}  // namespace tessera::plan_check
