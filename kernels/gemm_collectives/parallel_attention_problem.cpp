// SPDX-License-Identifier: Apache-2.0
#include "parallel_attention_problem.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "problem_refusal.hpp"

namespace tessera::gemm_collectives {
namespace {

/// So that no size below overflows.
constexpr int k_most_heads = 4096;

/// Groups of GPUs that share all heads evenly.
std::string fitting_groups(AttentionProblem const& problem) {
  std::vector<int> fitting;
  for (int ranks = 2; ranks <= k_most_ranks; ++ranks)
    if (problem.heads % ranks == 0 && problem.all_key_heads() % ranks == 0) fitting.push_back(ranks);
  if (fitting.empty()) return "pad with heads whose weights are zeros, of w_out too";
  return fmt::format("take a group of {} GPUs", fmt::join(fitting, " or "));
}

Expected<void> check_heads(AttentionProblem const& p) {
  if (p.ranks < 2 || p.ranks > k_most_ranks)
    return refused(p, fmt::format("attention on {} GPUs", p.ranks),
                   fmt::format("take a group of 2 to {} GPUs", k_most_ranks));
  if (p.heads < 1 || p.heads > k_most_heads || p.all_key_heads() < 1 || p.heads % p.all_key_heads() != 0)
    return refused(p, fmt::format("{} heads cannot share {} key heads evenly", p.heads, p.all_key_heads()),
                   fmt::format("let heads be 1 to {}, and a multiple of key_heads", k_most_heads));
  if (p.heads % p.ranks != 0)
    return refused(p, fmt::format("{} heads do not divide among {} GPUs", p.heads, p.ranks),
                   fitting_groups(p));
  if (p.all_key_heads() % p.ranks == 0) return {};
  auto way_out = fitting_groups(p);
  if (p.ranks % p.all_key_heads() == 0)
    way_out += fmt::format(", or repeat each key head and its value head in w_in {} times",
                           p.ranks / p.all_key_heads());
  return refused(p, fmt::format("{} key heads do not divide among {} GPUs", p.all_key_heads(), p.ranks),
                 std::move(way_out));
}

Expected<void> check_rows(AttentionProblem const& p) {
  if (p.longest < 0 || p.longest > p.tokens)
    return refused(p, fmt::format("a longest sequence of {} tokens among {}", p.longest, p.tokens),
                   fmt::format("give 1 to {}, or 0 for any", p.tokens));
  if (!p.ragged && p.longest != 0)
    return refused(p, "a longest sequence, and all are of one length", "let it be 0, or say ragged");
  if (p.turning != Turning::none && p.type != ElementType::bf16)
    return refused(p, "turned heads are bf16, and these are fp16", "take bf16, or Turning::none");
  return {};
}

}  // namespace

std::string to_string(AttentionProblem const& p) {
  return fmt::format(
      "tensor-parallel attention of {} tokens, {} columns, {} heads ({} of keys) of {}, on {} GPUs", p.tokens,
      p.model, p.heads, p.all_key_heads(), p.head_size, p.ranks);
}

Problem first_product(AttentionProblem const& p) {
  return {Collective::all_gather, p.tokens, p.ranks * p.local_columns(), p.model, p.type, p.ranks};
}

Problem second_product(AttentionProblem const& p) {
  return {p.rows == Tokens::whole ? Collective::all_reduce : Collective::reduce_scatter,
          p.tokens,
          p.model,
          p.heads * p.head_size,
          p.type,
          p.ranks};
}

attention_sm90::Problem local_attention(AttentionProblem const& p, int const* offsets) {
  long long const row = p.local_columns(), size = p.head_size, slots = p.group() + 2;
  attention_sm90::Problem a;
  a.type = p.type;
  a.sequences = p.sequences;
  a.heads = p.local_heads();
  a.key_heads = p.local_key_heads();
  a.head_size = p.head_size;
  a.query_rows = p.tokens;
  a.longest_queries = p.longest;
  a.query_offsets = a.key_offsets = p.ragged ? offsets : nullptr;
  a.causal = p.causal;
  a.window = p.window;
  a.scale = p.scale;
  a.q = {row, size, slots * size};
  a.k = a.v = {row, slots * size};
  return a;
}

long long first_key(AttentionProblem const& p) { return static_cast<long long>(p.group()) * p.head_size; }
long long first_value(AttentionProblem const& p) { return first_key(p) + p.head_size; }

Expected<void> check_problem(AttentionProblem const& problem) {
  if (auto fine = check_heads(problem); !fine) return fine;
  // Nothing is read there.
  static constexpr int k_somewhere = 0;
  if (auto fine = attention_sm90::check(local_attention(problem, &k_somewhere)); !fine) return fine;
  if (auto fine = check_problem(first_product(problem)); !fine) return fine;
  if (auto fine = check_problem(second_product(problem)); !fine) return fine;
  return check_rows(problem);
}

std::vector<int> rows_of_rank(AttentionProblem const& p, int rank) {
  std::vector<int> rows;
  auto const add = [&](int head) {
    for (int i = 0; i < p.head_size; ++i) rows.push_back(head * p.head_size + i);
  };
  int const first = rank * p.local_key_heads();
  for (int key = first; key < first + p.local_key_heads(); ++key) {
    for (int i = 0; i < p.group(); ++i) add(key * p.group() + i);
    add(p.heads + key);
    add(p.heads + p.all_key_heads() + key);
  }
  return rows;
}

}  // namespace tessera::gemm_collectives
