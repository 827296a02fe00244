// SPDX-License-Identifier: Apache-2.0
#include "tessera/tune/workbench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "bench/matrices.hpp"
#include "bench/operand_sets.hpp"
#include "run/gpu/cuda_call.hpp"
#include "tessera/run/device.hpp"
#include "tune/choices.hpp"

namespace tessera {
namespace {

constexpr int k_references = 3;
constexpr double k_deadline_seconds = 1;  // far above any launch's time, far below a driver's watchdog

bench::ElementType type_of(ElementType type) {
  return type == ElementType::fp16 ? bench::ElementType::fp16 : bench::ElementType::bf16;
}
std::string output_of(Operator const& op) { return op.output.empty() ? op.name : op.output; }
std::size_t elements(Tensor const& tensor) {
  return static_cast<std::size_t>(tensor.rows) * static_cast<std::size_t>(tensor.columns) *
         static_cast<std::size_t>(tensor.batch);
}
OperatorInput const* input_of(Operator const& op, std::string const& name) {
  auto const found = std::find_if(op.inputs.begin(), op.inputs.end(),
                                  [&](OperatorInput const& input) { return input.name == name; });
  return found == op.inputs.end() ? nullptr : &*found;
}
/// Of each operator: whether its kernel rounds sums before a gate.
using Rounding = std::vector<bool>;

Expected<void> has_reference(OperatorGraph const& graph) {
  for (auto const& op : graph.operators) {
    auto const* a = input_of(op, "a");
    auto const* b = input_of(op, "b");
    bool const product = op.kind == OperatorKind::gemm && op.batch == 1 && op.groups.empty() &&
                         op.epilogue != Epilogue::residual && a != nullptr && b != nullptr &&
                         a->pattern == ReadPattern::rows && b->producer.empty();
    bool const type = graph.type == ElementType::bf16 || graph.type == ElementType::fp16;
    if (product && type) continue;
    Diagnostic d;
    d.code = "E0563";
    d.where = op.where;
    d.message = fmt::format("there is no reference for {}, a {} of {}", op.name, to_text(op.kind),
                            to_text(graph.type));
    d.suggestion = "run chains of bf16 or fp16 products of whole matrices";
    return refuse(std::move(d));
  }
  return {};
}

/// Any tiling: its buffers are those of all.
Expected<Pipeline> some_tiling(OperatorGraph const& graph, Registry const& kernels) {
  auto const here = with_device();
  if (!here) return tl::make_unexpected(here.error());
  std::vector<TileChoice> tiles;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    auto const all = kernels_for(graph, i, kernels, *here);
    if (all.empty()) return tl::make_unexpected(no_kernel(graph.operators[i], *here));
    tiles.push_back(all.front());
  }
  return tile(graph, tiles);
}

}  // namespace

struct Workbench::State {
  OperatorGraph graph;
  Registry const& kernels;
  Bindings const& bindings;
  cudaStream_t stream;
  std::vector<Buffer> buffers;
  bench::OperandSets sets{}, shared{}, sums{};
  std::map<Rounding, bench::OperandSets> references{};
  std::vector<Tensors> tensors{};
  std::shared_ptr<Scratch> scratch = std::make_shared<Scratch>();

  bool is_written(std::string const& buffer) const {
    return std::any_of(graph.operators.begin(), graph.operators.end(),
                       [&](Operator const& op) { return output_of(op) == buffer; });
  }
  bool is_read(std::string const& buffer) const {
    return std::any_of(graph.operators.begin(), graph.operators.end(), [&](Operator const& op) {
      return std::any_of(op.inputs.begin(), op.inputs.end(), [&](OperatorInput const& input) {
        return !input.producer.empty() && input.buffer == buffer;
      });
    });
  }
  /// 1 for activations, 1 / sqrt(depth) for weights.
  double deviation(Buffer const& buffer) const {
    for (auto const& op : graph.operators)
      for (auto const& input : op.inputs)
        if (input.buffer == buffer.name && input.name == "b") return 1 / std::sqrt(static_cast<double>(op.k));
    return 1;
  }

