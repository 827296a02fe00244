// SPDX-License-Identifier: Apache-2.0
// Headers of safetensors files and indexes: what they say, and what is refused, by exact text.
#include "tessera/weights/safetensors.hpp"

#include <gmock/gmock.h>

#include "support/safetensors_writer.hpp"

namespace tessera {
namespace {

using support::list_text;
using testing::HasSubstr;

Expected<std::vector<StoredTensor>> parsed(std::string const& json, std::uint64_t data_bytes) {
  return parse_safetensors_header(json, 8 + json.size() + data_bytes, "w.safetensors");
}
std::string text_of(std::string const& json, std::uint64_t data_bytes) {
  auto const outcome = parsed(json, data_bytes);
  return outcome ? "taken" : to_text(outcome.error());
}
/// {"a": {...}, "b": {...}}: bf16 vectors at the given bytes.
std::string vectors(std::vector<std::pair<std::int64_t, std::int64_t>> const& places) {
  std::string json;
  char name = 'a';
  for (auto const& [begin, end] : places)
    json += (json.empty() ? "{\"" : ",\"") + std::string(1, name++) +
            "\":{\"dtype\":\"BF16\",\"shape\":" + list_text({(end - begin) / 2}) +
            ",\"data_offsets\":" + list_text({begin, end}) + "}";
  return json + "}";
}

TEST(Safetensors, TensorsInTheOrderOfTheirBytes) {
  std::string const json = R"({"__metadata__":{"format":"pt"},
      "second":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},
      "first":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},
      "none":{"dtype":"F16","shape":[0,7],"data_offsets":[32,32]},
      "scalar":{"dtype":"U8","shape":[],"data_offsets":[32,33]}}   )";
  auto const found = parsed(json, 33);
  ASSERT_TRUE(found) << to_text(found.error());
  auto const data = 8 + json.size();
  ASSERT_EQ(found->size(), 4u);
  EXPECT_EQ((*found)[0], (StoredTensor{"first", "BF16", {4}, data, data + 8}));
  EXPECT_EQ((*found)[1], (StoredTensor{"second", "F32", {2, 3}, data + 8, data + 32}));
  EXPECT_EQ((*found)[2].name, "none");
  EXPECT_EQ((*found)[3], (StoredTensor{"scalar", "U8", {}, data + 32, data + 33}));
  EXPECT_TRUE(parsed("{}", 0));
}

TEST(Safetensors, BytesThatAreNotOnesOwnAreRefused) {
  EXPECT_EQ(text_of(vectors({{0, 8}, {8, 16}}), 16), "taken");
  EXPECT_EQ(text_of(vectors({{0, 8}, {4, 12}}), 12),
            "w.safetensors: error E0570: tensors \"a\" and \"b\" share bytes 4 to 8 of the data\n"
            "   hint: copy or download the file again");
  EXPECT_THAT(text_of(vectors({{0, 8}, {0, 8}}), 8), HasSubstr("share bytes 0 to 8"));
  EXPECT_EQ(
      text_of(vectors({{0, 8}, {12, 16}}), 16),
      "w.safetensors: error E0570: bytes 8 to 12 of the data, before tensor \"b\", belong to no tensor\n"
      "   hint: copy or download the file again");
  EXPECT_EQ(text_of(vectors({{0, 8}, {8, 16}}), 10),
            "w.safetensors: error E0570: the file ends early: tensors take 16 bytes, and 10 are there, so "
            "tensor \"b\" is not whole\n"
            "   hint: copy or download the file again");
  EXPECT_EQ(text_of(vectors({{0, 8}}), 11),
            "w.safetensors: error E0570: 3 bytes behind the last tensor belong to no tensor\n"
            "   hint: copy or download the file again");
  EXPECT_THAT(text_of("{}", 1), HasSubstr("1 bytes behind the last tensor"));
}

std::string one_tensor(std::string const& members) { return "{\"a\":{" + members + "}}"; }

TEST(Safetensors, SizesThatAreNotShapeTimesTypeAreRefused) {
  EXPECT_EQ(text_of(one_tensor(R"("dtype":"F32","shape":[2,3],"data_offsets":[0,12])"), 12),
            "w.safetensors: error E0570: tensor \"a\" is [2, 3] of F32 and has 12 bytes, not 24\n"
            "   hint: copy or download the file again");
  EXPECT_THAT(
      text_of(one_tensor(R"("dtype":"BF16","shape":[4611686018427387904,2],"data_offsets":[0,0])"), 0),
      HasSubstr("has 0 bytes, not more than 2^64"));
  EXPECT_THAT(text_of(one_tensor(R"("dtype":"BF17","shape":[1],"data_offsets":[0,2])"), 2),
              HasSubstr("\"dtype\" of tensor \"a\" is not a known type: \"BF17\"\n   known: BF16, F16, F32"));
  EXPECT_THAT(text_of(one_tensor(R"("dtype":"BF16","shape":[-1],"data_offsets":[0,2])"), 2),
              HasSubstr("an item must be a whole number between 0 and"));
  EXPECT_THAT(text_of(one_tensor(R"("dtype":"BF16","shape":[1],"data_offsets":[2,0])"), 2),
              HasSubstr("\"data_offsets\" of tensor \"a\" must be where it begins and ends"));
  EXPECT_THAT(text_of(one_tensor(R"("dtype":"BF16","shape":[1],"data_offsets":[0,1,2])"), 2),
              HasSubstr("must be where it begins and ends"));
  EXPECT_THAT(text_of(one_tensor(R"("dtype":"BF16","shape":[1])"), 2),
              HasSubstr("\"data_offsets\" is missing in tensor \"a\""));
  EXPECT_THAT(text_of(one_tensor(R"("dtype":"BF16","shape":{},"data_offsets":[0,2])"), 2),
              HasSubstr("\"shape\" in tensor \"a\" must be an array, not an object"));
}

