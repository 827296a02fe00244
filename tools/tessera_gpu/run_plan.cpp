// SPDX-License-Identifier: Apache-2.0
// Runs a plan of registered kernels on random operands with poisoned outputs, and compares what each stage
// wrote with plain fp32 arithmetic on what it read.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <type_traits>
#include <vector>

#include "arguments.hpp"
#include "files/whole_files.hpp"
#include "kernels/bindings/families.hpp"
#include "kernels/common/refusal.hpp"
#include "src/bench/matrices.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/report/report.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/simulate.hpp"
#include "tessera/tune/tune.hpp"

namespace tessera::command {
namespace {

/// Device memory that frees itself.
struct Free {
  void operator()(void* memory) const { (void)cudaFree(memory); }
};
using Memory = std::unique_ptr<void, Free>;

Expected<Memory> allocate(std::size_t bytes) {
  void* memory = nullptr;
  if (auto const error = cudaMalloc(&memory, bytes); error != cudaSuccess)
    return kernels::cuda_failed(error, fmt::format("allocating {} bytes", bytes));
  return Memory(memory);
}

bench::ElementType type_of(Tensor const& tensor) {
  return tensor.type == ElementType::fp16 ? bench::ElementType::fp16 : bench::ElementType::bf16;
}
std::size_t elements(Tensor const& tensor) {
  return static_cast<std::size_t>(tensor.rows * tensor.columns * tensor.batch);
}
std::size_t bytes(Tensor const& tensor) {
  return elements(tensor) * static_cast<std::size_t>(bytes_of(tensor.type));
}
std::optional<ElementType> type_called(std::string const& name) {
  for (auto const type :
       {ElementType::bf16, ElementType::fp16, ElementType::fp32, ElementType::fp64, ElementType::int32})
    if (name == to_text(type)) return type;
  return {};
}

/// Calls `with` with a null pointer of the type of elements that no product here has.
template <class With>
auto with_elements(ElementType type, With const& with) {
  switch (type) {
    case ElementType::fp64: return with(static_cast<double*>(nullptr));
    case ElementType::int32: return with(static_cast<std::int32_t*>(nullptr));
    default: return with(static_cast<float*>(nullptr));
  }
}

Expected<void> fill(Tensor const& tensor, unsigned seed, cudaStream_t stream) {
  if (bytes_of(tensor.type) == 2) {
    // A sum of products of two such matrices is about as large as its factors.
    bench::fill_random(tensor.data, elements(tensor), type_of(tensor), seed,
                       1 / std::pow(static_cast<float>(tensor.columns), 0.25f), stream);
    return {};
  }
  return with_elements(tensor.type, [&](auto* none) -> Expected<void> {
    using Element = std::remove_pointer_t<decltype(none)>;
    // Not around zero: the sum of many would be next to nothing beside its terms.
    std::mt19937 random(seed);
    std::vector<Element> values(elements(tensor));
    for (auto& value : values) {
      auto const number = static_cast<Element>(random() % 1000);
      value = std::is_integral_v<Element> ? number : number / 1000;
    }
    auto const error = cudaMemcpy(tensor.data, values.data(), bytes(tensor), cudaMemcpyHostToDevice);
    if (error != cudaSuccess) return kernels::cuda_failed(error, "filling a buffer");
    return {};
  });
}

/// The buffers of a plan on the device.
class Buffers {
 public:
  /// Random where nothing writes, poison elsewhere. E0563 for buffers whose type the plan does not say.
  Expected<void> make(Plan const& plan, cudaStream_t stream) {
    unsigned seed = 1;
    for (auto const& buffer : plan.pipeline.buffers) {
      Tensor tensor;
      tensor.rows = buffer.rows;
      tensor.columns = buffer.columns;
      tensor.batch = buffer.batch;
      auto const type = type_called(buffer.type);
      if (!type)
        return kernels::refusal(
            "E0563", fmt::format("buffer \"{}\" is of no type: nothing can be put into it", buffer.name),
            "plan operators, whose buffers have types, or give the plan's buffer one");
      tensor.type = *type;
      auto memory = allocate(bytes(tensor));
      if (!memory) return tl::make_unexpected(memory.error());
      tensor.data = memory->get();
      memory_.push_back(std::move(*memory));
      tensors[buffer.name] = tensor;
      bool const written =
          std::any_of(plan.pipeline.stages.begin(), plan.pipeline.stages.end(), [&](Stage const& stage) {
            return (stage.output.empty() ? stage.name : stage.output) == buffer.name;
          });
      if (written)
        outputs_.push_back(tensor);
      else if (auto filled = fill(tensor, seed++, stream); !filled)
        return filled;
    }
    return {};
  }
  void poison(cudaStream_t stream) const {
    for (auto const& tensor : outputs_) bench::poison(tensor.data, bytes(tensor) / 2, stream);
  }