  Rounding rounding_of(Plan const& plan) const;
  Expected<void> allocate();
  /// What the operators give with this rounding, if it is not there yet. Writes the outputs as well, in their
  /// type, for the operators that read them.
  Expected<void> compute_references(Rounding const& rounding);
  void reference(int set, Rounding const& rounding, bench::OperandSets const& wanted);
};

Rounding Workbench::State::rounding_of(Plan const& plan) const {
  Rounding rounding;
  for (auto const& op : graph.operators) {
    auto const& stages = plan.pipeline.stages;
    auto const stage = std::find_if(stages.begin(), stages.end(),
                                    [&](Stage const& one) { return one.output == output_of(op); });
    auto const* kernel =
        stage == stages.end() || op.epilogue != Epilogue::swiglu ? nullptr : kernels.find(stage->kernel);
    auto const* form = kernel == nullptr ? nullptr : find_form(*kernel, op.epilogue, graph.type);
    rounding.push_back(form != nullptr && form->rounds_sums);
  }
  return rounding;
}

// What is only passed on within a launch is shared by all sets, as a model's layers share it.
Expected<void> Workbench::State::allocate() {
  std::vector<bench::Operand> each, passed;
  std::size_t bytes_of_a_set = 0, most_sums = 0;
  unsigned long long seed = 100;
  for (auto const& buffer : buffers) {
    auto const count = static_cast<std::size_t>(buffer.rows * buffer.columns * buffer.batch);
    if (is_written(buffer.name)) {
      (is_read(buffer.name) ? passed : each).push_back({buffer.name, 2 * count});
    } else {
      each.push_back(
          {buffer.name, 2 * count, bench::random_numbers(type_of(graph.type), seed, deviation(buffer))});
      seed += 100;
    }
    if (!is_read(buffer.name)) bytes_of_a_set += 2 * count;
  }
  for (auto const& op : graph.operators)
    most_sums = std::max(most_sums, static_cast<std::size_t>(op.m) * static_cast<std::size_t>(op.n));
  int const count = bench::sets_beyond_l2(bytes_of_a_set, k_references);
  for (auto const error : {sets.make(each, count, stream), shared.make(passed, 1, stream),
                           sums.make({{"sums", 4 * most_sums}}, 1, stream)})
    if (auto ok = run::check_call(error, "making the operands"); !ok) return ok;
  for (int set = 0; set < count; ++set) {
    auto& mine = tensors.emplace_back();
    for (auto const& buffer : buffers) {
      void* const own = sets.at(buffer.name, set);
      mine[buffer.name] = {own != nullptr ? own : shared.at(buffer.name),
                           buffer.rows,
                           buffer.columns,
                           buffer.batch,
                           0,
                           graph.type};
    }
  }
  return compute_references(Rounding(graph.operators.size()));
}

Expected<void> Workbench::State::compute_references(Rounding const& rounding) {
  auto const [place, fresh] = references.try_emplace(rounding);
  if (!fresh) return {};
  std::vector<bench::Operand> wanted;
  for (auto const& buffer : buffers)
    if (is_written(buffer.name))
      wanted.push_back(
          {buffer.name, 4 * static_cast<std::size_t>(buffer.rows * buffer.columns * buffer.batch)});
  auto error = place->second.make(wanted, k_references, stream);
  for (int set = 0; set < k_references && error == cudaSuccess; ++set)
    reference(set, rounding, place->second);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  auto computed = run::check_call(error, "computing the references");
  if (!computed) references.erase(place);
  return computed;
}

void Workbench::State::reference(int set, Rounding const& rounding, bench::OperandSets const& wanted) {
  using bench::ReferenceActivation;
  auto const type = type_of(graph.type);
  auto& mine = tensors[static_cast<std::size_t>(set)];
  auto* const all = sums.as<float>("sums");
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    auto const& op = graph.operators[i];
    auto const &a = mine[input_of(op, "a")->buffer], &b = mine[input_of(op, "b")->buffer];
    auto const& d = mine[output_of(op)];
    bench::reference_gemm(a.data, b.data, all, static_cast<int>(op.m), static_cast<int>(op.n),
                          static_cast<int>(op.k), type, stream);
    auto const activation = op.epilogue == Epilogue::none   ? ReferenceActivation::none
                            : op.epilogue == Epilogue::gelu ? ReferenceActivation::gelu
                            : rounding[i]                   ? ReferenceActivation::rounded_swiglu
                                                            : ReferenceActivation::swiglu;
    bench::reference_activation(all, activation, elements(d), wanted.as<float>(output_of(op), set), d.data,
                                type, stream);
  }
}

