// SPDX-License-Identifier: Apache-2.0
// Schedules over ranks: proven as they are made, and refused with the reason where something is missing.
#include "kernels/gemm_collectives/schedule_proof.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

namespace tessera::gemm_collectives {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refusal(Problem const& problem, Way way, int parts = 1, ProofOptions const& options = {}) {
  auto const proof = prove(problem, way, parts, options);
  return proof ? "" : to_text(proof.error());
}

std::vector<std::vector<Step>> all_steps(Problem const& problem, Way way, int parts = 1) {
  std::vector<std::vector<Step>> all;
  for (int rank = 0; rank < problem.ranks; ++rank) all.push_back(steps_of(problem, way, parts, rank));
  return all;
}

/// Without the steps of a kind, on all ranks.
std::string without(Act act, Problem const& problem, Way way, int parts = 1) {
  ProofOptions options;
  options.steps = all_steps(problem, way, parts);
  std::size_t erased = 0;
  for (auto& one : options.steps)
    erased += std::erase_if(one, [&](Step const& step) { return step.act == act; });
  EXPECT_GT(erased, 0u);
  return refusal(problem, way, parts, options);
}

TEST(ScheduleProof, EveryWayIsProvenOnAnyNumberOfRanks) {
  for (int const ranks : {2, 3, 4, 8})
    for (auto const collective : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather})
      for (int const rows : {1, 5, 31, 1000, 3001}) {
        int const spread = 8 * ranks * 64;
        Problem const problem{collective, rows, spread, spread, ElementType::bf16, ranks};
        for (auto const way : ways_of(problem)) {
          if (way == Way::sequential) continue;
          for (int const parts : {1, 2, 4}) {
            if (parts > 1 && way != Way::add) continue;
            auto const proof = prove(problem, way, parts);
            ASSERT_TRUE(proof) << to_text(proof.error());
            EXPECT_GT(proof->dependences, 0);
            EXPECT_GT(proof->waits, 0);
          }
        }
      }
}

TEST(ScheduleProof, SaysWhatItRestsOn) {
  auto const proof = prove({Collective::all_reduce, 2048, 8192, 8192}, Way::add, 2);
  ASSERT_TRUE(proof) << to_text(proof.error());
  EXPECT_EQ(proof->text,
            "3 launches of 2 ranks: 216 begins and ends go in no circle; 24 kernels wait for peers, and "
            "leave 130 of "
            "132 SMs or more to the 42 that may have to begin beside them; 5408 pairs of tiles are in order");
}

TEST(ScheduleProof, EachStepIsNeeded) {
  Problem const sums{Collective::reduce_scatter, 1000, 1024, 1024};
  Problem const all_sums{Collective::all_reduce, 1000, 1024, 1024};
  Problem const gathers{Collective::all_gather, 1000, 1024, 1024, ElementType::bf16, 4};
  // A word that nobody tells.
  EXPECT_THAT(without(Act::tell, gathers, Way::copy), HasSubstr("waits for something that waits for it"));
  EXPECT_THAT(without(Act::tell, sums, Way::add, 2), HasSubstr("waits for something that waits for it"));
  // What has not come is multiplied, or added.
  EXPECT_THAT(without(Act::await, gathers, Way::copy), HasSubstr("nothing keeps"));
  EXPECT_THAT(without(Act::await, sums, Way::add, 2),
              AllOf(HasSubstr("error E0302: sum("), HasSubstr("nothing keeps")));
  // What a peer still reads is overwritten.
  EXPECT_THAT(without(Act::begin, gathers, Way::copy), AllOf(HasSubstr("send("), HasSubstr("nothing keeps")));
  EXPECT_THAT(without(Act::begin, sums, Way::add, 2), AllOf(HasSubstr("send("), HasSubstr("nothing keeps")));
  // The next launch begins while a peer still stores into the result of this one.
  EXPECT_THAT(without(Act::finish, all_sums, Way::add, 2), HasSubstr("nothing keeps"));
  // A copy of what is not computed yet, or that nobody waits for, or that is not there.
  EXPECT_THAT(without(Act::fork, sums, Way::copy), HasSubstr("nothing keeps"));
  EXPECT_THAT(without(Act::join, sums, Way::copy), HasSubstr("nothing keeps"));
  EXPECT_THAT(without(Act::copy, sums, Way::copy), HasSubstr("no step does send("));
  EXPECT_THAT(without(Act::multiply, sums, Way::store), HasSubstr("no step does product("));
  EXPECT_THAT(without(Act::sum_shard, sums, Way::store), HasSubstr("no step does sum("));
}