  Tensors tensors;

 private:
  std::vector<Memory> memory_;
  std::vector<Tensor> outputs_;
};

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

/// A comparison: how far a result may be off is a matter of its arithmetic.
struct Compared {
  double error = 0;  ///< |got - reference| / |reference|
  double allowed = k_allowed_error;
};

/// Of a sum: the terms added up in long double, integers modulo 2^32.
Expected<Compared> error_of_sum(BindRequest const& request, int index) {
  auto const x = tensor_of(request, index, request.stage(index).operands.front().name),
             out = tensor_of(request, index, "");
  for (auto const* tensor : {&x, &out})
    if (!*tensor) return tl::make_unexpected(tensor->error());
  return with_elements(x->type, [&](auto* none) -> Expected<Compared> {
    using Element = std::remove_pointer_t<decltype(none)>;
    std::vector<Element> terms(elements(*x));
    Element got{};
    auto error = cudaMemcpy(terms.data(), x->data, bytes(*x), cudaMemcpyDeviceToHost);
    if (error == cudaSuccess) error = cudaMemcpy(&got, out->data, sizeof got, cudaMemcpyDeviceToHost);
    if (error != cudaSuccess) return kernels::cuda_failed(error, "reading a sum");
    if constexpr (std::is_integral_v<Element>) {
      std::uint32_t sum = 0;
      for (auto const term : terms) sum += static_cast<std::uint32_t>(term);
      return Compared{sum == static_cast<std::uint32_t>(got) ? 0.0 : 1.0, 0};
    } else {
      long double sum = 0;
      for (auto const term : terms) sum += term;
      // Partial sums are added in a tree: a rounding for each of its some 30 levels at most.
      constexpr double levels = 30;
      return Compared{static_cast<double>(std::abs((got - sum) / sum)),
                      levels * static_cast<double>(std::numeric_limits<Element>::epsilon())};
    }
  });
}

/// Of one stage.
Expected<Compared> error_of(Plan const& plan, int launch, int index, Buffers const& buffers,
                            cudaStream_t stream) {
  Scratch none;
  BindRequest const request{plan, launch, shipped_kernels(), buffers.tensors, none};
  auto const& stage = request.stage(index);
  auto const kind = request.kernel(index).kind;
  if (kind == OperatorKind::sum) return error_of_sum(request, index);
  if (kind != OperatorKind::gemm)
    return kernels::refusal(
        "E0563", fmt::format("there is no reference for {}, a {}", stage.name, to_text(kind)),
        "run plans of products and sums, or launch it with Executable and compare in a program of your own "
        "(docs/running.md)");
  auto const a = tensor_of(request, index, "a"), b = tensor_of(request, index, "b"),
             d = tensor_of(request, index, "");
  for (auto const* tensor : {&a, &b, &d})
    if (!*tensor) return tl::make_unexpected(tensor->error());
  auto const count = static_cast<std::size_t>(a->rows * b->rows);
  auto sums = allocate(count * sizeof(float)), results = allocate(count * sizeof(float));
  if (!sums) return tl::make_unexpected(sums.error());
  if (!results) return tl::make_unexpected(results.error());
  auto* expected = static_cast<float*>(sums->get());
  bench::reference_gemm(a->data, b->data, expected, static_cast<int>(a->rows), static_cast<int>(b->rows),
                        static_cast<int>(a->columns), type_of(*a), stream);
  if (!stage.activation.empty()) {
    auto* activated = static_cast<float*>(results->get());
    auto const* form = find_form(request.kernel(index), Epilogue::swiglu, d->type);
    bool const rounds = form != nullptr && form->rounds_sums;
    auto const activation = stage.activation == "gelu" ? bench::ReferenceActivation::gelu
                            : rounds                   ? bench::ReferenceActivation::rounded_swiglu
                                                       : bench::ReferenceActivation::swiglu;
    bench::reference_activation(expected, activation, elements(*d), activated, nullptr, type_of(*d), stream);
    expected = activated;
  }
  return Compared{bench::relative_error(d->data, expected, elements(*d), type_of(*d), stream)};
}

/// One line for each stage; how many are wrong.
Expected<int> compare(Plan const& plan, char const* when, Buffers const& buffers, cudaStream_t stream) {
  int wrong = 0;
  for (int l = 0; l < static_cast<int>(plan.launches.size()); ++l)
    for (int i = 0; i < plan.launches[static_cast<std::size_t>(l)].stages; ++i) {
      auto const compared = error_of(plan, l, i, buffers, stream);
      if (!compared) return tl::make_unexpected(compared.error());
      bool const right = compared->error <= compared->allowed;
      wrong += right ? 0 : 1;
      auto const& stage =
          plan.pipeline
              .stages[static_cast<std::size_t>(plan.launches[static_cast<std::size_t>(l)].first + i)];
      std::printf("%-14s %s: relative error %.2e %s, %s\n", stage.name.c_str(), when, compared->error,
                  right ? "right" : "WRONG", stage.kernel.c_str());
    }
  return wrong;
}

/// Microseconds of a launch in replayed graphs.
Expected<double> replay(Executable& executable, int replays, cudaStream_t stream) {
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

bool can_launch(Plan const& plan) {
  Buffers buffers;
  return buffers.make(plan, nullptr) &&
         Executable::make(plan, shipped_kernels(), shipped_bindings(), buffers.tensors);
}

Expected<bool> run_plan(Plan const& plan, int replays) {
  cudaStream_t stream = nullptr;
  if (auto const error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); error != cudaSuccess)
    return kernels::cuda_failed(error, "cudaStreamCreateWithFlags");
  if (auto fine = nothing_is_overwritten(plan.pipeline); !fine) return tl::make_unexpected(fine.error());
  Buffers buffers;
  if (auto made = buffers.make(plan, stream); !made) return tl::make_unexpected(made.error());
  auto executable = Executable::make(plan, shipped_kernels(), shipped_bindings(), buffers.tensors);
  if (!executable) return tl::make_unexpected(executable.error());
  buffers.poison(stream);
  if (auto launched = executable->launch(stream); !launched) return tl::make_unexpected(launched.error());
  if (auto finished = executable->finish(); !finished) return tl::make_unexpected(finished.error());
  auto const wrong = compare(plan, "launched", buffers, stream);
  if (!wrong) return tl::make_unexpected(wrong.error());
  buffers.poison(stream);
  auto const us = replay(*executable, replays, stream);
  if (!us) return tl::make_unexpected(us.error());
  auto const again = compare(plan, "replayed", buffers, stream);
  if (!again) return tl::make_unexpected(again.error());
  cudaStreamDestroy(stream);
  std::printf("%s (%s): %.1f us a replay (%d of one graph, on the same operands)%s\n",
              plan.pipeline.name.c_str(), shown(plan_name(plan)).c_str(), *us, replays,
              plan.predicted_us > 0 ? fmt::format(", {:.1f} us predicted", plan.predicted_us).c_str() : "");
  return *wrong + *again == 0;
}

Expected<void> write_timeline(Plan const& plan, std::string const& json_path, std::string const& html_path) {
  cudaStream_t stream = nullptr;
  Buffers buffers;
  if (auto made = buffers.make(plan, stream); !made) return made;
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
