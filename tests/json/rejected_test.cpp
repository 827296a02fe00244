// SPDX-License-Identifier: Apache-2.0
// tests/rejected: one small file per mistake, and beside it the exact text of its refusal. With
// TESSERA_UPDATE_GOLDEN=1 in the environment the texts are written anew, to be read before they are kept.
// A config or network file may carry the caller's options in "_options".
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "json/reader.hpp"
#include "tessera/describe/workload_json.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string read(fs::path const& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The refusal's text, or "accepted".
template <class T>
std::string text_of(Expected<T> const& result) {
  return result ? "accepted" : to_text(result.error());
}

std::string refusal(std::string const& area, std::string const& text, std::string const& name) {
  if (area == "workload") return text_of(parse_workload(text, name));
  BlockOptions block;
  ConvOptions conv;
  auto document = json::Document::parse(text, name, {"", "", "", ""});
  if (auto const* given = document ? document->root().find("_options") : nullptr; given != nullptr) {
    json::ObjectReader options(*document, *given);
    block.block = options.string_or("block", block.block);
    block.tokens = options.integer_or("tokens", block.tokens, 0);
    block.cached = options.integer_or("cached", block.cached, 0);
    block.tensor_parallel = static_cast<int>(options.integer_or("tensor_parallel", 1, 1, 1024));
    block.data_type = options.string_or("data_type", "");
    conv.layer = options.string_or("layer", "");
    conv.images = options.integer_or("images", 1, 0);
  }
  return area == "config" ? text_of(import_hf_config(text, name, block))
                          : text_of(import_conv_network(text, name, conv));
}

class Rejected : public testing::TestWithParam<std::string> {};

TEST_P(Rejected, with_exactly_this_text) {
  auto const area = GetParam();
  auto const folder = fs::path(TESSERA_SOURCE_DIR) / "tests/rejected" / area;
  auto const* update = std::getenv("TESSERA_UPDATE_GOLDEN");
  std::vector<fs::path> files;
  for (auto const& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  EXPECT_GE(files.size(), 5u);
  for (auto const& file : files) {
    auto const got = refusal(area, read(file), file.filename().string()) + "\n";
    auto expected_path = file;
    expected_path.replace_extension(".expected");
    EXPECT_NE(got, "accepted\n") << file;
    if (update != nullptr && std::string(update) == "1")
      std::ofstream(expected_path, std::ios::binary) << got;
    EXPECT_EQ(got, read(expected_path)) << file;
  }
}

INSTANTIATE_TEST_SUITE_P(Areas, Rejected, testing::Values("workload", "config", "conv_network"),
                         [](auto const& area) { return area.param; });

}  // namespace
}  // namespace tessera
