// SPDX-License-Identifier: Apache-2.0
#include "kernels/unfused_attention/unfused_run.hpp"

#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/attention_sm90/dropout.hpp"
#include "kernels/common/refusal.hpp"
#include "kernels/unfused_attention/unfused_plan.hpp"
#include "src/bench/matrices.hpp"
#include "tessera/measure/statistics.hpp"

namespace tessera::unfused_attention {
namespace {

using Bits = std::vector<unsigned short>;
/// Of every tile of 8 rows and more one is compared, and of neighbouring heads others; of long prompts some
/// 128 rows of a head, on the host.
std::int64_t row_step(std::int64_t tokens) { return std::max<std::int64_t>(7, tokens / 128 | 1); }
constexpr bench::ElementType k_type = bench::ElementType::bf16;

Expected<void> done(cudaError_t error, char const* what) {
  if (error != cudaSuccess) return kernels::cuda_failed(error, what);
  return {};
}

double wide(unsigned short bits) {
  __nv_bfloat16_raw raw;
  raw.x = bits;
  return static_cast<double>(__bfloat162float(__nv_bfloat16(raw)));
}
double rounded(double value) {
  return static_cast<double>(__bfloat162float(__float2bfloat16_rn(static_cast<float>(value))));
}

std::size_t count_of(Tensor const& tensor) {
  return static_cast<std::size_t>(tensor.rows * tensor.columns * tensor.batch);
}

/// Differences from a reference, and those of the reference rounded.
struct Differences {
  double got = 0, rounding = 0, norm = 0;
  bool wrong_zero = false;

  void add(double value, double reference) {
    got += (value - reference) * (value - reference);
    rounding += (rounded(reference) - reference) * (rounded(reference) - reference);
    norm += reference * reference;
  }
  StageError named(std::string stage) const {
    if (wrong_zero || !(norm > 0)) return {std::move(stage), std::numeric_limits<double>::infinity(), 0};
    return {std::move(stage), std::sqrt(got / norm), 2 * std::sqrt(rounding / norm)};
  }
};

/// Numbers of the block's tensors by row and column, on the host.
struct Matrices {
  AttentionShape shape;
  Bits qkv, scores, weights, context;

  std::int64_t width() const { return shape.query_heads * shape.head_dim; }
  std::int64_t qkv_columns() const { return width() + 2 * shape.kv_heads * shape.head_dim; }
  double of_qkv(std::int64_t z, std::int64_t token, std::int64_t first) const {
    auto const row = z / shape.query_heads * shape.tokens + token;
    return wide(qkv[static_cast<std::size_t>(row * qkv_columns() + first)]);
  }
  std::int64_t key_head(std::int64_t z) const {
    return z % shape.query_heads / (shape.query_heads / shape.kv_heads);
  }
  double query(std::int64_t z, std::int64_t token, std::int64_t i) const {
    return of_qkv(z, token, z % shape.query_heads * shape.head_dim + i);
  }
  double key(std::int64_t z, std::int64_t token, std::int64_t i) const {
    return of_qkv(z, token, width() + key_head(z) * shape.head_dim + i);
  }
  double value(std::int64_t z, std::int64_t token, std::int64_t i) const {
    return of_qkv(z, token, width() + (shape.kv_heads + key_head(z)) * shape.head_dim + i);
  }
  std::size_t square(std::int64_t z, std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>((z * shape.tokens + row) * shape.tokens + column);
  }
  double made(std::int64_t z, std::int64_t token, std::int64_t i) const {
    auto const row = z / shape.query_heads * shape.tokens + token;
    return wide(
        context[static_cast<std::size_t>(row * width() + z % shape.query_heads * shape.head_dim + i)]);
  }
};

void compare_row(Matrices const& m, Dropping const& dropping, std::int64_t z, std::int64_t row,
                 Differences& scores, Differences& weights, Differences& context) {
  auto const tokens = m.shape.tokens, size = m.shape.head_dim;
  std::vector<double> exact(static_cast<std::size_t>(tokens));
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    double dot = 0;
    for (std::int64_t i = 0; i < size; ++i) dot += m.query(z, row, i) * m.key(z, t, i);
    auto const got = wide(m.scores[m.square(z, row, t)]);
    scores.add(got, dot);
    largest =
        std::max(largest, exact[static_cast<std::size_t>(t)] = got / std::sqrt(static_cast<double>(size)));
  }
  for (auto& one : exact) sum += one = std::exp(one - largest);
  auto const below = attention_sm90::drop_below(dropping.share);
  std::vector<double> sums(static_cast<std::size_t>(size));
  for (std::int64_t t = 0; t < tokens; ++t) {
    auto const number = attention_sm90::drop_number(dropping.seed, static_cast<int>(z / m.shape.query_heads),
                                                    static_cast<int>(z % m.shape.query_heads),
                                                    static_cast<int>(row), static_cast<int>(t));
    auto const got = wide(m.weights[m.square(z, row, t)]);
    auto const kept = number >= below;
    weights.wrong_zero = weights.wrong_zero || kept == (got == 0);
    weights.add(
        got, kept ? exact[static_cast<std::size_t>(t)] / sum / (1 - static_cast<double>(dropping.share)) : 0);
    for (std::int64_t i = 0; got != 0 && i < size; ++i)
      sums[static_cast<std::size_t>(i)] += got * m.value(z, t, i);
  }
  for (std::int64_t i = 0; i < size; ++i) context.add(m.made(z, row, i), sums[static_cast<std::size_t>(i)]);
}

}  // namespace

