// SPDX-License-Identifier: Apache-2.0
#include "candidates.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "refusal.hpp"

namespace tessera::mlp {
namespace {

constexpr char const* between_halves = " > ";
constexpr char const* before_overlap = "; ";

std::string to_text(Overlap const& overlap) {
  std::string const weights = overlap.early_weights ? ", early weights" : "";
  if (overlap.mechanism == gemm_sm90::Mechanism::pdl) return "pdl" + weights;
  if (overlap.tiles_per_semaphore == whole_row) return "row" + weights;
  return fmt::format("{} tiles", overlap.tiles_per_semaphore) + weights;
}

std::optional<Overlap> overlap_of(std::string text) {
  Overlap overlap;
  auto const comma = text.find(',');
  overlap.early_weights = comma != std::string::npos;
  std::string const mechanism = text.substr(0, comma);
  if (mechanism != "pdl") {
    overlap.mechanism = gemm_sm90::Mechanism::pdl_tiles;
    overlap.tiles_per_semaphore = whole_row;
    if (mechanism != "row" &&
        (std::sscanf(mechanism.c_str(), "%d tiles", &overlap.tiles_per_semaphore) != 1 ||
         overlap.tiles_per_semaphore < 1))
      return {};
  }
  return to_text(overlap) == text ? std::optional(overlap) : std::nullopt;
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
  result.launch = [one = first.launch, other = second.launch](Buffers const& b, Workspace const& workspace,
                                                              cudaStream_t stream) {
    cudaError_t const error = one(b, workspace, stream);
    return error != cudaSuccess ? error : other(b, workspace, stream);
  };
  return result;
}

Candidate overlapped_pair(Shape const& shape, Half const& first, Half const& second, Overlap const& overlap) {
  gemm_sm90::PairPlan const plan{first.tiles, second.tiles, overlap.mechanism, overlap.tiles_per_semaphore,
                                 overlap.early_weights};
  Candidate result;
  result.name = first.name + between_halves + second.name + before_overlap + to_text(overlap);
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
    for (auto& one : single_launches(shape))
      if (one.name == name) return std::move(one);
    return unknown(shape, name);
  }
  auto const after_first = between + 3;
  auto const overlap_at = name.find(before_overlap, after_first);
  auto const first = find_half(shape, Which::first, name.substr(0, between));
  auto const second = find_half(shape, Which::second, name.substr(after_first, overlap_at - after_first));
  if (!first || !second) return unknown(shape, name);
  if (overlap_at == std::string::npos) return stream_pair(*first, *second);
  auto const overlap = overlap_of(name.substr(overlap_at + 2));
  if (!overlap || first->is_cublaslt() || second->is_cublaslt()) return unknown(shape, name);
  return overlapped_pair(shape, *first, *second, *overlap);
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
