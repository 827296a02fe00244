// SPDX-License-Identifier: Apache-2.0
#include "tessera/tune/cache_json.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "plan/llama.hpp"
#include "support/plans.hpp"
#include "tessera/plan/orders.hpp"
#include "tessera/shipped_kernels.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;

TuneKey key(std::int64_t tokens, std::string driver = "580.1", Epilogue epilogue = Epilogue::swiglu) {
  auto graph = examples::llama_mlp(tokens);
  graph.operators[0].epilogue = epilogue;
  return {"NVIDIA H200", std::move(driver), "tessera 0.1.0, cublasLt 130100", workload_key(graph)};
}

/// A plan of figure 1; `variant` tells one from another.
Plan plan(std::string variant = "") {
  auto result = support::make_plan(support::figure_one(), support::ideal_machine(4), Mechanism::pdl_tiles);
  result.stages[0].variant = std::move(variant);
  result.stages[0].order = make_band_order(result.pipeline.stages[0], {2, 2, 1});
  result.pipeline.stages[0].where = {"/home/me/mlp.cpp", 7};
  result.alternatives = {{"another", 11, "slower"}};
  return result;
}

TuneEntry entry(TuneKey of, std::string variant = "") {
  auto const tokens = rows_of(of.workload);
  return {std::move(of),
          "llama-65b mlp, " + std::to_string(tokens) + " tokens",
          plan(std::move(variant)),
          10.5,
          9.25,
          "stream order",
          11,
          10.125,
          "any",
          "2026-11-21"};
}

std::vector<std::int64_t> rows_of(std::vector<TuneEntry const*> const& entries) {
  std::vector<std::int64_t> result;
  for (auto const* one : entries) result.push_back(rows_of(one->key.workload));
  return result;
}

TuneCache cache_of(std::vector<TuneKey> const& keys) {
  TuneCache cache;
  for (auto const& one : keys) cache.entries.push_back(entry(one));
  return cache;
}

TEST(Cache, IsFoundByTheWholeKey) {
  auto const cache = cache_of({key(768)});
  EXPECT_EQ(find(cache, key(768)), &cache.entries.front());
  for (auto const change : {&TuneKey::gpu, &TuneKey::driver, &TuneKey::libraries}) {
    auto other = key(768);
    other.*change = "other";
    EXPECT_EQ(find(cache, other), nullptr);
    EXPECT_TRUE(nearest(cache, other).empty());
  }
  EXPECT_EQ(find(cache, key(769)), nullptr);
  EXPECT_EQ(find(cache, key(768, "580.1", Epilogue::gelu)), nullptr);
}

TEST(Cache, MergeReplacesEntriesAndKeepsOthers) {
  auto cache = cache_of({key(1), key(64), key(64, "other")});
  TuneCache newer;
  newer.entries = {entry(key(64), "new"), entry(key(8), "new")};
  merge(cache, newer);
  ASSERT_EQ(cache.entries.size(), 4u);
  EXPECT_EQ(find(cache, key(1))->plan.stages[0].variant, "");
  EXPECT_EQ(find(cache, key(8))->plan.stages[0].variant, "new");
  EXPECT_EQ(find(cache, key(64))->plan.stages[0].variant, "new");
  EXPECT_EQ(find(cache, key(64, "other"))->plan.stages[0].variant, "");
  auto const once = print_tune_cache(cache);
  merge(cache, newer);
  EXPECT_EQ(print_tune_cache(cache), once);
}

TEST(Cache, NearestIsTheSizeItselfThenLargerThenSmaller) {
  auto const cache =
      cache_of({key(64), key(1), key(256), key(16), key(20, "other"), key(20, "580.1", Epilogue::gelu)});
  EXPECT_EQ(rows_of(nearest(cache, key(16))), (std::vector<std::int64_t>{16, 64, 256, 1}));
  EXPECT_EQ(rows_of(nearest(cache, key(17))), (std::vector<std::int64_t>{64, 256, 16, 1}));
  EXPECT_EQ(rows_of(nearest(cache, key(300))), (std::vector<std::int64_t>{256, 64, 16, 1}));
  EXPECT_TRUE(nearest({}, key(5)).empty());
}

