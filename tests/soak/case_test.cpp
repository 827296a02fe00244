// SPDX-License-Identifier: Apache-2.0
// Cases by number: what they hold, their command lines, and the smaller ones of each.
#include "soak/case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

namespace tessera::soak {
namespace {

constexpr std::uint64_t k_cases = 3000;

Case read(std::string const& line) {
  Case one;
  std::istringstream words(line);
  for (std::string name, value; words >> name >> value;) EXPECT_TRUE(set_argument(one, name, value)) << name;
  return one;
}

TEST(SoakCase, FaultsComeInEveryPartyAndInEveryLaunch) {
  std::map<std::string, int> kinds;
  std::set<int> faulty_chains, launches;
  std::set<Workload> workloads;
  int replayed_by_threads = 0;
  for (std::uint64_t number = 0; number < k_cases; ++number) {
    auto const one = case_of(number);
    ASSERT_GT(one.parties(), 0) << number;
    if (one.graphs && one.threads > 1) ++replayed_by_threads;
    workloads.insert(one.workload);
    if (one.fault == Fault::none) continue;
    ++kinds[kind_of(one)];
    ASSERT_LT(one.faulty, one.parties()) << number;
    ASSERT_LT(one.at, one.launches) << number;
    if (one.faulty < one.chains) faulty_chains.insert(one.faulty);
    launches.insert(one.at);
    // Each party has the faults that it can have.
    bool const chain = one.faulty < one.chains, loop = !chain && one.faulty < one.chains + one.loops;
    EXPECT_EQ(one.fault == Fault::stall, !chain && !loop) << number;
    EXPECT_TRUE(one.fault != Fault::stall || can_stall(one.workload)) << number;
    if (loop) {
      EXPECT_EQ(one.fault, Fault::held_tile) << number;
    }
  }
  EXPECT_EQ(faulty_chains, (std::set{0, 1, 2}));
  EXPECT_EQ(workloads.size(), 1u + static_cast<unsigned>(Workload::layer));  // all, and none
  EXPECT_GT(launches.size(), 50u);
  EXPECT_GT(replayed_by_threads, 100);
  std::set<std::string> const wanted{"held_sms",
                                     "held_tile",
                                     "exception",
                                     "bad_enqueue",
                                     "held_tile_of_loop_plan",
                                     "stall_of_mlp",
                                     "stall_of_sum",
                                     "stall_of_loop",
                                     "stall_of_loop_by_words",
                                     "stall_of_loop_in_pairs",
                                     "stall_of_convolution",
                                     "stall_of_decoder",
                                     "stall_of_lattice_boltzmann"};
  for (auto const& kind : wanted) EXPECT_GE(kinds[kind], 10) << kind;
  EXPECT_EQ(kinds.size(), wanted.size());
}

TEST(SoakCase, ItsCommandLineIsTheCase) {
  for (std::uint64_t number = 0; number < k_cases; ++number) {
    auto const one = case_of(number);
    ASSERT_EQ(read(arguments_of(one)), one) << arguments_of(one);
    for (auto const& smaller : smaller_than(one)) ASSERT_EQ(read(arguments_of(smaller)), smaller);
  }
}

TEST(SoakCase, RefusesWhatIsNoOption) {
  Case one;
  for (auto const& [name, value] : {std::pair{"--chains", "x"},
                                    {"--chains", "1x"},
                                    {"--chains", ""},
                                    {"--chains", "-1"},
                                    {"--graphs", "2"},
                                    {"--fault", "late"},
                                    {"--workload", ""},
                                    {"--case", "-"},
                                    {"--nothing", "1"}})
    EXPECT_FALSE(set_argument(one, name, value)) << name << ' ' << value;
}

TEST(SoakCase, SmallerOnesAreSmallerAndEndWithThePartiesAlone) {
  for (std::uint64_t number = 0; number < k_cases; ++number) {
    auto const one = case_of(number);
    auto const smaller = smaller_than(one);
    ASSERT_FALSE(smaller.empty()) << arguments_of(one);
    for (auto const& next : smaller) {
      ASSERT_GE(next.parties(), 1);
      ASSERT_LE(next.parties(), one.parties());
      ASSERT_LE(next.launches, one.launches);
      ASSERT_LE(next.threads, one.threads);
      ASSERT_NE(next, one);
      ASSERT_GE(next.first, one.first);
      ASSERT_LE(next.first + next.chains, one.first + one.chains) << "chains that were not there";
      if (next.fault == Fault::none) continue;
      ASSERT_EQ(kind_of(next), kind_of(one)) << "the fault moved to another party: " << arguments_of(next);
      ASSERT_LT(next.at, next.launches);
    }
    // Each party alone comes first.
    auto const& first = smaller.front();
    ASSERT_EQ(first.parties(), 1);
    ASSERT_EQ(first.launches, std::min(2, one.launches));
    for (int party = 0; party < one.parties(); ++party)
      ASSERT_TRUE(std::any_of(smaller.begin(), smaller.end(), [&](Case const& next) {
        return next.parties() == 1 && (party >= one.chains || next.first == one.first + party);
      })) << party;
  }
}

TEST(SoakCase, AFaultyChainKeepsItsNumber) {
  Case one;
  one.number = 5, one.chains = 3, one.loops = 1, one.fault = Fault::held_tile, one.faulty = 2, one.at = 6;
  auto const smaller = smaller_than(one);
  auto const alone = std::find_if(smaller.begin(), smaller.end(), [](Case const& next) {
    return next.parties() == 1 && next.fault != Fault::none && next.launches == 8;
  });
  ASSERT_NE(alone, smaller.end());
  EXPECT_EQ(alone->first, 2);
  EXPECT_EQ(alone->faulty, 0);
  EXPECT_EQ(alone->at, 6);
  EXPECT_EQ(alone->loops, 0);
}

}  // namespace
}  // namespace tessera::soak
