// SPDX-License-Identifier: Apache-2.0
// bench_prompts <model> <tokens>[,...] <sequences> [<out.json> [<about.json>]]: how long prompts of random
// weights take to be read, with the token behind them: by steps of 64 tokens, and by passes of matrix
// products, with cuBLASLt's first guess of an algorithm ("guessed") and with the fastest; what they come to
// beside each other; and of a pass the time of each operator alone, captured, on rotating weights: its
// products by the algorithm that cuBLASLt guesses first and by its best one.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <tessera/report/json_text.hpp>

#include "bench/common/program.hpp"
#include "gpu/device_buffer.hpp"
#include "kernels/attention_sm90/attention.hpp"
#include "kernels/cublaslt/gemm.hpp"
#include "kernels/decode/device_memory.hpp"
#include "kernels/decode/device_weights.hpp"
#include "kernels/decode/hf_model.hpp"
#include "kernels/decode/pass_runs.hpp"
#include "kernels/norm_rope/norm.hpp"
#include "kernels/norm_rope/rope.hpp"
#include "kernels/swiglu/swiglu.hpp"
#include "src/bench/matrices.hpp"
#include "src/bench/timer.hpp"
#include "tessera/measure/statistics.hpp"

namespace {

using namespace tessera;
using bench::check;
using decode::Decoder;
using decode::Model;

constexpr int k_rounds = 7;
constexpr int k_sets = 4;  ///< of weights: a layer's are colder than the L2 then

template <class T>
T taken(Expected<T> outcome) {
  if (outcome) return std::move(*outcome);
  std::fprintf(stderr, "%s\n", to_text(outcome.error()).c_str());
  std::exit(1);
}
void done(Expected<void> const& outcome) {
  if (outcome) return;
  std::fprintf(stderr, "%s\n", to_text(outcome.error()).c_str());
  std::exit(1);
}

struct Arm {
  char const* name;
  int rows;
  bool times_products;
};
constexpr Arm k_arms[] = {{"steps", 64, false}, {"guessed", 2048, false}, {"passes", 2048, true}};

/// What prefill() takes, and the logits behind it.
struct Read {
  std::vector<double> us;
  std::vector<float> logits;
};
/// By all decoders in turns, each twice, of which the second is timed: at the power limit clocks depend on
/// what ran before.
std::vector<Read> read(std::vector<Decoder>& decoders, Model const& model, int tokens, int batch,
                       cudaStream_t stream) {
  std::vector<decode::Sequence> prompts(static_cast<std::size_t>(batch));
  for (int i = 0; i < batch; ++i)
    for (int p = 0; p < tokens; ++p)
      prompts[static_cast<std::size_t>(i)].tokens.push_back((i + 7 * p) % model.vocabulary);
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "cudaEventCreate"), check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<Read> result(decoders.size());
  for (int round = 0; round < k_rounds; ++round)
    for (std::size_t i = 0; i < decoders.size(); ++i) {
      auto& decoder = decoders[i];
      for (bool const timed : {false, true}) {
        done(decoder.begin(stream, prompts));
        check(cudaEventRecord(begin, stream), "cudaEventRecord");
        done(decoder.prefill(stream));
        check(cudaEventRecord(end, stream), "cudaEventRecord");
        check(cudaEventSynchronize(end), "cudaEventSynchronize");
        done(decoder.finish());
        float ms = 0;
        check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
        if (timed) result[i].us.push_back(1e3 * static_cast<double>(ms));
      }
    }
  check(cudaEventDestroy(begin), "cudaEventDestroy"), check(cudaEventDestroy(end), "cudaEventDestroy");
  for (std::size_t i = 0; i < decoders.size(); ++i) {
    result[i].logits.resize(decode::times(model.vocabulary, batch));
    check(cudaMemcpy(result[i].logits.data(), decoders[i].logits(), 4 * result[i].logits.size(),
                     cudaMemcpyDeviceToHost),
          "cudaMemcpy");
  }
  return result;
}

double apart(std::vector<float> const& a, std::vector<float> const& b) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    off += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    all += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(off / all);
}