TEST(Safetensors, WhatIsNoHeaderIsRefused) {
  EXPECT_THAT(text_of("[]", 0), HasSubstr("w.safetensors: error E0570: the header must be an object"));
  EXPECT_THAT(text_of("{\"a\":", 0), HasSubstr("w.safetensors: error E0570"));
  EXPECT_THAT(text_of(R"({"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]},)"
                      R"("a":{"dtype":"BF16","shape":[1],"data_offsets":[2,4]}})",
                      4),
              HasSubstr("\"a\""));
  EXPECT_THAT(text_of("", 0), HasSubstr("E0570"));
  EXPECT_THAT(text_of(R"({"a":7})", 0), HasSubstr("tensor \"a\" must be an object, not 7"));
}

TEST(Safetensors, WhatIsSaidAboutAFileIsWords) {
  EXPECT_EQ(text_of(R"({"__metadata__":{"format":"pt"}})", 0), text_of("{}", 0));
  EXPECT_EQ(text_of(R"({"__metadata__":{"format":5}})", 0),
            "w.safetensors: error E0570: \"format\" in \"__metadata__\" must be a string, not 5");
  EXPECT_EQ(text_of(R"({"__metadata__":null})", 0),
            "w.safetensors: error E0570: \"__metadata__\" in the header must be an object, not null");
  EXPECT_THAT(text_of(R"({"__metadata__":[]})", 0), HasSubstr("must be an object"));
}

TEST(Safetensors, LengthsOfHeaders) {
  auto const length = [](std::string const& first, std::uint64_t bytes) {
    auto const found = safetensors_header_bytes(first, bytes, "w.safetensors");
    return found ? std::to_string(*found) : to_text(found.error());
  };
  EXPECT_EQ(length(support::length_bytes(300), 308), "300");
  EXPECT_EQ(length(support::length_bytes(300), 307),
            "w.safetensors: error E0570: the file ends early: a header of 300 bytes in a file of 307\n"
            "   hint: copy or download the file again");
  EXPECT_EQ(length("abc", 3),
            "w.safetensors: error E0570: a file of 3 bytes is too short for a header\n"
            "   hint: copy or download the file again");
  EXPECT_EQ(length("version ", 130),
            "w.safetensors: error E0570: a header of 2336927755350992246 bytes by its first eight; up to "
            "16777216 are read\n"
            "   hint: is it a safetensors file? One that Git LFS has not fetched yet is a few lines of text");
  EXPECT_THAT(length(support::length_bytes(~std::uint64_t{0}), ~std::uint64_t{0}),
              HasSubstr("up to 16777216"));
}

TEST(Safetensors, Indexes) {
  auto const text = [](std::string const& json) {
    auto const found = parse_safetensors_index(json, "i.json");
    if (!found) return to_text(found.error());
    std::string all;
    for (auto const& [name, file] : *found) all += name + " in " + file + ";";
    return all;
  };
  EXPECT_EQ(text(R"({"metadata":{"total_size":4},"weight_map":{"b":"x.safetensors","a":"y.safetensors"}})"),
            "b in x.safetensors;a in y.safetensors;");
  EXPECT_EQ(text("{\"weight_map\":\n{\"a\":\"../../secret\"}}"),
            "i.json:2: error E0571: tensor \"a\" is in \"../../secret\", which is no file beside the index\n"
            "   hint: put all files of the model into one folder");
  EXPECT_THAT(text(R"({"weight_map":{"a":".."}})"), HasSubstr("no file beside the index"));
  EXPECT_THAT(text(R"({"weight_map":{"a":""}})"), HasSubstr("no file beside the index"));
  EXPECT_THAT(text(R"({"weight_map":{"a":7}})"), HasSubstr("must be a string, not 7"));
  EXPECT_THAT(text(R"({"weight_map":[]})"), HasSubstr("must be an object"));
  EXPECT_THAT(text(R"({"weight_map":null})"), HasSubstr("must be an object"));
  EXPECT_EQ(text(R"({"metadata":null,"weight_map":{}})"),
            "i.json:1: error E0571: \"metadata\" in the index must be an object, not null");
  EXPECT_THAT(text("{}"), HasSubstr("\"weight_map\" is missing"));
}

}  // namespace
}  // namespace tessera