Expected<Operands> Operands::make(OperatorGraph const& graph, Dropping const& dropping, cudaStream_t stream) {
  if (auto fine = check_unfused(graph); !fine) return tl::make_unexpected(fine.error());
  Operands result;
  result.graph_ = graph;
  result.dropping_ = dropping;
  auto const& ops = graph.operators;
  auto const& a = graph.attention;
  unsigned seed = 1;
  auto const add = [&](std::string const& name, std::int64_t rows, std::int64_t columns, std::int64_t batch,
                       double deviation) -> Expected<void> {
    Tensor tensor{nullptr, rows, columns, batch, 0, ElementType::bf16};
    if (auto got =
            done(cudaMalloc(&tensor.data, count_of(tensor) * sizeof(__nv_bfloat16)), "allocating a tensor");
        !got)
      return got;
    result.memory_.emplace_back(tensor.data);
    result.tensors[name] = tensor;
    if (deviation > 0)
      bench::fill_random(tensor.data, count_of(tensor), k_type, seed++, static_cast<float>(deviation),
                         stream);
    return {};
  };
  auto const unit = [](std::int64_t depth) { return 1 / std::sqrt(static_cast<double>(depth)); };
  auto const name = [](Operator const& op) { return op.output.empty() ? op.name : op.output; };
  auto const &qkv = ops.front(), &output = ops.back();
  for (auto const& made :
       {add(qkv.inputs[0].buffer, qkv.m, qkv.k, 1, 1),
        add(qkv.inputs[1].buffer, qkv.n, qkv.k, 1, unit(qkv.k)),
        add(output.inputs[1].buffer, output.n, output.k, 1, unit(output.k)),
        add(name(qkv), qkv.m, qkv.n, 1, 0), add(name(ops[1]), a.tokens, a.tokens, ops[1].batch, 0),
        add(name(ops[2]), a.tokens, a.tokens, ops[1].batch, 0), add(name(ops[3]), output.m, output.k, 1, 0),
        add(name(output), output.m, output.n, 1, 0)})
    if (!made) return tl::make_unexpected(made.error());
  return result;
}

Expected<Executable> Operands::bind(Plan const& plan) const {
  return Executable::make(plan, kernels(), bindings(graph_.attention, dropping_), tensors);
}

Expected<void> Operands::run(Executable& executable, cudaStream_t stream) const {
  for (auto const& op : graph_.operators) {
    auto const& tensor = tensors.at(op.output.empty() ? op.name : op.output);
    bench::poison(tensor.data, count_of(tensor), stream);
  }
  if (auto launched = executable.launch(stream); !launched) return launched;
  return executable.finish();
}

