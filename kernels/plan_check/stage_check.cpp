// SPDX-License-Identifier: Apache-2.0
#include "stage_check.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <type_traits>

#include "kernels/attention_sm90/plain.hpp"
#include "kernels/bindings/attention_layout.hpp"
#include "kernels/bindings/cached_attention.hpp"
#include "kernels/bindings/layer_numbers.hpp"
#include "kernels/common/refusal.hpp"
#include "src/bench/matrices.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/tune/tune.hpp"

namespace tessera::plan_check {
namespace {

using Numbers = std::vector<float>;
/// The reference's rows [begin, begin + rows) in place of what is in the vector, which is large enough.
using ReferenceRows = std::function<Expected<void>(std::int64_t begin, std::int64_t rows, Numbers&)>;

/// Sums of bf16's products, added to a number of about their size and not rounded: a tensor core cuts its
/// sums' last bits, and rounding to bf16 would be 1.65e-3.
constexpr double k_allowed_of_sums = 5e-4;
/// Of attention, over the error of plain arithmetic whose scores, weights and results are rounded to the
/// type.
constexpr double k_allowed_over_rounded = 2;
/// Rows of some hundred elements scatter around all rows together.
constexpr double k_row_scatter = 2;
constexpr std::int64_t k_elements_at_once = 1 << 24;
constexpr std::int64_t k_most_plain_keys = 12000;

bench::ElementType type_of(Tensor const& tensor) {
  return tensor.type == ElementType::fp16 ? bench::ElementType::fp16 : bench::ElementType::bf16;
}

float wide(std::uint16_t bits, ElementType type) {
  if (type == ElementType::fp16) {
    __half_raw raw;
    raw.x = bits;
    return __half2float(__half(raw));
  }
  __nv_bfloat16_raw raw;
  raw.x = bits;
  return __bfloat162float(__nv_bfloat16(raw));
}
float rounded(float value) { return __bfloat162float(__float2bfloat16_rn(value)); }

Expected<void> copy(void* to, void const* from, std::size_t bytes) {
  auto const error = cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost);
  if (error != cudaSuccess) return kernels::cuda_failed(error, "reading a result");
  return {};
}

/// Rows [begin, begin + rows) of a matrix, in fp32.
Expected<void> read_rows(Tensor const& tensor, std::int64_t begin, std::int64_t rows, Numbers& to) {
  auto const count = static_cast<std::size_t>(rows * tensor.columns);
  auto const element = static_cast<std::size_t>(bytes_of(tensor.type));
  auto const* from =
      static_cast<std::byte const*>(tensor.data) + static_cast<std::size_t>(begin * tensor.columns) * element;
  if (tensor.type == ElementType::fp32) return copy(to.data(), from, count * element);
  std::vector<std::uint16_t> bits(count);
  if (auto read = copy(bits.data(), from, count * element); !read) return read;
  std::transform(bits.begin(), bits.end(), to.begin(),
                 [&](std::uint16_t one) { return wide(one, tensor.type); });
  return {};
}

/// A vector of fp32; empty where there is no such operand.
Expected<Numbers> vector_of(Tensor const* tensor) {
  Numbers values(tensor == nullptr ? 0 : elements(*tensor));
  if (tensor != nullptr)
    if (auto read = copy(values.data(), tensor->data, bytes(*tensor)); !read)
      return tl::make_unexpected(read.error());
  return values;
}

/// Differences of one row, or of all.
struct Difference {
  double squares = 0, norm = 0;
  void add(double got, double want) { squares += (got - want) * (got - want), norm += want * want; }
  void add(Difference const& other) { squares += other.squares, norm += other.norm; }
  /// NaN where a number is none.
  double relative() const {
    return norm > 0 ? std::sqrt(squares / norm)
                    : (squares == 0 ? 0 : std::numeric_limits<double>::infinity());
  }
};

/// Larger than any number: NaN.
bool further(double one, double other) { return std::isnan(one) ? !std::isnan(other) : one > other; }

std::string furthest_of(float const* got, float const* want, std::int64_t columns, std::int64_t row) {
  std::int64_t at = 0;
  auto const off = [&](std::int64_t c) {
    return std::fabs(static_cast<double>(got[c]) - static_cast<double>(want[c]));
  };
  for (std::int64_t c = 1; c < columns; ++c)
    if (further(off(c), off(at))) at = c;
  return fmt::format("row {}, column {}: {} in place of {}", row, at, got[at], want[at]);
}

/// A matrix beside its reference, some rows at a time.
Expected<Compared> compare_rows(Tensor const& got, ReferenceRows const& reference, double allowed) {
  auto const step = std::clamp<std::int64_t>(k_elements_at_once / got.columns, 1, got.rows);
  Numbers mine(static_cast<std::size_t>(step * got.columns)), wanted(mine.size());
  Difference all;
  Compared result;
  result.allowed = allowed;
  result.row_allowed = k_row_scatter * allowed;
  result.row_error = -1;
  for (std::int64_t begin = 0; begin < got.rows; begin += step) {
    auto const rows = std::min(step, got.rows - begin);
    if (auto read = read_rows(got, begin, rows, mine); !read) return tl::make_unexpected(read.error());
    if (auto made = reference(begin, rows, wanted); !made) return tl::make_unexpected(made.error());
    for (std::int64_t row = 0; row < rows; ++row) {
      auto const *g = mine.data() + row * got.columns, *w = wanted.data() + row * got.columns;
      Difference one;
      for (std::int64_t c = 0; c < got.columns; ++c)
        one.add(static_cast<double>(g[c]), static_cast<double>(w[c]));
      all.add(one);
      if (!further(one.relative(), result.row_error)) continue;
      result.row_error = one.relative();
      result.worst = furthest_of(g, w, got.columns, begin + row);
    }
  }
  result.error = all.relative();
  return result;
}

/// Of a sum: the terms added up in long double, integers modulo 2^32.
template <class Element>
Expected<Compared> compare_sum(Tensor const& x, Tensor const& out) {
  std::vector<Element> terms(elements(x));
  Element got{};
  if (auto read = copy(terms.data(), x.data, bytes(x)); !read) return tl::make_unexpected(read.error());
  if (auto read = copy(&got, out.data, sizeof got); !read) return tl::make_unexpected(read.error());
  Compared result;
  if constexpr (std::is_integral_v<Element>) {
    std::uint32_t sum = 0;
    for (auto const term : terms) sum += static_cast<std::uint32_t>(term);
    result.error = sum == static_cast<std::uint32_t>(got) ? 0.0 : 1.0;
    result.worst = fmt::format("{} in place of {}", got, static_cast<Element>(sum));
  } else {
    long double sum = 0;
    for (auto const term : terms) sum += term;
    // Partial sums are added in a tree: a rounding for each of its some 30 levels at most.
    constexpr double levels = 30;
    result.error = static_cast<double>(std::abs((got - sum) / sum));
    result.allowed = levels * static_cast<double>(std::numeric_limits<Element>::epsilon());
    result.worst = fmt::format("{} in place of {}", got, static_cast<double>(sum));
  }
  return result;
}

class StageCheck {
 public:
  StageCheck(Plan const& plan, int launch, int index, Buffers const& buffers, cudaStream_t stream)
      : plan_(plan),
        request_{plan, launch, shipped_kernels(), buffers.tensors, none_},
        stage_(request_.stage(index)),
        buffers_(buffers),
        stream_(stream),
        index_(index) {}

