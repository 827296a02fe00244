// SPDX-License-Identifier: Apache-2.0
#include "candidates.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "kernels/common/refusal.hpp"

namespace tessera::mlp {
namespace {

using kernels::refusal;

using gemm_sm90::Mechanism;

constexpr char const* between_halves = " > ";
constexpr char const* before_overlap = "; ";
constexpr char const* second_early = "; pdl, early weights";

/// How the second kernel may start before the first is complete; empty for stream order.
std::string overlap_text(gemm_sm90::PairPlan const& plan) {
  if (plan.mechanism == Mechanism::stream_order) return "";
  std::string text = before_overlap;
  if (plan.mechanism == Mechanism::pdl)
    text += "pdl";
  else if (plan.columns_per_semaphore >= whole_row)
    text += "row";
  else
    text += fmt::format("{} tiles", plan.columns_per_semaphore);
  if (plan.early_weights) text += ", early weights";
  if (plan.chained) text += ", chained";
  return text;
}

bool read_overlap(std::string const& text, gemm_sm90::PairPlan& plan) {
  plan.early_weights = text.find(", early weights") != std::string::npos;
  plan.chained = text.find(", chained") != std::string::npos;
  std::string const mechanism = text.substr(2, text.find(',') - 2);
  plan.mechanism = mechanism == "pdl" ? Mechanism::pdl : Mechanism::pdl_tiles;
  if (mechanism == "row")
    plan.columns_per_semaphore = whole_row;
  else if (mechanism != "pdl" &&
           (std::sscanf(mechanism.c_str(), "%d tiles", &plan.columns_per_semaphore) != 1 ||
            plan.columns_per_semaphore < 1))
    return false;
  return overlap_text(plan) == text;
}

Expected<Candidate> unknown(Shape const& shape, std::string const& name) {
  return refusal("E0532",
                 fmt::format("no kernel here is \"{}\" and can do {} tokens of {} x {}", name, shape.tokens,
                             shape.model, shape.hidden),
                 "tune again with this version: tessera tune");
}

}  // namespace

Expected<void> check(Shape const& shape) {
  bool const right = shape.tokens >= 1 && shape.model >= 8 && shape.hidden >= 8 && shape.model % 8 == 0 &&
                     shape.hidden % 8 == 0 && shape.tokens <= 1 << 20 && shape.model <= 1 << 20 &&
                     shape.hidden <= 1 << 20;
  if (right) return {};
  return refusal("E0530",
                 fmt::format("an MLP of {} tokens, {} x {} is not for these kernels", shape.tokens,
                             shape.model, shape.hidden),
                 "pad the weights with zeros to a multiple of 8",
                 {"tokens are from 1 to 1048576; model and hidden sizes are multiples of 8 up to 1048576"});
}

Candidate stream_pair(Half const& first, Half const& second) {
  Candidate result;
  result.name = first.name + between_halves + second.name;
  bool const same = first.is_cublaslt() == second.is_cublaslt();
  result.source = !same ? Source::mixed : first.is_cublaslt() ? Source::cublaslt : Source::gemm_sm90;
  result.needs_gate_up = first.needs_gate_up;
  result.rounds_gate_up = first.rounds_gate_up;
  result.counter_words = first.counter_words + second.counter_words;
  result.launch = [one = first.launch, other = second.launch, words = first.counter_words](
                      Buffers const& b, Workspace const& workspace, cudaStream_t stream) {
    cudaError_t const error = one(b, workspace, stream);
    if (error != cudaSuccess) return error;
    Workspace rest = workspace;
    rest.counters += words;
    return other(b, rest, stream);
  };
  return result;
}

std::optional<Candidate> mixed_pair(Shape const& shape, Half const& first, Half const& second) {
  if (!first.is_cublaslt() || second.is_cublaslt()) return {};
  auto const early = tiled_half(shape, Which::second, second.tiles, true);
  if (!early) return {};
  auto result = stream_pair(first, *early);
  result.name += second_early;
  return result;
}

std::optional<Candidate> tiled_pair(Shape const& shape, gemm_sm90::PairPlan const& plan) {
  auto const first = tiled_half(shape, Which::first, plan.first);
  auto const second = tiled_half(shape, Which::second, plan.second);
  if (!first || !second) return {};
  Candidate result;
  result.name = first->name + between_halves + second->name + overlap_text(plan);
  result.source = Source::gemm_sm90;
  result.counter_words = gemm_sm90::counters_of(plan, pair_buffers(shape, {}, {}));
  result.launch = [shape, plan](Buffers const& b, Workspace const& workspace, cudaStream_t stream) {
    return gemm_sm90::launch_pair(plan, pair_buffers(shape, b, workspace), stream);
  };
  return result;
}

Expected<Candidate> find_candidate(Shape const& shape, std::string const& name) {
  if (auto const right = check(shape); !right) return tl::make_unexpected(right.error());
  auto const between = name.find(between_halves);
  if (between == std::string::npos) {
    if (auto one = find_single_launch(shape, name)) return std::move(*one);
    return unknown(shape, name);
  }
  auto const after_first = between + 3;
  auto const overlap_at = name.find(before_overlap, after_first);
  auto const first = find_half(shape, Which::first, name.substr(0, between));
  auto const second = find_half(shape, Which::second, name.substr(after_first, overlap_at - after_first));
  if (!first || !second) return unknown(shape, name);
  if (first->is_cublaslt() || second->is_cublaslt()) {
    if (overlap_at == std::string::npos) return stream_pair(*first, *second);
    auto mixed = mixed_pair(shape, *first, *second);
    if (mixed && mixed->name == name) return std::move(*mixed);
    return unknown(shape, name);
  }
  gemm_sm90::PairPlan plan{first->tiles, second->tiles, Mechanism::stream_order, 1, false, false};
  if (overlap_at != std::string::npos && !read_overlap(name.substr(overlap_at), plan))
    return unknown(shape, name);
  if (auto pair = tiled_pair(shape, plan)) return std::move(*pair);
  return unknown(shape, name);
}

Expected<Candidate> default_candidate(Shape const& shape) {
  if (auto const right = check(shape); !right) return tl::make_unexpected(right.error());
  auto const first = cublaslt_halves(shape, Which::first);
  if (!first) return tl::make_unexpected(first.error());
  auto const second = cublaslt_halves(shape, Which::second);
  if (!second) return tl::make_unexpected(second.error());
  return stream_pair(first->front(), second->front());
}

}  // namespace tessera::mlp
