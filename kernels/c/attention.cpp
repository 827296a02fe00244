// SPDX-License-Identifier: Apache-2.0
// The C interface of kernels/attention_sm90: tensors of four sizes become launches, exceptions end here.
#include "kernels/attention_sm90/attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "kernels/c/answer.hpp"
#include "tessera_attention.h"
#include "tessera_c.h"

using tessera::Expected;
using tessera::attention_sm90::Problem;
using tessera::c::answer;
using tessera::c::refused;
using Options = tessera_attention_options;
using Strides = tessera_attention_strides;

namespace {

constexpr std::int64_t element_bytes = 2;
constexpr std::int64_t unit = 8;  ///< elements of 16 bytes, which the copy engine counts in

/// What a call enqueues: the problem, once for all, or once for each of the batch.
struct Launches {
  Problem problem;
  int count = 0;
};

int number(std::int64_t value) { return static_cast<int>(std::clamp<std::int64_t>(value, -1, INT32_MAX)); }

/// With strides that do not count replaced by ones that are possible.
Strides counting(Strides s, std::int64_t heads, std::int64_t rows, Options const& o) {
  if (rows == 1) s.row = o.batch > 1 && s.batch > 0 ? s.batch : unit;
  if (heads == 1) s.head = unit;
  if (o.batch == 1) s.batch = 0;
  return s;
}

/// Rows from one of the batch to the next, of two arrays whose rows a launch numbers alike.
std::optional<int> common_step(Strides const& a, Strides const& b, std::int64_t rows, std::int64_t batch) {
  if (batch == 1) return 0;
  for (auto const* s : {&a, &b})
    if (s->row <= 0 || s->batch <= 0 || s->batch % s->row != 0) return std::nullopt;
  auto const step = a.batch / a.row;
  if (step != b.batch / b.row || step < rows || step > INT32_MAX / batch) return std::nullopt;
  return static_cast<int>(step);
}

Expected<void> check_options(Options const* options) {
  if (options == nullptr) return refused("attention_options is null", "give its address");
  if (options->size != sizeof(Options))
    return refused(fmt::format("size is {}, this library's attention_options has {} bytes", options->size,
                               sizeof(Options)),
                   "set it to sizeof(struct tessera_attention_options), and use the header of this library");
  if (options->type != TESSERA_BF16 && options->type != TESSERA_FP16)
    return refused(fmt::format("type is {}", options->type), "take a value of enum tessera_element_type");
  if (options->batch < 0 || options->queries < 0)
    return refused(fmt::format("a batch of {}, {} queries", options->batch, options->queries),
                   "give 0 or more");
  if (options->key_heads < 1 || options->keys < 1)
    return refused(fmt::format("{} key heads, {} keys", options->key_heads, options->keys), "give 1 or more");
  auto const& o = *options;
  if (auto const most = std::max({o.batch, o.heads, o.key_heads, o.queries, o.keys, o.head_size, o.window});
      most > INT32_MAX)
    return refused(fmt::format("{} is more than a launch counts", most),
                   fmt::format("sizes and windows are {} at most", INT32_MAX));
  return {};
}

Expected<void> check_strides(char const* name, Strides const& s) {
  for (auto const stride : {s.batch, s.head, s.row})
    if (stride % unit != 0 || stride < 0)
      return tessera::kernels::refusal("E0590",
                                       fmt::format("attention: a stride of {} elements in {}", stride, name),
                                       fmt::format("let strides be multiples of {} above zero", unit));
  if (s.head == 0 || s.row == 0)
    return tessera::kernels::refusal(
        "E0590",
        fmt::format("attention: heads of {} are {} elements apart, and rows {}", name, s.head, s.row),
        "give each row of each head memory of its own");
  return {};
}

/// Of one of the batch, and where its rows lie left open.
Problem sizes_of(Options const& o) {
  Problem p;
  p.type = o.type == TESSERA_FP16 ? tessera::gpu::ElementType::fp16 : tessera::gpu::ElementType::bf16;
  p.heads = number(o.heads);
  p.key_heads = number(o.key_heads);
  p.head_size = number(o.head_size);
  p.causal = o.causal != 0;
  p.window = number(o.window);
  p.scale = static_cast<float>(o.scale);
  p.query_rows = number(o.queries);
  p.key_rows = number(o.keys);
  return p;
}

/// `o` with strides that count.
Expected<Launches> launches_of(Problem p, Options const& o) {
  p.q = {o.q.row, o.q.head, 0};
  p.k = {o.k.row, o.k.head, 0};
  p.v = {o.v.row, o.v.head, 0};
  p.out = {o.out.row, o.out.head, 0};
  int count = number(o.batch);
  auto const of_queries = common_step(o.q, o.out, o.queries, o.batch);
  auto const of_keys = common_step(o.k, o.v, o.keys, o.batch);
  if (o.batch > 1 && of_queries && of_keys) {
    p.sequences = count;
    p.query_step = *of_queries;
    p.query_rows += (p.sequences - 1) * p.query_step;
    p.key_step = *of_keys;
    p.key_rows += (p.sequences - 1) * p.key_step;
    count = 1;
  }
  if (auto fine = check(p); !fine) return tl::make_unexpected(fine.error());
  return Launches{p, count};
}

Expected<Launches> launches_of(Options const* options, Options& counted) {
  if (auto fine = check_options(options); !fine) return tl::make_unexpected(fine.error());
  if (options->batch == 0 || options->queries == 0) return Launches{};
  auto const sizes = sizes_of(*options);
  if (auto fine = check(sizes); !fine) return tl::make_unexpected(fine.error());
  counted = *options;
  counted.q = counting(options->q, options->heads, options->queries, *options);
  counted.out = counting(options->out, options->heads, options->queries, *options);
  counted.k = counting(options->k, options->key_heads, options->keys, *options);
  counted.v = counting(options->v, options->key_heads, options->keys, *options);
  struct Named {
    char const* name;
    Strides const& strides;
  };
  for (auto const& [name, strides] :
       {Named{"q", counted.q}, Named{"k", counted.k}, Named{"v", counted.v}, Named{"out", counted.out}})
    if (auto fine = check_strides(name, strides); !fine) return tl::make_unexpected(fine.error());
  return launches_of(sizes, counted);
}

template <class Byte, class Array>
Array* moved(Array* array, Strides const& strides, int count) {
  return static_cast<Byte*>(array) + element_bytes * strides.batch * count;
}

}  // namespace

int tessera_attention_launches(Options const* options, int32_t* launches) {
  return answer([&]() -> Expected<void> {
    if (launches == nullptr) return refused("launches is null", "give the address of an int32_t");
    Options counted{};
    auto const found = launches_of(options, counted);
    if (!found) return tl::make_unexpected(found.error());
    *launches = found->count;
    return {};
  });
}

int tessera_attention_run(Options const* options, void const* q, void const* k, void const* v, void* out,
                          void* stream) {
  return answer([&]() -> Expected<void> {
    Options o{};
    auto const found = launches_of(options, o);
    if (!found) return tl::make_unexpected(found.error());
    for (int i = 0; i < found->count; ++i)
      if (auto fine = attention(found->problem, moved<char const>(q, o.q, i), moved<char const>(k, o.k, i),
                                moved<char const>(v, o.v, i), moved<char>(out, o.out, i),
                                static_cast<cudaStream_t>(stream));
          !fine)
        return fine;
    return {};
  });
}