  Expected<Compared> compare() {
    switch (kind_of(stage_)) {
      case OperatorKind::sum: return sum();
      case OperatorKind::gemm: return product();
      case OperatorKind::norm: return norm();
      case OperatorKind::turn_heads: return turned();
      case OperatorKind::attention: return attention();
      default: break;
    }
    return kernels::refusal(
        "E0563", fmt::format("there is no reference for {}, a {}", stage_.name, to_text(kind_of(stage_))),
        "run plans of products, sums and layers, or launch it with Executable and compare in a program of "
        "your own (docs/running.md)");
  }

 private:
  Tensor const* tensor(std::string const& operand) const {
    auto const* found = operand_of(stage_, operand);
    return found == nullptr ? nullptr : &buffers_.tensors.at(found->buffer);
  }
  Tensor const& output() const { return buffers_.tensors.at(output_of(stage_)); }

  Expected<Compared> sum() const {
    auto const& x = *tensor(stage_.operands.front().name);
    switch (x.type) {
      case ElementType::fp64: return compare_sum<double>(x, output());
      case ElementType::int32: return compare_sum<std::int32_t>(x, output());
      default: return compare_sum<float>(x, output());
    }
  }

  /// [rows][rows of b] in fp32 on the device, before any epilogue.
  Expected<Memory> product_of(Stage const& maker) const {
    auto const &a = buffers_.tensors.at(operand_of(maker, "a")->buffer),
               &b = buffers_.tensors.at(operand_of(maker, "b")->buffer);
    auto made = allocate(static_cast<std::size_t>(a.rows * b.rows) * sizeof(float));
    if (!made) return made;
    bench::reference_gemm(a.data, b.data, static_cast<float*>(made->get()), static_cast<int>(a.rows),
                          static_cast<int>(b.rows), static_cast<int>(a.columns), type_of(a), stream_);
    if (auto const error = cudaStreamSynchronize(stream_); error != cudaSuccess)
      return kernels::cuda_failed(error, "computing a reference");
    return made;
  }
  static ReferenceRows rows_of(float const* device, std::int64_t columns) {
    return [=](std::int64_t begin, std::int64_t rows, Numbers& to) {
      return copy(to.data(), device + begin * columns,
                  static_cast<std::size_t>(rows * columns) * sizeof(float));
    };
  }

