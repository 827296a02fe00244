// SPDX-License-Identifier: Apache-2.0
#include "parallel_attention.hpp"

#include "kernels/attention_sm90/attention.hpp"
#include "kernels/common/refusal.hpp"
#include "kernels/norm_rope/rope.hpp"
#include "operand_memory.hpp"
#include "refused.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/relaxed_capture.hpp"

namespace tessera::gemm_collectives {
namespace {

using kernels::refusal;

void turn(AttentionProblem const& problem, void* qkv, float2 const* turns, int const* positions, int length,
          cudaStream_t stream) {
  kernels::Heads heads;
  heads.qkv = qkv;
  heads.turns = turns;
  heads.rows = problem.tokens;
  heads.key_heads = problem.local_key_heads();
  heads.group = problem.group();
  heads.head_size = problem.head_size;
  heads.interleaved = problem.turning == Turning::neighbours;
  gpu::ok(kernels::turn_heads(heads, positions, length, stream));
}

void attend(AttentionProblem const& problem, void* qkv, void* out, int const* offsets, cudaStream_t stream) {
  auto const* const q = static_cast<unsigned short const*>(qkv);
  must(attention_sm90::attention(local_attention(problem, offsets), q, q + first_key(problem),
                                 q + first_value(problem), out, stream));
}

}  // namespace

Expected<TensorParallelAttention> TensorParallelAttention::make(std::shared_ptr<PeerGroup> group,
                                                                AttentionProblem problem,
                                                                AttentionOptions const& options) {
  problem.ranks = group->size();
  if (auto fine = check_problem(problem); !fine) return tl::make_unexpected(fine.error());
  gpu::RelaxedCapture const relaxed;
  auto const turns = PeerMemory::make(group, sizeof(float2) * static_cast<std::size_t>(problem.head_size / 2),
                                      Reached::by_its_rank);
  if (!turns) return tl::make_unexpected(turns.error());
  // Loads kernels; what they compute is read by nobody.
  auto const warm_up = [&](int rank, void* qkv, void*, cudaStream_t stream) {
    auto one_length = problem;
    one_length.ragged = false;
    one_length.sequences = 1;
    one_length.longest = 0;
    must(attention_sm90::prepare(local_attention(one_length, nullptr)));
    if (problem.turning == Turning::none) return;
    turn(problem, qkv, static_cast<float2 const*>(turns->at(rank)), nullptr, 1, stream);
  };
  PairShape const shape{first_product(problem), second_product(problem), problem.rows, false,
                        to_string(problem),     {"w_in", "w_out"}};
  auto pair = ProductPair::make(group, shape, options, warm_up);
  if (!pair) return tl::make_unexpected(pair.error());
  return TensorParallelAttention(std::move(group), problem, std::move(*pair));
}

Expected<void> TensorParallelAttention::check(std::vector<AttentionOperands> const& operands) const {
  bool const turned = problem_.turning != Turning::none;
  for (int const rank : group_->here()) {
    if (static_cast<std::size_t>(rank) >= operands.size())
      break;  // The products say how many there should be.
    auto const& mine = operands[static_cast<std::size_t>(rank)];
    struct Named {
      char const* name;
      void const* memory;
      bool needed;
      std::uintptr_t aligned;
    };
    for (auto const& [name, memory, needed, aligned] :
         {Named{"turns", turned ? mine.turns : nullptr, turned, 16},
          Named{"positions", turned ? mine.positions : nullptr, turned && problem_.ragged, 4},
          Named{"offsets", problem_.ragged ? mine.offsets : nullptr, problem_.ragged, 4}}) {
      if (memory == nullptr && !needed) continue;
      if (memory == nullptr || reinterpret_cast<std::uintptr_t>(memory) % aligned != 0)
        return refusal("E0581",
                       std::string(name) + " of rank " + std::to_string(rank) + " is missing or not " +
                           std::to_string(aligned) + "-byte aligned",
                       "give turns where heads are turned, offsets where sequences are ragged, and positions "
                       "where both are, in the memory of its GPU",
                       {to_string(problem_)});
      if (auto fine = check_memory(*group_, rank, name, memory, false, to_string(problem_)); !fine)
        return fine;
    }
  }
  return {};
}

Expected<void> TensorParallelAttention::run(std::vector<AttentionOperands> const& operands,
                                            std::vector<cudaStream_t> const& streams) {
  try {
    gpu::RelaxedCapture const relaxed;
    if (auto fine = check(operands); !fine) return fine;
  } catch (std::exception const& error) {
    return failed(error);
  }
  std::vector<PairOperands> of_products;
  for (auto const& one : operands) of_products.push_back({one.x, one.w_in, one.w_out, one.y});
  return pair_.run(of_products, streams, [&](int rank, void* qkv, void* out, cudaStream_t stream) {
    auto const& mine = operands[static_cast<std::size_t>(rank)];
    if (problem_.turning != Turning::none)
      turn(problem_, qkv, mine.turns, mine.positions, problem_.tokens / problem_.sequences, stream);
    attend(problem_, qkv, out, mine.offsets, stream);
  });
}
Expected<void> TensorParallelAttention::finish() { return pair_.finish(); }
Expected<void> TensorParallelAttention::finish_own() { return pair_.finish_own(); }
Expected<void> TensorParallelAttention::hear_of_others() const { return pair_.hear_of_others(); }
AttentionProblem const& TensorParallelAttention::problem() const { return problem_; }
std::string TensorParallelAttention::name() const { return pair_.name(); }

}  // namespace tessera::gemm_collectives
