// SPDX-License-Identifier: Apache-2.0
// bench_gemm_pairs <gpt3|llama> <tokens>...: both GEMMs of an MLP with every candidate of kernels/gemm_sm90,
// with cuBLASLt, and with one half of each: where synchronization, shapes and the fused gate win, and where
// not.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "bench/mlp/peers.hpp"
#include "bench/mlp/timing.hpp"
#include "kernels/gemm_sm90/candidates.hpp"
#include "kernels/gemm_sm90/device_data.hpp"
#include "kernels/mlp/gated.hpp"

namespace {

using namespace tessera;
using namespace tessera::bench;
using namespace tessera::gemm_sm90;

constexpr int sets = 4;
constexpr int multiprocessors = 132;
constexpr long long counter_words = 16 << 20;

struct Model {
  char const* name;
  int model;
  int hidden;
  mlp::Form form;
};
constexpr Model models[] = {{"gpt3", 12288, 6144, mlp::Form::gelu}, {"llama", 8192, 2752, mlp::Form::swiglu}};

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return memory;
}

struct Arena {
  PairBuffers set[sets];
  void* wide[sets];  // cuBLAS's sums before the gate
  unsigned long long* counters;
  long long used = 0;
};

Arena make_arena(Model const& model, int tokens, cudaStream_t stream) {
  Arena arena{};
  std::size_t const rows = static_cast<std::size_t>(tokens);
  int const halves = model.form == mlp::Form::swiglu ? 2 : 1;
  auto random = [&](std::size_t count, int seed, double deviation) {
    void* const memory = allocate(count * 2);
    fill_random(memory, count, static_cast<unsigned>(seed), static_cast<float>(deviation), stream);
    return memory;
  };
  for (int i = 0; i < sets; ++i) {
    PairBuffers& b = arena.set[i];
    b.tokens = tokens;
    b.model = model.model;
    b.hidden = model.hidden;
    b.form = model.form;
    b.x = random(rows * model.model, 10 + i, 1);
    b.w1 = random(std::size_t(model.model) * model.hidden * halves, 20 + i, 1 / std::sqrt(model.model));
    b.w2 = random(std::size_t(model.model) * model.hidden, 30 + i, 1 / std::sqrt(model.hidden));
    b.h = allocate(rows * model.hidden * 2);
    b.y = allocate(rows * model.model * 2);
    b.stall = static_cast<StallRecord*>(allocate(sizeof(StallRecord)));
    check(cudaMemset(b.stall, 0, sizeof(StallRecord)), "cudaMemset");
    arena.wide[i] = allocate(rows * model.hidden * halves * 2);
  }
  arena.counters = static_cast<unsigned long long*>(allocate(counter_words * 8));
  check(cudaMemset(arena.counters, 0, counter_words * 8), "cudaMemset");
  return arena;
}

void release(Arena& arena) {
  for (int i = 0; i < sets; ++i) {
    PairBuffers const& b = arena.set[i];
    for (void const* one : {b.x, b.w1, b.w2, static_cast<void const*>(b.h), static_cast<void const*>(b.y),
                            static_cast<void const*>(b.stall), static_cast<void const*>(arena.wide[i])})
      cudaFree(const_cast<void*>(one));
  }
  cudaFree(arena.counters);
}

std::string text(Half const& half) {
  return std::string(half.kernel->info.name) + "/" + std::to_string(half.band) +
         (half.most_blocks > 0 ? "p" : "");
}

Variant own(Arena& arena, PairPlan const& plan) {
  long long const words = (counters_of(plan, arena.set[0]) + 15) / 16 * 16;
  if (arena.used + words * sets > counter_words) arena.used = 0;  // long ago and far away
  auto* const counters = arena.counters + arena.used;
  arena.used += words * sets;
  char const* const name = plan.mechanism == Mechanism::stream_order ? "tessera stream"
                           : plan.mechanism == Mechanism::pdl        ? "tessera pdl"
                           : plan.columns_per_semaphore == 1         ? "tessera tile"
                                                                     : "tessera row";
  return {name, text(plan.first) + " > " + text(plan.second),
          [&arena, plan, counters, words](cudaStream_t on, int set) {
            auto buffers = arena.set[set];
            buffers.counters = counters + words * set;
            return launch_pair(plan, buffers, on);
          }};
}

// One GEMM by somebody, in stream order.
struct Part {
  std::string name;
  std::function<cudaError_t(cudaStream_t, int set)> work;
  bool library;
};