  Stage const* reader(OperatorKind kind, char const* operand) const {
    for (auto const& one : plan_.pipeline.stages)
      if (auto const* read = operand_of(one, operand);
          kind_of(one) == kind && read != nullptr && read->buffer == output_of(stage_))
        return &one;
    return nullptr;
  }

  Expected<Compared> product() const {
    if (auto const* turns = reader(OperatorKind::turn_heads, "a"); turns != nullptr) {
      Compared later;
      later.later = true;
      later.note = fmt::format("{} turns it where it is: compared as that", turns->name);
      return later;
    }
    auto sums = product_of(stage_);
    if (!sums) return tl::make_unexpected(sums.error());
    auto const& d = output();
    auto* expected = static_cast<float*>(sums->get());
    if (stage_.activation == to_text(Epilogue::residual)) return product_with_residual(expected);
    auto results = allocate(elements(d) * sizeof(float));
    if (!results) return tl::make_unexpected(results.error());
    if (!stage_.activation.empty()) {
      auto* activated = static_cast<float*>(results->get());
      auto const* form = find_form(request_.kernel(index_), Epilogue::swiglu, d.type);
      bool const rounds = form != nullptr && form->rounds_sums;
      auto const activation = stage_.activation == "gelu" ? bench::ReferenceActivation::gelu
                              : rounds                    ? bench::ReferenceActivation::rounded_swiglu
                                                          : bench::ReferenceActivation::swiglu;
      bench::reference_activation(expected, activation, elements(d), activated, nullptr, type_of(d), stream_);
      if (auto const error = cudaStreamSynchronize(stream_); error != cudaSuccess)
        return kernels::cuda_failed(error, "computing a reference");
      expected = activated;
    }
    return compare_rows(d, rows_of(expected, d.columns), k_allowed_error);
  }

