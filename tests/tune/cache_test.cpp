// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tessera/tune/cache_json.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;

TuneKey key(std::string driver = "580.1", std::int64_t model = 512) {
  return {"NVIDIA H200", std::move(driver), "tessera 0.1.0, cublasLt 130100", "swiglu", "bf16", model, 256};
}
TunedSize size(std::int64_t tokens, std::string candidate = "a > b") {
  return {tokens, std::move(candidate), 10.5, 9.25, "base", 11, 10.125, "2026-11-21"};
}
std::vector<std::int64_t> tokens_of(std::vector<TunedSize const*> const& sizes) {
  std::vector<std::int64_t> tokens;
  for (auto const* one : sizes) tokens.push_back(one->tokens);
  return tokens;
}

TEST(Cache, IsFoundByTheWholeKey) {
  TuneCache const cache{{{key(), {size(1)}}}};
  EXPECT_NE(find(cache, key()), nullptr);
  for (auto const change :
       {&TuneKey::gpu, &TuneKey::driver, &TuneKey::library, &TuneKey::form, &TuneKey::type}) {
    auto other = key();
    other.*change = "other";
    EXPECT_EQ(find(cache, other), nullptr);
  }
  EXPECT_EQ(find(cache, key("580.1", 520)), nullptr);
}

TEST(Cache, MergeReplacesSizesAndKeepsOthers) {
  TuneCache cache{{{key(), {size(1, "old"), size(64, "old")}}, {key("other"), {size(1)}}}};
  merge(cache, {{{key(), {size(64, "new"), size(8, "new")}}, {key("third"), {size(2)}}}});
  ASSERT_EQ(cache.entries.size(), 3u);
  auto const& sizes = find(cache, key())->sizes;
  ASSERT_EQ(sizes.size(), 3u);
  EXPECT_EQ(sizes[0], size(1, "old"));
  EXPECT_EQ(sizes[1], size(8, "new"));
  EXPECT_EQ(sizes[2], size(64, "new"));
  auto const once = cache;
  merge(cache, {{{key(), {size(64, "new")}}}});
  EXPECT_EQ(cache, once);
}

TEST(Cache, NearestIsTheSizeItselfThenLargerThenSmaller) {
  TuneEntry const entry{key(), {size(1), size(16), size(64), size(256)}};
  EXPECT_EQ(tokens_of(nearest(entry, 16)), (std::vector<std::int64_t>{16, 64, 256, 1}));
  EXPECT_EQ(tokens_of(nearest(entry, 17)), (std::vector<std::int64_t>{64, 256, 16, 1}));
  EXPECT_EQ(tokens_of(nearest(entry, 300)), (std::vector<std::int64_t>{256, 64, 16, 1}));
  EXPECT_TRUE(nearest({}, 5).empty());
}

TEST(Cache, SaysWhatIsForeign) {
  TuneCache const cache{{{key("1.2"), {size(1)}}}};
  EXPECT_TRUE(say_if_foreign(cache, key("1.2"), "f").empty());
  EXPECT_TRUE(say_if_foreign(cache, key("1.2", 520), "f").empty());
  EXPECT_EQ(to_text(say_if_foreign(cache, key(), "tune.json")),
            "tune.json: warning E0529: what was tuned for this swiglu of 512 x 256 was measured elsewhere "
            "and is not "
            "used\n"
            "   driver: tuned on \"1.2\", here \"580.1\"\n"
            "   hint: tune again here: tessera tune; until then cuBLASLt's first choice is taken");
}

TEST(CacheJson, ReadsWhatItPrints) {
  TuneCache const cache{{{key(), {size(1), size(64, "quoted \"name\"")}}, {key("other"), {}}}};
  auto const text = print_tune_cache(cache);
  auto const read = parse_tune_cache(text, "tune.json");
  ASSERT_TRUE(read) << to_text(read.error());
  EXPECT_EQ(*read, cache);
  EXPECT_EQ(print_tune_cache(*read), text);
}

TEST(CacheJson, IsMadeToBeRead) {
  EXPECT_EQ(print_tune_cache({{{key(), {size(64)}}}}),
            R"({
  "schema": "tessera.tune/1",
  "entries": [
    {
      "gpu": "NVIDIA H200",
      "driver": "580.1",
      "library": "tessera 0.1.0, cublasLt 130100",
      "form": "swiglu",
      "type": "bf16",
      "model": 512,
      "hidden": 256,
      "sizes": [
        {
          "tokens": 64,
          "candidate": "a > b",
          "hot_us": 10.5,
          "cool_us": 9.25,
          "baseline": "base",
          "baseline_hot_us": 11.0,
          "baseline_cool_us": 10.125,
          "date": "2026-11-21"
        }
      ]
    }
  ]
}
)");
}

std::string with(std::string const& from, std::string const& to) {
  auto text = print_tune_cache({{{key(), {size(1), size(64)}}}});
  auto const at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  auto const read = parse_tune_cache(text, "tune.json");
  return read ? "accepted" : to_text(read.error());
}

TEST(CacheJson, RefusesWithLineAndReason) {
  EXPECT_THAT(with("\"entries\"", "entries"), HasSubstr("tune.json:3: error E0523: "));
  EXPECT_EQ(with("\"form\": \"swiglu\",", ""), "tune.json:4: error E0524: \"form\" is missing in an entry");
  EXPECT_EQ(with("\"model\": 512", "\"model\": 4"),
            "tune.json:10: error E0525: \"model\" in an entry must be between 8 and 1073741824, not 4");
  EXPECT_THAT(with("\"hot_us\": 10.5", "\"hot_us\": -1"), HasSubstr("tune.json:16: error E0525: "));
  EXPECT_THAT(with("\"hot_us\": 10.5", "\"hot_us\": \"fast\""), HasSubstr("E0525"));
  EXPECT_EQ(
      with("\"driver\"", "\"river\": \"Rhine\", \"driver\""),
      "tune.json:6: error E0526: unknown member \"river\" in an entry\n   hint: did you mean \"driver\"?");
  EXPECT_THAT(with("tune/1", "tune/9"), HasSubstr("tune.json:1: error E0527: schema is \"tessera.tune/9\""));
  EXPECT_THAT(with("\"tokens\": 64", "\"tokens\": 1"),
              HasSubstr("error E0528: the size of 1 tokens follows that of 1"));
}

TEST(CacheJson, RefusesAKeyTwice) {
  auto const read = parse_tune_cache(print_tune_cache({{{key(), {}}, {key(), {}}}}), "tune.json");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().front().code, "E0528");
}

TEST(CacheJson, RefusesWhatIsNoCacheWithoutCrashing) {
  for (char const* text :
       {"", "[]", "7", "null", "{}", "{\"schema\": 1}", "{\"schema\": \"tessera.plan/1\"}",
        "{\"schema\": \"tessera.tune/1\"}", "{\"schema\": \"tessera.tune/1\", \"entries\": {}}",
        "{\"schema\": \"tessera.tune/1\", \"entries\": [null]}"})
    EXPECT_FALSE(parse_tune_cache(text, "f")) << text;
}

}  // namespace
}  // namespace tessera
