// SPDX-License-Identifier: Apache-2.0
#include "peer_candidates.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/mlp/peers.hpp"
#include "kernels/mlp/gated.hpp"
#include "kernels/mlp/halves.hpp"

namespace tessera::bench {
namespace {

using gemm_sm90::Activation;
using mlp::Buffers;
using mlp::Candidate;
using mlp::Form;
using mlp::Shape;
using mlp::Workspace;

struct Half {
  gemm_sm90::Kernel const* kernel = nullptr;
  int band = 0;
  int blocks = 0;
  double time = 0;

  std::string name() const { return fmt::format("{} band {} blocks {}", kernel->info.name, band, blocks); }
};

cudaError_t launch_first(Shape const& shape, Half const& half, Buffers const& b, Workspace const& workspace,
                         cudaStream_t stream) {
  bool const gated = shape.form == Form::swiglu;
  gemm_sm90::Call call;
  call.problem = {shape.tokens,
                  gated ? 2 * shape.hidden : shape.hidden,
                  shape.model,
                  b.x,
                  b.w1,
                  gated ? workspace.gate_up : b.h,
                  gated ? Activation::none : Activation::gelu};
  call.band = half.band;
  call.most_blocks = half.blocks;
  cudaError_t const error = half.kernel->launch(call, stream);
  if (error != cudaSuccess || !gated) return error;
  return mlp::swiglu(workspace.gate_up, b.h, shape.tokens, shape.hidden, shape.type, stream);
}

cudaError_t launch_second(Shape const& shape, Half const& half, Buffers const& b, bool programmatic,
                          cudaStream_t stream) {
  gemm_sm90::Call call;
  call.problem = {shape.tokens, shape.model, shape.hidden, b.h, b.w2, b.y, Activation::none};
  call.band = half.band;
  call.most_blocks = half.blocks;
  call.programmatic = programmatic;
  return half.kernel->launch(call, stream);
}

template <class Launch>
std::vector<Half> fastest(mlp::Arena& arena, Timer& timer, std::size_t count, mlp::Progress const& progress,
                          Launch const& launch) {
  std::vector<Half> all;
  for (auto const& kernel : stock_kernels())
    for (int const band : {1, 0})
      for (int const blocks : {0, mlp::multiprocessors()}) {
        Half half{&kernel, band, blocks, 0};
        Candidate alone;
        alone.launch = [&](Buffers const& b, Workspace const& workspace, cudaStream_t stream) {
          return launch(half, b, workspace, stream);
        };
        if (progress) progress("CUTLASS " + half.name(), {});
        half.time = timer.quick(arena.work(alone), 2);
        if (progress) progress("CUTLASS " + half.name(), half.time);
        all.push_back(half);
      }
  std::stable_sort(all.begin(), all.end(), [](Half const& a, Half const& b) { return a.time < b.time; });
  if (all.size() > count) all.resize(count);
  return all;
}

Candidate pair(Shape const& shape, Half const& first, Half const& second, bool programmatic) {
  Candidate result;
  result.name =
      "CUTLASS " + first.name() + " > CUTLASS " + second.name() + (programmatic ? "; with PDL" : "");
  result.source = mlp::Source::mixed;
  result.rounds_gate_up = shape.form == Form::swiglu;
  result.launch = [=](Buffers const& b, Workspace const& workspace, cudaStream_t stream) {
    cudaError_t const error = launch_first(shape, first, b, workspace, stream);
    return error != cudaSuccess ? error : launch_second(shape, second, b, programmatic, stream);
  };
  return result;
}

}  // namespace

std::vector<Contender> peer_candidates(mlp::Arena& arena, Timer& timer, Shape const& shape,
                                       mlp::Progress const& progress) {
  std::vector<Contender> result;
  if (shape.type != mlp::ElementType::bf16) return result;
  constexpr std::size_t tops = 4, kept = 3;
  auto const firsts = fastest(arena, timer, tops, progress,
                              [&](Half const& half, Buffers const& b, Workspace const& w, cudaStream_t s) {
                                return launch_first(shape, half, b, w, s);
                              });
  auto const seconds = fastest(arena, timer, tops, progress,
                               [&](Half const& half, Buffers const& b, Workspace const&, cudaStream_t s) {
                                 return launch_second(shape, half, b, false, s);
                               });
  for (bool const pdl : {false, true}) {
    std::vector<std::pair<double, Candidate>> pairs;
    for (auto const& first : firsts)
      for (auto const& second : seconds) {
        auto candidate = pair(shape, first, second, pdl);
        if (progress) progress(candidate.name, {});
        double const time = timer.quick(arena.work(candidate), 2);
        if (progress) progress(candidate.name, time);
        pairs.push_back({time, std::move(candidate)});
      }
    std::stable_sort(pairs.begin(), pairs.end(),
                     [](auto const& a, auto const& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < std::min(kept, pairs.size()); ++i)
      result.push_back({pdl ? "CUTLASS + PDL" : "CUTLASS", false, std::move(pairs[i].second)});
  }
  // Its workspace is allocated when a size runs for the first time, which a capture would not allow.
  static gemm_sm90::Kernel const stream_k = stock_stream_k();
  Half const whole{&stream_k, 1, 0, 0};
  auto candidate = pair(shape, whole, whole, false);
  candidate.name = "CUTLASS Stream-K > CUTLASS Stream-K";
  bool right = true;
  if (progress) progress(candidate.name, {});
  auto const work = arena.work(candidate);
  for (int set = 0; set < arena.sets(); ++set) right = right && work(arena.stream(), set) == cudaSuccess;
  if (cudaStreamSynchronize(arena.stream()) == cudaSuccess && right)
    result.push_back({"CUTLASS Stream-K", false, std::move(candidate)});
  return result;
}

}  // namespace tessera::bench
