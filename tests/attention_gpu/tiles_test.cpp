// SPDX-License-Identifier: Apache-2.0
// Tiles of all sizes that a problem may be cut into.
#include "attention_gpu/attention_case.hpp"

namespace tessera::attention_sm90 {
namespace {

class AttentionTiles : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Queries, AttentionTiles, testing::Values(64, 128, 192));

TEST_P(AttentionTiles, GiveTheSame) {
  std::vector<int> const lengths{1, 63, 64, 65, 127, 128, 129, 191, 192, 193, 0, 300, 1000};
  for (int const window : {-1, 0, 100}) {
    SCOPED_TRACE(window);
    auto p = problem_of(128, 4, 2, offsets_of(lengths).back());
    p.sequences = static_cast<int>(lengths.size());
    p.longest_queries = 1000;
    p.causal = window >= 0;
    p.window = std::max(window, 0);
    Case(p, {offsets_of(lengths), offsets_of(lengths), {}}).check(GetParam());
  }
}

TEST_P(AttentionTiles, WithOtherNumbersOfKeys) {
  std::vector<int> const queries{200, 5, 130, 64, 300}, keys{700, 0, 128, 1, 100};
  for (bool const causal : {false, true}) {
    SCOPED_TRACE(causal);
    auto p = problem_of(128, 2, 1, offsets_of(queries).back());
    p.key_rows = offsets_of(keys).back();
    p.sequences = static_cast<int>(queries.size());
    p.longest_queries = 300;
    p.causal = causal;
    Case(p, {offsets_of(queries), offsets_of(keys), {}}).check(GetParam());
  }
}

TEST_P(AttentionTiles, OfLongPrompts) {
  for (bool const causal : {false, true})
    for (int const length : {512, 2048}) {
      SCOPED_TRACE(length);
      auto p = problem_of(128, 4, 4, length);
      p.causal = causal;
      Case c(p, {});
      c.check(GetParam());
      auto const first = c.results();
      for (int i = 0; i < 10; ++i) {
        c.clear();
        c.run(GetParam());
        ASSERT_EQ(c.results(), first) << i;
      }
    }
}

}  // namespace
}  // namespace tessera::attention_sm90