/// Operators of a layer alone.
class Operators {
 public:
  Operators(Model const& model, int rows, int batch, cudaStream_t stream)
      : m(model),
        n(rows),
        sequences(batch),
        on(stream),
        timer(stream, k_sets, 2 * k_sets),
        widest(std::max({model.qkv_features(), model.mlp_rows() * model.intermediate, model.hidden})),
        x(decode::times(rows, widest)),
        y(decode::times(rows, widest)),
        residual(decode::times(rows, model.hidden)),
        turns(decode::times(rows, model.head_size / 2)),
        offsets(static_cast<std::size_t>(batch) + 1),
        weights(k_sets *
                decode::times(model.mlp_rows() * model.intermediate + model.qkv_features(), model.hidden)),
        workspace(cublaslt::workspace_bytes) {
    bench::fill_random(x.get(), x.size(), bench::ElementType::bf16, 1, 1, on);
    bench::fill_random(weights.get(), weights.size(), bench::ElementType::bf16, 2, 0.02f, on);
    std::vector<int> at;
    for (int i = 0; i <= batch; ++i) at.push_back(i * (rows / batch));
    offsets.upload(at);
  }

  void measure(JsonWriter& json) {
    double sum = 0;
    auto const say = [&](char const* name, double us, double best = 0) {
      sum += us;
      std::printf("    %-10s %8.2f us%s\n", name, us,
                  best > 0 ? ("  best " + std::to_string(best)).c_str() : "");
      json.begin_object().member("name", name).member("us", bench::with_digits(us, 5));
      if (best > 0) json.member("best_us", bench::with_digits(best, 5));
      json.end_object();
    };
    json.key("operators").begin_array();
    kernels::Norm norm;
    norm.x = residual.get(), norm.y = y.get(), norm.rows = n, norm.columns = m.hidden;
    double const of_norm = timer.quick([&](cudaStream_t s, int) { return kernels::norm(norm, s); }, k_rounds);
    say("norm", of_norm);
    product("qkv", m.qkv_features(), m.hidden, false, say);
    kernels::Heads heads;
    heads.qkv = x.get(), heads.turns = turns.get();
    heads.rows = n, heads.key_heads = m.kv_heads, heads.group = m.group(), heads.head_size = m.head_size;
    say("rotation",
        timer.quick([&](cudaStream_t s, int) { return turn_heads(heads, nullptr, n, s); }, k_rounds));
    say("attention", attention());
    product("out", m.hidden, m.attended(), true, say);
    say("norm", of_norm);
    product("gate_up", m.mlp_rows() * m.intermediate, m.hidden, false, say);
    say("activation", timer.quick(
                          [&](cudaStream_t s, int) {
                            return kernels::swiglu(x.get(), y.get(), n, m.intermediate,
                                                   gpu::ElementType::bf16, s);
                          },
                          k_rounds));
    product("down", m.hidden, m.intermediate, true, say);
    json.end_array().member("layers_us", bench::with_digits(sum * m.layers, 6));
    std::printf("    all of %d layers %.0f us\n", m.layers, sum * m.layers);
    check(timer.error(), "an operator alone");
  }

 private:
  double attention() {
    attention_sm90::Problem p;
    p.sequences = sequences, p.heads = m.heads, p.key_heads = m.kv_heads, p.head_size = m.head_size;
    p.query_rows = p.key_rows = n, p.longest_queries = n / sequences;
    p.query_offsets = p.key_offsets = offsets.get();
    p.causal = true;
    int const of_head = (m.group() + 2) * m.head_size;
    p.q = {m.qkv_features(), m.head_size, of_head};
    p.k = p.v = {m.qkv_features(), of_head, 0};
    auto const* const k = x.get() + m.group() * m.head_size;
    return timer.quick(
        [&, p](cudaStream_t s, int) {
          auto const ok = attention_sm90::attention(p, x.get(), k, k + m.head_size, y.get(), s);
          if (!ok) std::printf("%s\n", to_text(ok.error()).c_str());
          return ok ? cudaSuccess : cudaErrorLaunchFailure;
        },
        k_rounds);
  }
  template <class Say>
  void product(char const* name, int columns, int depth, bool adds, Say const& say) {
    auto const gemm = taken(cublaslt::LtGemm::make({n, columns, depth, gpu::ElementType::bf16, false, adds}));
    double first = 0, best = std::numeric_limits<double>::infinity();
    int tried = 0;
    for (auto const& algorithm : gemm->algorithms()) {
      double const us = timer.quick(
          [&](cudaStream_t s, int set) {
            auto const* const w =
                weights.get() + static_cast<std::size_t>(set) * decode::times(columns, depth);
            return adds ? gemm->run_adding(algorithm, x.get(), w, residual.get(), residual.get(),
                                           workspace.get(), workspace.size(), s)
                        : gemm->run(algorithm, x.get(), w, y.get(), workspace.get(), workspace.size(), s);
          },
          tried == 0 ? k_rounds : 3);
      if (tried++ == 0) first = us;
      best = std::min(best, us);
      if (tried == 12) break;
    }
    say(name, first, best);
  }