  /// With what the norm behind it adds and stores again.
  Expected<Compared> product_with_residual(float const* sums) const {
    auto const& residual = *tensor("residual");
    auto const* norm = reader(OperatorKind::norm, "a");
    auto const* added = norm == nullptr ? nullptr : operand_of(*norm, "shift");
    auto const shift = vector_of(added == nullptr ? nullptr : &buffers_.tensors.at(added->buffer));
    if (!shift) return tl::make_unexpected(shift.error());
    auto const columns = output().columns;
    auto const product_rows = rows_of(sums, columns);
    auto const reference = [&](std::int64_t begin, std::int64_t rows, Numbers& to) -> Expected<void> {
      if (auto read = product_rows(begin, rows, to); !read) return read;
      Numbers more(to.size());
      if (auto read = read_rows(residual, begin, rows, more); !read) return read;
      for (std::size_t i = 0; i < static_cast<std::size_t>(rows * columns); ++i)
        to[i] += more[i] + (shift->empty() ? 0 : (*shift)[i % static_cast<std::size_t>(columns)]);
      return {};
    };
    auto compared = compare_rows(output(), reference, k_allowed_of_sums);
    if (compared && !shift->empty()) compared->note = fmt::format("with what {} adds and stores", norm->name);
    return compared;
  }

  Expected<Compared> norm() const {
    auto const& x = *tensor("a");
    auto const& y = output();
    auto const reference = [&](std::int64_t begin, std::int64_t rows, Numbers& to) -> Expected<void> {
      if (auto read = read_rows(x, begin, rows, to); !read) return read;
      for (std::int64_t row = 0; row < rows; ++row) {
        auto* const at = to.data() + row * y.columns;
        double squares = 0;
        for (std::int64_t c = 0; c < y.columns; ++c)
          squares += static_cast<double>(at[c]) * static_cast<double>(at[c]);
        auto const scale =
            1 / std::sqrt(squares / static_cast<double>(y.columns) + static_cast<double>(k_layer_epsilon));
        for (std::int64_t c = 0; c < y.columns; ++c)
          at[c] = static_cast<float>(static_cast<double>(at[c]) * scale);
      }
      return {};
    };
    auto compared = compare_rows(y, reference, k_allowed_error);
    auto const* before = buffers_.before(operand_of(stage_, "a")->buffer);
    if (!compared || before == nullptr) return compared;
    // The stream that it read, and stored again.
    auto stored = compare_shifted(x, before);
    if (!stored || stored->right()) return compared;
    stored->worst = "the stream that it stores: " + stored->worst;
    return stored;
  }
  Expected<Compared> compare_shifted(Tensor const& now, void const* before) const {
    auto const shift = vector_of(tensor("shift"));
    if (!shift) return tl::make_unexpected(shift.error());
    auto was = now;
    was.data = const_cast<void*>(before);
    auto const reference = [&](std::int64_t begin, std::int64_t rows, Numbers& to) -> Expected<void> {
      if (auto read = read_rows(was, begin, rows, to); !read) return read;
      for (std::size_t i = 0; i < static_cast<std::size_t>(rows * now.columns); ++i)
        to[i] += (*shift)[i % static_cast<std::size_t>(now.columns)];
      return {};
    };
    return compare_rows(now, reference, static_cast<double>(std::numeric_limits<float>::epsilon()));
  }