TEST(Cache, WhatIsShippedHoldsWithAnyDriverAndNotBeyondItsRows) {
  auto cache = cache_of({key(64, "old"), key(1, "old"), key(16, "old")});
  cache.entries.push_back(entry(key(20, "old", Epilogue::gelu)));
  auto const& kernels = shipped_kernels().kernels();
  auto const own = std::find_if(kernels.begin(), kernels.end(), [](auto const& one) { return !one.whole; });
  ASSERT_NE(own, kernels.end());
  for (auto& one : cache.entries)
    for (auto& stage : one.plan.pipeline.stages) stage.kernel = own->name;
  auto const rows = [&](TuneKey const& of) {
    auto const* const found = shipped_entry(cache, of, shipped_kernels());
    return found == nullptr ? 0 : rows_of(found->key.workload);
  };
  EXPECT_EQ(rows(key(1)), 1);
  EXPECT_EQ(rows(key(2)), 16);
  EXPECT_EQ(rows(key(17)), 64);
  EXPECT_EQ(rows(key(65)), 0);
  auto other = key(2);
  other.gpu = "NVIDIA H100 80GB HBM3";
  EXPECT_EQ(rows(other), 0);
  // Another version of a library does not matter to own kernels, and does to its own.
  other = key(2);
  other.libraries = "tessera 0.1.0, cublasLt 130200";
  EXPECT_EQ(rows(other), 16);
  cache.entries[2].plan.pipeline.stages[1].kernel = "cublaslt";
  EXPECT_EQ(rows(key(2)), 16);
  EXPECT_EQ(rows(other), 0);
  cache.entries[2].plan.pipeline.stages[1].kernel = "no such kernel";
  EXPECT_EQ(rows(other), 0);
}

TEST(Cache, APipelineIsNearToItselfOnly) {
  auto pipeline = support::figure_one();
  TuneKey const small{"gpu", "driver", "libraries", workload_key(pipeline)};
  pipeline.stages[0].grid[1].extent = 3;
  TuneKey const large{"gpu", "driver", "libraries", workload_key(pipeline)};
  auto const cache = cache_of({small, large});
  ASSERT_EQ(nearest(cache, large).size(), 1u);
  EXPECT_EQ(nearest(cache, large).front(), find(cache, large));
}

TEST(Cache, SaysWhatIsForeign) {
  auto const cache = cache_of({key(64, "1.2"), key(128, "1.2")});
  EXPECT_TRUE(say_if_foreign(cache, key(1, "1.2"), "f").empty());
  EXPECT_TRUE(say_if_foreign(cache, key(64, "580.1", Epilogue::gelu), "f").empty());
  EXPECT_EQ(
      to_text(say_if_foreign(cache, key(1), "tune.json")),
      "tune.json: warning E0529: what was tuned for llama-65b mlp, 64 tokens was measured elsewhere and "
      "is not used\n"
      "   driver: tuned on \"1.2\", here \"580.1\"\n"
      "   hint: tune again here: tessera tune");
}

TEST(CacheJson, ReadsWhatItPrints) {
  auto cache = cache_of({key(1), key(64)});
  cache.entries[1].plan.stages[1].variant = "quoted \"name\"";
  cache.entries[1].load = "steady";
  cache.entries.push_back(entry({"gpu", "driver", "libraries", workload_key(support::figure_one())}));
  auto const text = print_tune_cache(cache);
  auto const read = parse_tune_cache(text, "tune.json");
  ASSERT_TRUE(read) << to_text(read.error());
  EXPECT_EQ(print_tune_cache(*read), text);
  ASSERT_EQ(read->entries.size(), cache.entries.size());
  for (std::size_t i = 0; i < cache.entries.size(); ++i) {
    auto const &a = cache.entries[i], &b = read->entries[i];
    EXPECT_EQ(a.key, b.key);
    EXPECT_EQ(a.workload_name, b.workload_name);
    EXPECT_EQ(a.hot_us, b.hot_us);
    EXPECT_EQ(a.cool_us, b.cool_us);
    EXPECT_EQ(a.baseline, b.baseline);
    EXPECT_EQ(a.baseline_hot_us, b.baseline_hot_us);
    EXPECT_EQ(a.baseline_cool_us, b.baseline_cool_us);
    EXPECT_EQ(a.load, b.load);
    EXPECT_EQ(a.date, b.date);
    EXPECT_EQ(a.plan.launches, b.plan.launches);
    EXPECT_EQ(a.plan.stages, b.plan.stages);
    EXPECT_EQ(a.plan.proof, b.plan.proof);
    EXPECT_TRUE(b.plan.alternatives.empty());
  }
}