std::vector<Part> fastest(std::vector<Part> const& parts, Timer& timer, std::size_t most) {
  std::vector<std::pair<double, std::size_t>> ranked;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Variant variant{"", "", parts[i].work};
    ranked.push_back({timer.quick(variant, 2), i});
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<Part> result;
  for (std::size_t i = 0; i < std::min(most, ranked.size()); ++i) result.push_back(parts[ranked[i].second]);
  return result;
}

std::vector<Part> library_parts(Arena& arena, bool first) {
  PairBuffers const& b = arena.set[0];
  bool const gated = b.form == mlp::Form::swiglu;
  auto const gemm =
      first ? std::make_shared<CublasGemm>(b.tokens, gated ? 2 * b.hidden : b.hidden, b.model, !gated)
            : std::make_shared<CublasGemm>(b.tokens, b.model, b.hidden, false);
  std::vector<Part> result;
  for (int i = 0; i < gemm->algorithms(); ++i)
    result.push_back({"cublasLt " + gemm->describe(i),
                      [&arena, gemm, i, first, gated](cudaStream_t on, int set) {
                        PairBuffers const& s = arena.set[set];
                        if (!first) return gemm->run(i, s.h, s.w2, s.y, on);
                        cudaError_t const error = gemm->run(i, s.x, s.w1, gated ? arena.wide[set] : s.h, on);
                        if (error != cudaSuccess || !gated) return error;
                        return mlp::swiglu(arena.wide[set], s.h, s.tokens, s.hidden, s.type, on);
                      },
                      true});
  return result;
}

std::vector<Part> own_parts(Arena& arena, mlp::Shape const& shape, bool first) {
  std::vector<Part> result;
  for (Half const& half : half_candidates(shape, first, multiprocessors)) {
    result.push_back({text(half),
                      [&arena, half, first](cudaStream_t on, int set) {
                        PairPlan plan;
                        (first ? plan.first : plan.second) = half;
                        auto const calls = calls_of(plan, arena.set[set]);
                        return half.kernel->launch(first ? calls.first : calls.second, on);
                      },
                      false});
  }
  return result;
}

// Against the same from cuBLASLt; every element is written.
bool right(Arena const& arena, Variant const& variant, std::vector<float*> const& y, cudaStream_t stream) {
  for (int set = 0; set < sets; ++set) {
    PairBuffers const& b = arena.set[set];
    std::size_t const h_count = std::size_t(b.tokens) * b.hidden;
    std::size_t const y_count = std::size_t(b.tokens) * b.model;
    poison(b.h, h_count, stream);
    poison(b.y, y_count, stream);
    if (variant.work(stream, set) != cudaSuccess) return false;
    double const error = relative_error(b.y, y[set], y_count, stream);
    StallRecord stall;
    check(cudaMemcpy(&stall, b.stall, sizeof stall, cudaMemcpyDeviceToHost), "stall record");
    // Both round h.
    if (!(error <= 4e-3) || stall.state != 0) {
      std::printf("WRONG %s %s: %g\n", variant.name.c_str(), variant.detail.c_str(), error);
      return false;
    }
  }
  return true;
}