  Expected<Compared> turned() const {
    auto const& stages = plan_.pipeline.stages;
    auto const& from = operand_of(stage_, "a")->buffer;
    auto const maker = std::find_if(stages.begin(), stages.end(), [&](Stage const& one) {
      return output_of(one) == from && kind_of(one) == OperatorKind::gemm && one.activation.empty();
    });
    if (maker == stages.end())
      return kernels::refusal(
          "E0563", fmt::format("{} turns heads that no plain product of the plan makes", stage_.name),
          "run plans of whole layers");
    auto const counts = turned_heads(request_);
    if (!counts) return tl::make_unexpected(counts.error());
    auto const sums = product_of(*maker);
    if (!sums) return tl::make_unexpected(sums.error());
    auto const shift = vector_of(tensor("shift")), turns = vector_of(tensor("turns"));
    if (!shift) return tl::make_unexpected(shift.error());
    if (!turns) return tl::make_unexpected(turns.error());
    auto const columns = output().columns;
    auto const length = turns->empty() ? 1 : tensor("turns")->rows;
    auto const offsets = offsets_of(buffers_.prompts);
    auto const position = [&](std::int64_t row) {
      if (buffers_.prompts.empty()) return row % length;
      return std::min<std::int64_t>(row - *(std::upper_bound(offsets.begin(), offsets.end(), row) - 1),
                                    length - 1);
    };
    auto const product_rows = rows_of(static_cast<float const*>(sums->get()), columns);
    auto const reference = [&](std::int64_t begin, std::int64_t rows, Numbers& to) -> Expected<void> {
      if (auto read = product_rows(begin, rows, to); !read) return read;
      for (std::int64_t row = 0; row < rows; ++row) {
        auto* const at = to.data() + row * columns;
        for (std::int64_t c = 0; c < columns; ++c)
          at[c] = rounded(at[c]) + (shift->empty() ? 0 : (*shift)[static_cast<std::size_t>(c)]);
        if (!turns->empty()) turn_row(at, turns->data() + position(begin + row) * counts->head_size, *counts);
      }
      return {};
    };
    auto compared = compare_rows(output(), reference, k_allowed_error);
    if (compared) compared->note = fmt::format("made by {}", maker->name);
    return compared;
  }
  static void turn_row(float* at, float const* turns, HeadCounts const& counts) {
    int const half = counts.head_size / 2, slots = counts.group() + 2;
    for (int slot = 0; slot < counts.key_heads * slots; ++slot, at += counts.head_size) {
      if (slot % slots == slots - 1) continue;  // a value
      for (int i = 0; i < half; ++i) {
        float const low = at[i], high = at[i + half], cosine = turns[2 * i], sine = turns[2 * i + 1];
        at[i] = low * cosine - high * sine;
        at[i + half] = high * cosine + low * sine;
      }
    }
  }

  Expected<Compared> attention() const {
    if (request_.kernel(index_).of_new_tokens) return attention_over_cache();
    auto call = attention_call(request_);
    if (!call) return tl::make_unexpected(call.error());
    int const sequences = call->problem.sequences;
    auto const& prompts = buffers_.prompts;
    auto const tokens =
        prompts.empty() ? output().rows / sequences : *std::max_element(prompts.begin(), prompts.end());
    if (!prompts.empty()) call->problem.longest_queries = static_cast<int>(tokens);
    auto compared = beside_plain(call->problem, call->q, call->k, call->v, tokens);
    if (compared)
      compared->note =
          prompts.empty()
              ? fmt::format("{} sequence{} of {} tokens, {}", sequences, sequences == 1 ? "" : "s", tokens,
                            call->problem.causal ? "causal" : "all keys")
              : fmt::format("prompts of {} tokens, causal", fmt::join(prompts, ", "));
    return compared;
  }

