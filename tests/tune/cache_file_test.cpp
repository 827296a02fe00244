// SPDX-License-Identifier: Apache-2.0
#include "tessera/tune/cache_file.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/plans.hpp"
#include "tessera/tune/cache_json.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CacheFile : public testing::Test {
 protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("tessera_cache_" + std::to_string(::getpid()));
    fs::remove_all(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  static TuneCache of(std::string const& gpu) {
    TuneEntry entry;
    entry.key = {gpu, "driver", "libraries", workload_key(support::figure_one())};
    entry.plan = support::make_plan(support::figure_one(), support::ideal_machine(4), Mechanism::pdl_tiles);
    return {{entry}};
  }

  fs::path folder;
};

TEST_F(CacheFile, IsMadeWithItsFolderAndAddedTo) {
  auto const path = (folder / "deep" / "tune.json").string();
  auto const none = read_cache(path);
  ASSERT_TRUE(none) << to_text(none.error());
  EXPECT_TRUE(none->entries.empty());
  for (char const* const gpu : {"one", "two", "one"}) {
    auto const added = add_to_cache(path, of(gpu));
    ASSERT_TRUE(added) << to_text(added.error());
  }
  auto const both = read_cache(path);
  ASSERT_TRUE(both) << to_text(both.error());
  ASSERT_EQ(both->entries.size(), 2u);
  EXPECT_EQ(both->entries[1].key.gpu, "two");
  // Nothing is left beside it.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "deep"), fs::directory_iterator()), 1);
}

TEST_F(CacheFile, IsNotReplacedWhereItIsNoCache) {
  fs::create_directories(folder);
  auto const path = (folder / "other.json").string();
  std::ofstream(path) << "{\"schema\": \"tessera.tune/1\", \"entries\": []}\n";
  auto const added = add_to_cache(path, of("one"));
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().front().code, "E0527");
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("tessera.tune/1"));
}

TEST_F(CacheFile, SaysWhyItCannotBeReadOrWritten) {
  fs::create_directories(folder);
  auto const read = read_cache(folder.string());
  ASSERT_FALSE(read);
  EXPECT_THAT(to_text(read.error()),
              HasSubstr(folder.string() + ": error E0531: the tuning cache cannot be read: "));
  std::ofstream(folder / "file") << "x";
  auto const written = add_to_cache((folder / "file" / "tune.json").string(), of("one"));
  ASSERT_FALSE(written);
  EXPECT_THAT(to_text(written.error()),
              testing::AllOf(HasSubstr("error E0531: the tuning cache cannot be written: "),
                             HasSubstr("hint: name another file with TESSERA_TUNE_CACHE or --cache")));
}

TEST_F(CacheFile, IsFoundThroughTheEnvironment) {
  auto const set = [](char const* name, char const* value) {
    if (value != nullptr)
      ::setenv(name, value, 1);
    else
      ::unsetenv(name);
  };
  set("TESSERA_TUNE_CACHE", nullptr);
  set("XDG_CACHE_HOME", nullptr);
  set("HOME", nullptr);
  EXPECT_EQ(default_cache_file(), "");
  set("HOME", "/home/me");
  EXPECT_EQ(default_cache_file(), "/home/me/.cache/tessera/tune.json");
  set("XDG_CACHE_HOME", "/cache");
  EXPECT_EQ(default_cache_file(), "/cache/tessera/tune.json");
  set("TESSERA_TUNE_CACHE", "/mine.json");
  EXPECT_EQ(default_cache_file(), "/mine.json");
}

}  // namespace
}  // namespace tessera