void measure(Model const& model, int tokens, std::ostream& out, cudaStream_t stream) {
  Arena arena = make_arena(model, tokens, stream);
  mlp::Shape const shape{tokens, model.model, model.hidden, model.form, ElementType::bf16};
  Timer timer(stream, sets, tokens < 1024 ? 8 : 4);
  std::vector<float*> y;
  float* sums = static_cast<float*>(allocate(std::size_t(tokens) * model.hidden * 2 * 4));
  float* h = static_cast<float*>(allocate(std::size_t(tokens) * model.hidden * 4));
  for (PairBuffers const& b : arena.set) {
    y.push_back(static_cast<float*>(allocate(std::size_t(tokens) * model.model * 4)));
    bool const gated = model.form == mlp::Form::swiglu;
    reference_gemm(b.x, b.w1, gated ? sums : h, tokens, gated ? 2 * b.hidden : b.hidden, b.model, !gated,
                   stream);
    if (gated) reference_gate(sums, h, std::size_t(tokens) * b.hidden, stream);
    round_to(ElementType::bf16, h, b.h, std::size_t(tokens) * b.hidden, stream);
    reference_gemm(b.h, b.w2, y.back(), tokens, b.model, b.hidden, false, stream);
  }
  std::vector<std::pair<double, Variant>> all;
  auto add = [&](Variant variant) {
    double const time = timer.quick(variant, 2);
    if (std::isfinite(time)) all.emplace_back(time, std::move(variant));
  };
  auto const parts = [&](bool first) {
    auto result = fastest(library_parts(arena, first), timer, 3);
    for (Part& one : fastest(own_parts(arena, shape, first), timer, 3)) result.push_back(std::move(one));
    return result;
  };
  auto const firsts = parts(true);
  auto const seconds = parts(false);
  for (Part const& first : firsts)
    for (Part const& second : seconds) {
      char const* const name =
          first.library == second.library ? first.library ? "cublasLt" : "tessera stream" : "mixed";
      add({name, first.name + " > " + second.name, [first, second](cudaStream_t on, int set) {
             cudaError_t const error = first.work(on, set);
             return error != cudaSuccess ? error : second.work(on, set);
           }});
    }
  auto const plans = candidates(shape, multiprocessors);
  for (PairPlan const& plan : plans) add(own(arena, plan));
  std::stable_sort(all.begin(), all.end(), [](auto const& a, auto const& b) { return a.first < b.first; });
  std::vector<Variant*> finals;
  for (char const* name :
       {"cublasLt", "mixed", "tessera stream", "tessera pdl", "tessera row", "tessera tile"}) {
    int count = 0;
    for (auto& one : all)
      if (one.second.name == name && count < 3 && right(arena, one.second, y, stream) &&
          timer.capture(one.second)) {
        finals.push_back(&one.second);
        ++count;
      }
  }
  timer.rounds(finals, 3);
  for (Variant* one : finals) one->samples.clear();
  timer.rounds(finals, 21);
  struct Row {
    double hot, cool;
  };
  std::vector<Row> rows(finals.size());
  for (std::size_t i = 0; i < finals.size(); ++i) {
    rows[i].hot = median(finals[i]->samples);
    finals[i]->samples.clear();
  }
  timer.rounds(finals, 5, 8);
  std::printf("%s %d tokens, %zu variants tried\n", model.name, tokens, all.size());
  out << "    {\"tokens\": " << tokens << ", \"variants_tried\": " << all.size() << ", \"variants\": [";
  Row library{1e9, 1e9};
  Row best{1e9, 1e9};
  for (std::size_t i = 0; i < finals.size(); ++i) {
    rows[i].cool = median(finals[i]->samples);
    Row& least = finals[i]->name == "cublasLt" ? library : best;
    least.hot = std::min(least.hot, rows[i].hot);
    least.cool = std::min(least.cool, rows[i].cool);
    std::printf("  %-15s hot %8.2f cool %8.2f  %s\n", finals[i]->name.c_str(), rows[i].hot, rows[i].cool,
                finals[i]->detail.c_str());
    out << (i == 0 ? "" : ",") << "\n      {\"variant\": \"" << finals[i]->name << "\", \"kernels\": \""
        << finals[i]->detail << "\", \"hot_us\": " << rows[i].hot << ", \"cool_us\": " << rows[i].cool << "}";
    timer.release(*finals[i]);
  }
  out << "],\n      \"cublaslt_over_best_hot\": " << library.hot / best.hot
      << ", \"cublaslt_over_best_cool\": " << library.cool / best.cool << "}";
  std::printf("  RATIO %s %d hot %.3f cool %.3f\n", model.name, tokens, library.hot / best.hot,
              library.cool / best.cool);
  std::fflush(stdout);
  for (float* one : y) cudaFree(one);
  cudaFree(sums);
  cudaFree(h);
  release(arena);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) {
    std::fprintf(stderr, "usage: %s <out.json> <about.json> <gpt3|llama> <tokens>...\n", arguments[0]);
    return 2;
  }
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  for (Kernel const& kernel : kernels()) check(prepare(kernel), kernel.info.name);
  std::stringstream about;
  about << std::ifstream(arguments[2]).rdbuf();
  std::ofstream out(arguments[1]);
  out << "{\n  \"about\": " << (about.str().empty() ? "{}" : about.str()) << ",\n  \"model\": \""
      << arguments[3] << "\",\n  \"unit\": \"microseconds for one MLP; medians\",\n  \"sizes\": [\n";
  for (Model const& model : models)
    for (int i = 4; i < count && std::strcmp(model.name, arguments[3]) == 0; ++i) {
      measure(model, std::atoi(arguments[i]), out, stream);
      out << (i + 1 < count ? ",\n" : "\n");
    }
  out << "  ]\n}\n";
  return 0;
}