Expected<Bits> Operands::bits(std::string const& name) const {
  auto const& tensor = tensors.at(name);
  Bits result(count_of(tensor));
  if (auto got = done(
          cudaMemcpy(result.data(), tensor.data, result.size() * sizeof result[0], cudaMemcpyDeviceToHost),
          "reading a tensor");
      !got)
    return tl::make_unexpected(got.error());
  return result;
}

Expected<std::vector<StageError>> Operands::compare(cudaStream_t stream) const {
  auto const& ops = graph_.operators;
  auto const name = [&](std::size_t i) { return ops[i].output.empty() ? ops[i].name : ops[i].output; };
  Matrices m;
  m.shape = graph_.attention;
  for (auto const& [to, i] : {std::pair{&m.qkv, 0}, {&m.scores, 1}, {&m.weights, 2}, {&m.context, 3}}) {
    auto read = bits(name(static_cast<std::size_t>(i)));
    if (!read) return tl::make_unexpected(read.error());
    *to = std::move(*read);
  }
  auto const product = [&](std::size_t i, std::string const& left) -> Expected<StageError> {
    auto const &a = tensors.at(left), &b = tensors.at(ops[i].inputs[1].buffer), &d = tensors.at(name(i));
    void* sums = nullptr;
    if (auto got = done(cudaMalloc(&sums, count_of(d) * sizeof(float)), "allocating a reference"); !got)
      return tl::make_unexpected(got.error());
    std::unique_ptr<void, FreeOnDevice> const owned(sums);
    bench::reference_gemm(a.data, b.data, static_cast<float*>(sums), static_cast<int>(d.rows),
                          static_cast<int>(d.columns), static_cast<int>(a.columns), k_type, stream);
    std::vector<float> reference(count_of(d));
    auto const got = bits(name(i));
    if (!got) return tl::make_unexpected(got.error());
    if (auto read = done(cudaStreamSynchronize(stream), "computing a reference"); !read)
      return tl::make_unexpected(read.error());
    if (auto read =
            done(cudaMemcpy(reference.data(), sums, reference.size() * sizeof(float), cudaMemcpyDeviceToHost),
                 "reading a reference");
        !read)
      return tl::make_unexpected(read.error());
    Differences all;
    for (std::size_t e = 0; e < reference.size(); ++e)
      all.add(wide((*got)[e]), static_cast<double>(reference[e]));
    return all.named(ops[i].name);
  };
  Differences scores, weights, context;
  auto const step = row_step(m.shape.tokens);
  for (std::int64_t z = 0; z < ops[1].batch; ++z)
    for (std::int64_t row = z % step; row < m.shape.tokens; row += step)
      compare_row(m, dropping_, z, row, scores, weights, context);
  auto const first = product(0, ops.front().inputs[0].buffer), last = product(4, name(3));
  if (!first) return tl::make_unexpected(first.error());
  if (!last) return tl::make_unexpected(last.error());
  return std::vector{*first, scores.named(ops[1].name), weights.named(ops[2].name),
                     context.named(ops[3].name), *last};
}

Expected<double> replayed_us(Executable& executable, int replays, cudaStream_t stream) {
  auto graph = executable.capture();
  if (!graph) return tl::make_unexpected(graph.error());
  cudaEvent_t begin = nullptr, end = nullptr;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  std::vector<double> us;
  Expected<void> launched;
  constexpr int warm = 3, at_once = 5;
  for (int i = 0; i < warm + replays && launched; ++i) {
    cudaEventRecord(begin, stream);
    for (int k = 0; k < at_once && launched; ++k) launched = graph->launch(stream);
    cudaEventRecord(end, stream);
    if (launched) launched = executable.finish();
    float milliseconds = 0;
    if (cudaEventSynchronize(end) == cudaSuccess) cudaEventElapsedTime(&milliseconds, begin, end);
    if (i >= warm) us.push_back(static_cast<double>(milliseconds) * 1e3 / at_once);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  if (!launched) return tl::make_unexpected(launched.error());
  return median(us);
}

}  // namespace tessera::unfused_attention