Expected<Workbench> Workbench::make(OperatorGraph const& graph, Registry const& kernels,
                                    Bindings const& bindings, GpuStream stream) {
  if (auto fine = has_reference(graph); !fine) return tl::make_unexpected(fine.error());
  auto const tiled = some_tiling(graph, kernels);
  if (!tiled) return tl::make_unexpected(tiled.error());
  std::shared_ptr<State> const state(new State{graph, kernels, bindings, stream, tiled->buffers});
  if (auto made = state->allocate(); !made) return tl::make_unexpected(made.error());
  return Workbench(state);
}

int Workbench::sets() const { return state_->sets.count(); }
Tensors const& Workbench::tensors(int set) const { return state_->tensors[static_cast<std::size_t>(set)]; }

Expected<std::shared_ptr<Executable>> Workbench::bind(Plan const& plan, ChainOptions const& options) const {
  auto& s = *state_;
  if (auto known = s.compute_references(s.rounding_of(plan)); !known)
    return tl::make_unexpected(known.error());
  auto executable = Executable::make(plan, s.kernels, s.bindings, s.tensors.front(), options, s.scratch);
  if (!executable) return tl::make_unexpected(executable.error());
  for (std::size_t set = 1; set < s.tensors.size(); ++set)
    if (auto added = executable->add_set(s.kernels, s.bindings, s.tensors[set]); !added)
      return tl::make_unexpected(added.error());
  return std::make_shared<Executable>(std::move(*executable));
}

void Workbench::poison(int set) const {
  for (auto const& op : state_->graph.operators) {
    auto const& tensor = tensors(set).at(output_of(op));
    bench::poison(tensor.data, elements(tensor), state_->stream);
  }
}

std::vector<double> Workbench::errors(Plan const& plan, int set) const {
  auto const& s = *state_;
  auto const& references = s.references.at(s.rounding_of(plan));
  std::vector<double> result;
  for (auto const& op : s.graph.operators) {
    auto const& tensor = tensors(set).at(output_of(op));
    result.push_back(bench::relative_error(tensor.data, references.as<float>(output_of(op), set),
                                           elements(tensor), type_of(s.graph.type), s.stream));
  }
  return result;
}

Subject Workbench::subject(double floor_us) const {
  Subject subject;
  subject.sets = sets();
  subject.about_us = floor_us;
  subject.make = [self = *this](Plan const& plan) -> Expected<Launchable> {
    ChainOptions options;
    options.deadline_seconds = k_deadline_seconds;
    auto bound = self.bind(plan, options);
    if (!bound) return tl::make_unexpected(bound.error());
    Launchable result;
    result.launch = [executable = *bound](GpuStream stream, int set) {
      return executable->launch(stream, set) ? 0 : static_cast<int>(cudaErrorUnknown);
    };
    result.stalled = [executable = *bound] { return !executable->finish(); };
    result.error = [self, executable = *bound, plan] {
      constexpr double wrong = std::numeric_limits<double>::quiet_NaN();
      double worst = 0;
      for (int set = 0; set < k_references; ++set) {
        self.poison(set);
        if (!executable->launch(self.state_->stream, set)) return wrong;
        for (double const error : self.errors(plan, set)) {
          if (std::isnan(error)) return wrong;
          worst = std::max(worst, error);
        }
        if (!executable->finish()) return wrong;
      }
      return worst;
    };
    return result;
  };
  subject.variants = [self = *this](Plan const& plan, int launch) {
    auto const& s = *self.state_;
    return variants_of(plan, launch, s.kernels, s.bindings, s.tensors.front(), *s.scratch);
  };
  return subject;
}

}  // namespace tessera