TEST(CacheJson, IsMadeToBeRead) {
  auto const text = print_tune_cache(cache_of({key(64)}));
  EXPECT_THAT(text, testing::StartsWith(R"json({
  "schema": "tessera.tune/2",
  "entries": [
    {
      "name": "llama-65b mlp, 64 tokens",
      "gpu": "NVIDIA H200",
      "driver": "580.1",
      "libraries": "tessera 0.1.0, cublasLt 130100",
      "workload": {
        "structure": "gemm+swiglu bf16 (a: in0 rows, b: in1 rows) > gemm bf16 (a: 0 rows, b: in2 rows)",
        "sizes": [[64, 5504, 8192, 1], [64, 8192, 2752, 1]]
      },
      "load": "any",
      "hot_us": 10.5,
      "cool_us": 9.25,
      "baseline": "stream order",
      "baseline_hot_us": 11.0,
      "baseline_cool_us": 10.125,
      "date": "2026-11-21",
      "plan": {
        "schema": "tessera.plan/2",
)json"));
  // A cache may be given to others: it says nothing of the machine's files.
  EXPECT_THAT(text, testing::Not(HasSubstr("/home/me")));
}

/// What cache_json.hpp says an entry takes.
TEST(CacheJson, AnEntryIsSmallWhateverItsGridsAre) {
  Pipeline mlp = support::make_gemm_pair({65536, 8192, 5504}, {128, 256, 64}, {128, 256, 64});
  auto large = entry(key(65536));
  large.plan = support::make_plan(mlp, support::ideal_machine(132), Mechanism::pdl_tiles);
  for (std::size_t s = 0; s < 2; ++s)
    large.plan.stages[s].order = make_band_order(large.plan.pipeline.stages[s], {8, 2, 1});
  TuneCache cache;
  auto const none = print_tune_cache(cache).size();
  cache.entries.push_back(large);
  EXPECT_LT(print_tune_cache(cache).size() - none, 4096u);
}

std::string with(std::string const& from, std::string const& to) {
  auto text = print_tune_cache(cache_of({key(1), key(64)}));
  auto const at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  auto const read = parse_tune_cache(text, "tune.json");
  return read ? "accepted" : to_text(read.error());
}

TEST(CacheJson, RefusesWithLineAndReason) {
  EXPECT_THAT(with("\"entries\"", "entries"), HasSubstr("tune.json:3: error E0523: "));
  EXPECT_EQ(with("\"gpu\": \"NVIDIA H200\",", ""),
            "tune.json:4: error E0524: \"gpu\" is missing in the entry of \"llama-65b mlp, 1 tokens\"");
  EXPECT_EQ(
      with("\"hot_us\": 10.5", "\"hot_us\": -1"),
      "tune.json:14: error E0525: \"hot_us\" in the entry of \"llama-65b mlp, 1 tokens\" must be between "
      "0 and 1e+09, not -1");
  EXPECT_THAT(with("\"hot_us\": 10.5", "\"hot_us\": \"fast\""), HasSubstr("E0525"));
  EXPECT_THAT(with("\"load\": \"any\"", "\"load\": \"some\""), HasSubstr("E0525"));
  EXPECT_THAT(with("[[1, 5504, 8192, 1]", "[7"), HasSubstr("E0525: sizes of a workload are arrays"));
  EXPECT_EQ(with("\"driver\"", "\"river\": \"Rhine\", \"driver\""),
            "tune.json:7: error E0526: unknown member \"river\" in the entry of \"llama-65b mlp, 1 tokens\"\n"
            "   hint: did you mean \"driver\"?");
  EXPECT_EQ(with("tune/2", "tune/1"),
            "tune.json:1: error E0527: schema is \"tessera.tune/1\"; this is \"tessera.tune/2\"\n"
            "   hint: delete the file and tune again: tessera tune");
  EXPECT_THAT(with("[[1, 5504, 8192, 1], [1,", "[[64, 5504, 8192, 1], [64,"),
              HasSubstr("error E0528: this GPU, driver, libraries and workload have an entry already\n"
                        "   hint: delete one of the two"));
}

TEST(CacheJson, RefusesAPlanInItsOwnWordsAndLine) {
  EXPECT_THAT(with("\"semaphores\"", "\"semafores\""),
              HasSubstr("error E0524: \"semaphores\" is missing in the plan"));
  EXPECT_THAT(with("plan/2", "plan/7"),
              testing::AllOf(HasSubstr("tune.json:21: error E0254: "), HasSubstr("version 7")));
  // Of the entry's own plan, not of the file's first member of that name.
  auto text = print_tune_cache(cache_of({key(1), key(64)}));
  auto const second = text.find("\"name\": \"llama-65b mlp, 64");
  auto const at = text.find("\"first\": 0", second);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 10, "\"first\": 1");
  auto const line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  auto const read = parse_tune_cache(text, "tune.json");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().front().code, "E0258");
  EXPECT_NEAR(read.error().front().where.line, line, 6);
}

ProductEntry product(std::int64_t rows, std::string way = "copy") {
  return {{"NVIDIA H200", "580.1", "tessera 0.1.0, cublasLt 130100", "gemm_reduce_scatter", rows, 8192, 22016,
           "bf16", 2},
          std::move(way),
          "cublaslt(tile 28 split 1 #2a-0-1c)",
          1,
          557.5,
          653.25,
          "2026-11-24"};
}

TEST(Cache, ProductsOnSeveralGpusAreFoundByTheWholeKeyAndReplaced) {
  TuneCache cache;
  cache.products = {product(512), product(2048)};
  EXPECT_EQ(find(cache, product(2048).key), &cache.products[1]);
  auto other = product(2048).key;
  other.gpus = 4;
  EXPECT_EQ(find(cache, other), nullptr);
  TuneCache newer;
  newer.products = {product(2048, "add"), product(1, "words")};
  merge(cache, newer);
  ASSERT_EQ(cache.products.size(), 3u);
  EXPECT_EQ(find(cache, product(2048).key)->way, "add");
  EXPECT_EQ(find(cache, product(512).key)->way, "copy");
}

TEST(CacheJson, ProductsOnSeveralGpusAreReadBack) {
  auto cache = cache_of({key(1)});
  EXPECT_THAT(print_tune_cache(cache), testing::Not(HasSubstr("products")));
  cache.products = {product(512), product(2048, "add")};
  auto const text = print_tune_cache(cache);
  EXPECT_THAT(text, HasSubstr(R"json(
      "collective": "gemm_reduce_scatter",
      "rows": 512,
      "columns": 8192,
      "depth": 22016,
      "type": "bf16",
      "gpus": 2,
      "gpu": "NVIDIA H200",
      "driver": "580.1",
      "libraries": "tessera 0.1.0, cublasLt 130100",
      "way": "copy",
      "kernel": "cublaslt(tile 28 split 1 #2a-0-1c)",
      "parts": 1,
      "us": 557.5,
      "sequential_us": 653.25,
      "date": "2026-11-24"
)json"));
  auto const read = parse_tune_cache(text, "tune.json");
  ASSERT_TRUE(read) << to_text(read.error());
  EXPECT_EQ(print_tune_cache(*read), text);
  auto const refused = [&](std::string const& from, std::string const& to) {
    auto changed = text;
    auto const at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    auto const again = parse_tune_cache(changed, "tune.json");
    return again ? "accepted" : to_text(again.error());
  };
  EXPECT_THAT(refused("\"rows\": 512", "\"rows\": 2048"),
              HasSubstr("error E0528: this GPU, driver, libraries and product have an entry already\n"
                        "   hint: delete one of the two"));
  EXPECT_THAT(refused("\"way\": \"copy\"", "\"day\": \"copy\""),
              HasSubstr("error E0524: \"way\" is missing in gemm_reduce_scatter of 512 x 8192 x 22016"));
  EXPECT_THAT(refused("\"gpus\": 2", "\"gpus\": 1"), HasSubstr("error E0525: "));
}

TEST(CacheJson, RefusesWhatIsNoCacheWithoutCrashing) {
  for (char const* text :
       {"", "[]", "7", "null", "{}", "{\"schema\": 1}", "{\"schema\": \"tessera.plan/1\"}",
        "{\"schema\": \"tessera.tune/2\"}", "{\"schema\": \"tessera.tune/2\", \"entries\": {}}",
        "{\"schema\": \"tessera.tune/2\", \"entries\": [null]}",
        "{\"schema\": \"tessera.tune/2\", \"entries\": [{\"plan\": {}}]}"})
    EXPECT_FALSE(parse_tune_cache(text, "f")) << text;
}

}  // namespace
}  // namespace tessera
