// SPDX-License-Identifier: Apache-2.0
// The C interface of kernels/mlp: values are checked here, exceptions end here.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <tessera/tune/plans.hpp>
#include <tuple>
#include <vector>

#include "kernels/c/answer.hpp"
#include "kernels/mlp/kept.hpp"
#include "tessera_c.h"

using tessera::Expected;
using tessera::c::answer;
using tessera::c::refused;
using tessera::mlp::KeptMlps;
using tessera::mlp::Shape;

struct tessera_mlp {
  tessera_mlp(Shape const& of, tessera::mlp::MlpOptions const& options) : shape(of), kept(of, options) {}
  Shape shape;
  KeptMlps kept;
};

namespace {

constexpr int address_sets = 1024;  // a model's layers, and a few places of each one's input and output

/// Never destroyed: when statics are, the driver may be gone, and graphs may be left.
struct All {
  using Key = std::tuple<int, int, int, int, bool, double, std::string>;
  std::mutex mutex;
  std::map<Key, tessera_mlp> known;  ///< they stay where they are
};
All& all() {
  static auto& one = *new All;
  return one;
}

Expected<Shape> shape_of(tessera_mlp_options const& options) {
  if (options.form != TESSERA_MLP_GELU_TANH && options.form != TESSERA_MLP_SWIGLU)
    return refused(fmt::format("form is {}", options.form), "take a value of enum tessera_mlp_form");
  if (options.type != TESSERA_BF16 && options.type != TESSERA_FP16)
    return refused(fmt::format("type is {}", options.type), "take a value of enum tessera_element_type");
  auto const size = [](std::int64_t value) {
    return static_cast<int>(std::clamp<std::int64_t>(value, -1, INT32_MAX));
  };
  Shape const shape{
      1, size(options.model), size(options.hidden),
      options.form == TESSERA_MLP_SWIGLU ? tessera::mlp::Form::swiglu : tessera::mlp::Form::gelu,
      options.type == TESSERA_FP16 ? tessera::mlp::ElementType::fp16 : tessera::mlp::ElementType::bf16};
  if (auto const right = check(shape); !right) return tl::make_unexpected(right.error());
  return shape;
}

/// 0 for no tokens, which is all right.
Expected<int> tokens_of(tessera_mlp const* mlp, std::int64_t tokens) {
  if (mlp == nullptr) return refused("mlp is null", "take what tessera_mlp_get() gives");
  if (tokens == 0) return 0;
  auto shape = mlp->shape;
  shape.tokens = static_cast<int>(std::clamp<std::int64_t>(tokens, -1, INT32_MAX));
  if (auto const right = check(shape); !right) return tl::make_unexpected(right.error());
  return shape.tokens;
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

int tessera_mlp_get(tessera_mlp_options const* options, tessera_mlp** mlp) {
  return answer([&]() -> Expected<void> {
    if (options == nullptr || mlp == nullptr)
      return refused("an argument is null", "give the address of each");
    if (options->size != sizeof(tessera_mlp_options))
      return refused(fmt::format("size is {}, this library's options have {} bytes", options->size,
                                 sizeof(tessera_mlp_options)),
                     "set it to sizeof(struct tessera_mlp_options), and use the header of this library");
    if (!(options->deadline_seconds >= 0))
      return refused(fmt::format("deadline_seconds is {}", options->deadline_seconds), "give seconds, or 0");
    auto const shape = shape_of(*options);
    if (!shape) return tl::make_unexpected(shape.error());
    tessera::mlp::MlpOptions how;
    how.cache_file = options->cache_file == nullptr ? "" : options->cache_file;
    if (options->deadline_seconds > 0) how.deadline_seconds = options->deadline_seconds;
    how.early_weights = options->early_weights != 0;
    how.lends_scratch = true;
    how.address_sets = address_sets;
    All::Key const key{shape->model,      shape->hidden,        options->form, options->type,
                       how.early_weights, how.deadline_seconds, how.cache_file};
    std::lock_guard const lock(all().mutex);
    *mlp = &all().known.try_emplace(key, *shape, how).first->second;
    return {};
  });
}

int tessera_mlp_workspace(tessera_mlp* mlp, int64_t tokens, void* stream, size_t* bytes) {
  return answer([&]() -> Expected<void> {
    if (bytes == nullptr) return refused("bytes is null", "give the address of a size_t");
    auto const count = tokens_of(mlp, tokens);
    if (!count) return tl::make_unexpected(count.error());
    *bytes = 0;
    if (*count == 0) return {};
    return mlp->kept.scratch_bytes(*count, stream_of(stream)).map([&](std::size_t needed) {
      *bytes = needed;
    });
  });
}

int tessera_mlp_run(tessera_mlp* mlp, void const* x, void const* w_in, void const* w_out, void* y,
                    int64_t tokens, void* workspace, size_t workspace_bytes, void* stream) {
  return answer([&]() -> Expected<void> {
    auto const count = tokens_of(mlp, tokens);
    if (!count) return tl::make_unexpected(count.error());
    if (*count == 0) return {};
    return mlp->kept.launch(x, w_in, w_out, y, *count, stream_of(stream), {workspace, workspace_bytes});
  });
}

int tessera_mlp_run_lent(tessera_mlp* mlp, void const* x, void const* w_in, void const* w_out, void* y,
                         int64_t tokens, tessera_lend lend, void* context, void* stream) {
  return answer([&]() -> Expected<void> {
    if (lend == nullptr) return refused("lend is null", "give a function that lends memory");
    auto const count = tokens_of(mlp, tokens);
    if (!count) return tl::make_unexpected(count.error());
    if (*count == 0) return {};
    return mlp->kept.launch(x, w_in, w_out, y, *count, stream_of(stream),
                            [&](std::size_t bytes) { return lend(context, bytes); });
  });
}

int tessera_mlp_choice(tessera_mlp* mlp, int64_t tokens, void* stream, char* text, size_t size) {
  return answer([&]() -> Expected<void> {
    if (text == nullptr || size == 0)
      return refused("there is no room for the text", "give at least one byte");
    auto const count = tokens_of(mlp, tokens);
    if (!count) return tl::make_unexpected(count.error());
    text[0] = '\0';
    if (*count == 0) return {};
    auto const plan = mlp->kept.choice(*count, stream_of(stream));
    if (!plan) return tl::make_unexpected(plan.error());
    auto const name = plan_name(*plan);
    auto const length = std::min(name.size(), size - 1);
    std::memcpy(text, name.data(), length);
    text[length] = '\0';
    return {};
  });
}

int tessera_mlp_finish(tessera_mlp* mlp, void* stream) {
  return answer([&]() -> Expected<void> {
    if (mlp == nullptr) return refused("mlp is null", "take what tessera_mlp_get() gives");
    return mlp->kept.finish(stream_of(stream));
  });
}

int tessera_finish(void* stream) {
  return answer([&]() -> Expected<void> {
    std::vector<tessera_mlp*> each;
    {
      std::lock_guard const lock(all().mutex);
      for (auto& [key, mlp] : all().known) each.push_back(&mlp);
    }
    Expected<void> result;
    for (auto* const mlp : each)
      if (auto finished = mlp->kept.finish(stream_of(stream)); !finished && result)
        result = std::move(finished);
    return result;
  });
}
