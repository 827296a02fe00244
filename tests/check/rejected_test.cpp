// SPDX-License-Identifier: Apache-2.0
// tests/rejected/check: workloads with one mistake each (or several at once), and what check() says.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <variant>
#include <vector>

#include "tessera/check/check.hpp"
#include "tessera/describe/workload_json.hpp"

namespace tessera {
namespace {

std::string text_of(std::filesystem::path const& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::filesystem::path> corpus() {
  std::vector<std::filesystem::path> files;
  for (auto const& entry : std::filesystem::directory_iterator(TESSERA_SOURCE_DIR "/tests/rejected/check"))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

class Rejected : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(Rejected, SaysExactlyWhatIsExpected) {
  auto const workload = parse_workload(text_of(GetParam()), GetParam().filename());
  ASSERT_TRUE(workload) << to_text(workload.error());
  ASSERT_TRUE(std::holds_alternative<Pipeline>(*workload));
  auto const checked = check(std::get<Pipeline>(*workload));
  ASSERT_FALSE(checked);
  auto expected = GetParam();
  expected.replace_extension(".expected");
  EXPECT_EQ(to_text(checked.error()) + "\n", text_of(expected));
}

INSTANTIATE_TEST_SUITE_P(Check, Rejected, testing::ValuesIn(corpus()), [](auto const& file) {
  auto name = file.param.stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(RejectedCorpus, IsThere) { EXPECT_GE(corpus().size(), 15u); }

}  // namespace
}  // namespace tessera