  Model m;
  int n, sequences;
  cudaStream_t on;
  bench::Timer timer;
  int widest;
  gpu::DeviceBuffer<unsigned short> x, y;
  gpu::DeviceBuffer<float> residual;
  gpu::DeviceBuffer<float2> turns;
  gpu::DeviceBuffer<int> offsets;
  gpu::DeviceBuffer<unsigned short> weights;
  gpu::DeviceBuffer<unsigned char> workspace;
};

std::vector<int> numbers_of(char const* text) {
  std::vector<int> result;
  while (*text != 0) {
    char* end = nullptr;
    auto const value = std::strtol(text, &end, 10);
    if (end == text || value < 1 || value > 32768 || (*end != ',' && *end != 0)) return {};
    result.push_back(static_cast<int>(value));
    text = *end == 0 ? end : end + 1;
  }
  return result;
}

}  // namespace

int main(int count, char** arguments) {
  auto const model = decode::model_of(count > 1 ? arguments[1] : "");
  auto const lengths = numbers_of(count > 2 ? arguments[2] : ""),
             batches = numbers_of(count > 3 ? arguments[3] : "");
  if (!model || lengths.empty() || batches.size() != 1 || batches.front() > decode::k_most_batch) {
    std::fprintf(stderr, "usage: %s <model> <tokens>[,...] <sequences> [<out.json> [<about.json>]]\n%s\n",
                 arguments[0], model ? "" : to_text(model.error()).c_str());
    return 2;
  }
  if (auto const why = gpu::why_no_hopper(); !why.empty()) {
    std::fputs(gpu::refusal_text(why).c_str(), stderr);
    return 3;
  }
  int const batch = batches.front();
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  auto weights = taken(decode::random_weights(*model, 1, stream));
  decode::Options options;
  options.batch = batch, options.keep_logits = true;
  options.capacity =
      std::min(*std::max_element(lengths.begin(), lengths.end()) + 1, decode::most_capacity(*model));
  std::vector<Decoder> arms;
  for (auto const& arm : k_arms) {
    options.prompt_rows = arm.rows, options.time_products = arm.times_products;
    arms.push_back(taken(arms.empty() ? Decoder::make(*model, weights.weights, options, stream)
                                      : arms.front().another(options, stream)));
  }
  weights.others.clear();
  JsonWriter json;
  json.begin_object().key("about").raw(bench::about(count > 5 ? arguments[5] : ""));
  json.member("model", model->name).member("sequences", batch).member("samples", k_rounds);
  json.member("unit", "microseconds, medians; apart: of logits, beside those of steps")
      .key("sizes")
      .begin_array();
  bool right = true;
  for (int const tokens : lengths) {
    json.begin_object().member("tokens", tokens).key("arms").begin_array();
    auto const all = read(arms, *model, tokens, batch, stream);
    for (std::size_t i = 0; i < arms.size(); ++i) {
      double const us = median(all[i].us), off = apart(all[i].logits, all.front().logits);
      right = right && off < 0.05;
      std::printf("%s, %d x %d tokens, %-7s %9.1f us, %6.2f a token, logits %.2e apart%s\n",
                  model->name.c_str(), batch, tokens, k_arms[i].name, us, us / tokens / batch, off,
                  off < 0.05 ? "" : ": WRONG");
      json.begin_object().member("name", k_arms[i].name).member("us", bench::with_digits(us, 6));
      json.member("apart", bench::with_digits(off, 3)).end_object();
      std::fflush(stdout);
    }
    json.end_array();
    int const rows = decode::rows_of_products(tokens * batch);
    if (rows % batch == 0 && rows <= 4096) Operators(*model, rows, batch, stream).measure(json);
    json.end_object();
    auto whole = json;
    if (count > 4 && !bench::write_file(arguments[4], whole.end_array().end_object().text() + '\n')) return 1;
    std::fflush(stdout);
  }
  return right ? 0 : 1;
}
