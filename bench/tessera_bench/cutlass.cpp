// SPDX-License-Identifier: Apache-2.0
#include "cutlass.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "bench/mlp/peers.hpp"
#include "kernels/common/whole_launch.hpp"
#include "kernels/swiglu/swiglu.hpp"
#include "tessera/run/device.hpp"

namespace tessera::bench {
namespace {

constexpr char const* k_stream_k = "cutlass_stream_k";

KernelEntry entry(std::string name, bool early) {
  KernelEntry kernel;
  kernel.family = name == k_stream_k ? "cutlass_stream_k" : "cutlass";
  kernel.name = std::move(name);
  kernel.architectures = {"sm_90"};
  kernel.whole = kernel.library = true;
  KernelForm form;
  form.types = {ElementType::bf16};
  form.epilogues = {Epilogue::none, Epilogue::gelu};
  kernel.forms = {form};
  form.epilogues = {Epilogue::swiglu};
  form.rounds_sums = true;
  kernel.forms.push_back(form);
  kernel.can = kernels::whole_launch();
  kernel.can.start_early = early;
  return kernel;
}

std::string name_of(gemm_sm90::Kernel const& kernel) { return std::string("cutlass_") + kernel.info.name; }

gemm_sm90::Kernel const* kernel_named(std::string const& name) {
  static gemm_sm90::Kernel const stream_k = stock_stream_k();
  if (name == k_stream_k) return &stream_k;
  for (auto const& kernel : stock_kernels())
    if (name_of(kernel) == name) return &kernel;
  return nullptr;
}

/// Raster and grid of CUTLASS's kernels: rows of tiles of a band (0: all), and blocks (0: one a tile).
struct Way {
  int band = 0, blocks = 0;

  std::string text() const { return fmt::format("band {} blocks {}", band, blocks); }
};

std::array<Way, 4> ways() {
  auto const here = with_device();
  int const sms = here ? here->sms : 1;
  return {{{1, sms}, {0, sms}, {1, 0}, {0, 0}}};
}

std::optional<Way> way_of(std::string const& variant) {
  for (auto const& way : ways())
    if (way.text() == variant) return way;
  return std::nullopt;
}

std::vector<std::string> variants(BindRequest const&) {
  std::vector<std::string> texts;
  for (auto const& way : ways()) texts.push_back(way.text());
  return texts;
}

bool is_stock(std::string const& name) { return name.rfind("cutlass_", 0) == 0 && name != k_stream_k; }

Expected<StageKernel> bind(BindRequest const& request) {
  auto const a = tensor_of(request, 0, "a"), b = tensor_of(request, 0, "b"), d = tensor_of(request, 0, "");
  for (auto const* tensor : {&a, &b, &d})
    if (!*tensor) return tl::make_unexpected(tensor->error());
  auto const& stage = request.stage();
  auto const* kernel = kernel_named(stage.kernel);
  bool const gated = stage.activation == "swiglu";
  gemm_sm90::Call call;
  call.problem = {static_cast<int>(a->rows),
                  static_cast<int>(b->rows),
                  static_cast<int>(a->columns),
                  a->data,
                  b->data,
                  d->data,
                  stage.activation == "gelu" ? gemm_sm90::Activation::gelu : gemm_sm90::Activation::none};
  auto const& variant = request.stage_plan().variant;
  if (!variant.empty()) {
    auto const way = way_of(variant);
    if (!way)
      return cannot_bind(request, 0, "variant", fmt::format("it is none of \"{}\" ...", ways()[0].text()),
                         "leave the variant out");
    call.band = way->band;
    call.most_blocks = way->blocks;
  }
  std::shared_ptr<void> sums;
  if (gated) {
    auto memory = request.scratch.get("gate_up", 2 * static_cast<std::size_t>(a->rows * b->rows));
    if (!memory) return tl::make_unexpected(memory.error());
    sums = std::move(*memory);
    call.problem.d = sums.get();
  }
  StageKernel result;
  result.enqueue = [kernel, call, gated, sums, d = d->data](ChainViews const&, GpuStream stream,
                                                            bool early) mutable {
    call.programmatic = early;
    if (auto const error = kernel->launch(call, stream); error != cudaSuccess || !gated)
      return static_cast<int>(error);
    auto const& p = call.problem;
    return static_cast<int>(
        kernels::swiglu(sums.get(), d, p.rows, p.columns / 2, gpu::ElementType::bf16, stream));
  };
  return result;
}

/// Its workspace is allocated when a size runs for the first time, which a capture would not allow.
Expected<StageKernel> bind_stream_k(BindRequest const& request) {
  auto kernel = bind(request);
  if (!kernel) return kernel;
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  int error = kernel->enqueue({}, stream, false);
  if (error == 0) error = static_cast<int>(cudaStreamSynchronize(stream));
  cudaStreamDestroy(stream);
  if (error != 0)
    return cannot_bind(request, 0, "the size", "its first launch failed", "take another kernel");
  return kernel;
}

}  // namespace

Expected<void> add_cutlass(Registry& kernels, Bindings& bindings) {
  for (auto const& kernel : stock_kernels())
    if (auto added = kernels.add(entry(name_of(kernel), true)); !added) return added;
  bindings.add("cutlass", bind, variants);
  return add_kernel(kernels, bindings, entry(k_stream_k, false), bind_stream_k);
}

NamedRecipe with_bands(NamedRecipe recipe) {
  for (std::size_t s = 0; s < recipe.kernels.size(); ++s) {
    auto& kernel = recipe.kernels[s];
    auto const way = is_stock(kernel.name) ? way_of(kernel.variant) : std::nullopt;
    if (!way) continue;
    recipe.how.stages.resize(recipe.kernels.size());
    recipe.how.stages[s] = {way->band, way->blocks};
    kernel.variant.clear();
  }
  return recipe;
}

NamedRecipe with_variants(NamedRecipe recipe) {
  for (std::size_t s = 0; s < recipe.how.stages.size(); ++s) {
    auto& stage = recipe.how.stages[s];
    if (!is_stock(recipe.kernels[s].name) || !stage.band) continue;
    recipe.kernels[s].variant = Way{*stage.band, stage.persistent_blocks.value_or(0)}.text();
    stage = {};
  }
  return recipe;
}

}  // namespace tessera::bench