  /// The keys and values that the launch has stored are those that plain arithmetic reads.
  Expected<Compared> attention_over_cache() const {
    auto const call = cached_attention_call(request_);
    if (!call) return tl::make_unexpected(call.error());
    auto const& a = *call;
    std::vector<std::int32_t> lengths(static_cast<std::size_t>(a.batch));
    auto const bytes_of_lengths = lengths.size() * sizeof(std::int32_t);
    if (auto read = copy(lengths.data(), a.cached, bytes_of_lengths); !read)
      return tl::make_unexpected(read.error());
    auto const longest = *std::max_element(lengths.begin(), lengths.end());
    for (auto& length : lengths) ++length;
    auto const seen = allocate(bytes_of_lengths);
    if (!seen) return tl::make_unexpected(seen.error());
    if (auto const error = cudaMemcpy(seen->get(), lengths.data(), bytes_of_lengths, cudaMemcpyHostToDevice);
        error != cudaSuccess)
      return kernels::cuda_failed(error, "filling a buffer");
    attention_sm90::Problem p;
    p.sequences = p.query_rows = a.batch;
    p.heads = a.kv_heads * a.group, p.key_heads = a.kv_heads, p.head_size = a.head_size;
    p.longest_queries = 1;
    p.key_step = a.kv_heads * a.cache.capacity;
    p.key_rows = a.batch * p.key_step;
    p.key_lengths = static_cast<int const*>(seen->get());
    p.causal = true, p.window = a.window;
    p.q = {a.at.row, a.head_size, a.at.queries};
    p.k = p.v = {a.head_size, static_cast<long long>(a.cache.capacity) * a.head_size, 0};
    p.turned_keys = true;
    auto compared = beside_plain(p, a.qkv, a.cache.keys, a.cache.values, longest + 1);
    if (compared)
      compared->note =
          fmt::format("{} new token{} behind {} cached", a.batch, a.batch == 1 ? "" : "s", longest);
    return compared;
  }

  Expected<Compared> beside_plain(attention_sm90::Problem const& problem, void const* q, void const* k,
                                  void const* v, std::int64_t keys) const {
    auto const& d = output();
    if (keys > k_most_plain_keys)
      return kernels::refusal("E0563",
                              fmt::format("there is no reference for {}: {} keys are more than {}",
                                          stage_.name, keys, k_most_plain_keys),
                              "run shorter sequences");
    auto const plain = [&](attention_sm90::Rounding rounding) -> Expected<Memory> {
      auto made = allocate(elements(d) * sizeof(float));
      if (!made) return made;
      auto error = attention_sm90::plain_attention(problem, q, k, v, static_cast<float*>(made->get()),
                                                   rounding, stream_);
      if (error == cudaSuccess) error = cudaStreamSynchronize(stream_);
      if (error != cudaSuccess) return kernels::cuda_failed(error, "computing a reference");
      return made;
    };
    auto const exact = plain(attention_sm90::Rounding::none), rounded = plain(attention_sm90::Rounding::each);
    if (!exact) return tl::make_unexpected(exact.error());
    if (!rounded) return tl::make_unexpected(rounded.error());
    auto const reference = rows_of(static_cast<float const*>(exact->get()), d.columns);
    Tensor const in_type{rounded->get(), d.rows, d.columns, 1, 0, ElementType::fp32};
    auto const unavoidable = compare_rows(in_type, reference, 0);
    if (!unavoidable) return unavoidable;
    // Of inputs that are no numbers nothing is right.
    double const allowed =
        std::isfinite(unavoidable->error) ? k_allowed_over_rounded * unavoidable->error : 0.0;
    return compare_rows(d, reference, allowed);
  }

  Scratch none_;
  Plan const& plan_;
  BindRequest request_;
  Stage const& stage_;
  Buffers const& buffers_;
  cudaStream_t stream_;
  int index_;
};

}  // namespace

Expected<Compared> compare_stage(Plan const& plan, int launch, int index, Buffers const& buffers,
                                 cudaStream_t stream) {
  return StageCheck(plan, launch, index, buffers, stream).compare();
}

std::string line_of(Stage const& stage, std::string const& when, Compared const& compared) {
  auto line = fmt::format("{:<14} {}: ", stage.name, when);
  if (compared.later) return line + compared.note + ", " + stage.kernel;
  line += fmt::format("relative error {:.2e} {}, {}", compared.error, compared.right() ? "right" : "WRONG",
                      stage.kernel);
  if (!compared.note.empty()) line += "; " + compared.note;
  if (!compared.right())
    line += fmt::format("\n               furthest off, {:.2e} in its row: {}", compared.row_error,
                        compared.worst);
  return line;
}

}  // namespace tessera::plan_check