/// What launches of a product alone do not need. The end of an all-reduce that adds is the begin of the next
/// one; behind an all-gather it is the caller who may write `a`, which is still being sent.
bool is_for_others(Collective collective, Act act) {
  return (collective == Collective::all_reduce && act == Act::begin) ||
         (collective == Collective::all_gather && act == Act::join);
}

TEST(ScheduleProof, EveryKindOfStepOfEveryWayIsNeeded) {
  int pairs = 0;
  for (int const ranks : {2, 4})
    for (auto const collective : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather})
      for (int const rows : {5, 1000}) {
        Problem const problem{collective, rows, 1024, 1024, ElementType::bf16, ranks};
        for (auto const way : ways_of(problem)) {
          if (way == Way::sequential) continue;
          std::set<Act> acts;
          for (auto const& step : steps_of(problem, way, 1, 0)) acts.insert(step.act);
          for (auto const act : acts) {
            ++pairs;
            EXPECT_EQ(without(act, problem, way).empty(), is_for_others(collective, act))
                << to_string(problem) << ", " << to_string(way) << " without " << to_string(Step{act});
          }
        }
      }
  EXPECT_GE(pairs, 60);
}

TEST(ScheduleProof, AWordBeforeItsCopyIsTooEarly) {
  Problem const problem{Collective::all_gather, 1000, 1024, 1024};
  ProofOptions options;
  options.steps = all_steps(problem, Way::copy);
  auto& steps = options.steps[1];
  auto const copy =
      std::find_if(steps.begin(), steps.end(), [](auto const& one) { return one.act == Act::copy; });
  ASSERT_EQ((copy + 1)->act, Act::tell);
  std::iter_swap(copy, copy + 1);
  EXPECT_THAT(refusal(problem, Way::copy, 1, options),
              AllOf(HasSubstr("product(0, 1, "), HasSubstr("nothing keeps")));
}

TEST(ScheduleProof, RanksThatAwaitEachOtherFirstGoInACircle) {
  Problem const problem{Collective::all_gather, 1000, 1024, 1024};
  ProofOptions options;
  options.steps = all_steps(problem, Way::copy);
  // Each rank sends when it has got.
  for (auto& steps : options.steps) {
    auto const await =
        std::find_if(steps.begin(), steps.end(), [](auto const& one) { return one.act == Act::await; });
    ASSERT_NE(await, steps.end());
    std::rotate(steps.begin(), await, await + 1);
  }
  EXPECT_THAT(refusal(problem, Way::copy, 1, options), HasSubstr("waits for something that waits for it"));
}

TEST(ScheduleProof, ProductsOfAGroupAreKeptApartForAReason) {
  ProofOptions options;
  options.kept_apart = false;
  // Its sum is on every SM while it waits, and another product has to begin.
  EXPECT_THAT(refusal({Collective::reduce_scatter, 1000, 1024, 1024}, Way::store, 1, options),
              HasSubstr("error E0302: kernels that wait for peers can be on 264 of 132 SMs while "));
}

TEST(ScheduleProof, PartsAreWholeTilesOfTheShard) {
  Problem const problem{Collective::all_reduce, 1000, 1024, 1024};
  for (int const parts : {1, 2, 4, 8})
    for (int rank = 0; rank < 2; ++rank) {
      auto const shard = shard_of(1000, 2, rank);
      int at = shard.begin;
      for (int n = 0; n < parts; ++n) {
        auto const part = part_of(problem, rank, parts, n);
        EXPECT_EQ(part.begin, at);
        at = part.end;
        EXPECT_TRUE(part.rows() == 0 || (part.begin - shard.begin) % 128 == 0);
      }
      EXPECT_EQ(at, shard.end);
    }
}

TEST(ScheduleProof, StepsAreNamed) {
  std::string text;
  for (auto const& step : steps_of({Collective::reduce_scatter, 1000, 1024, 1024}, Way::add, 1, 0))
    text += to_string(step) + "\n";
  EXPECT_EQ(text,
            "fork\n"
            "begin together\n"
            "multiply 500:1000 into what is sent of rank 1\n"
            "fork\n"
            "copy 500:1000 from what is sent into the slot to rank 1\n"
            "tell part 0 to rank 1\n"
            "await part 0 from rank 1\n"
            "add 0:500 from rank 1\n"
            "join\n");
}

}  // namespace
}  // namespace tessera::gemm_collectives
