// SPDX-License-Identifier: Apache-2.0
// Where outputs go: links, the same file by two paths, names that would steer a terminal.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "cli/program.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

struct OutputFiles : testing::Test {
  Folder folder;
  Said run(std::string const& arguments) { return tessera_says(arguments, folder.path()); }
};

TEST_F(OutputFiles, ALinkStaysAndItsFileIsWritten) {
  fs::create_directory(folder / "deep");
  std::ofstream(folder / "deep/old.json") << "old";
  fs::create_symlink("deep/old.json", folder / "link.json");
  fs::create_symlink("deep/new.json", folder / "ahead.json");
  for (auto const* link : {"link.json", "ahead.json"}) {
    auto const said = run(std::string(k_small_plan) + " -o " + link);
    EXPECT_EQ(said.exit, 0) << said.err;
    EXPECT_TRUE(fs::is_symlink(folder / link)) << link;
  }
  EXPECT_THAT(read_text(folder / "deep/old.json"), HasSubstr("tessera.plan/2"));
  EXPECT_THAT(read_text(folder / "deep/new.json"), HasSubstr("tessera.plan/2"));
}

TEST_F(OutputFiles, LinksInACircleAreRefused) {
  fs::create_symlink("b", folder / "a");
  fs::create_symlink("a", folder / "b");
  auto const said = run(std::string(k_small_plan) + " -o a");
  EXPECT_EQ(said.exit, 3);
  EXPECT_THAT(said.err, HasSubstr("error E0902: cannot write a: Too many levels of symbolic links"));
  EXPECT_TRUE(fs::is_symlink(folder / "a"));
}

/// Standard output is a file here.
TEST_F(OutputFiles, SizesHaveNoFilesBesideADevice) {
  for (auto const* path : {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/../dev/stdout"}) {
    auto const said = run(std::string("plan llama-65b --tp 8 --tokens 1,2 -o ") + path);
    EXPECT_EQ(said.exit, 3) << path;
    EXPECT_THAT(said.err, HasSubstr("error E0902: cannot write ")) << path;
    EXPECT_THAT(said.err, HasSubstr("each size has a file of its own, and this is none")) << path;
    EXPECT_FALSE(fs::exists("/dev/stdout-1")) << path;
  }
  EXPECT_EQ(run("plan llama-65b --tp 8 --tokens 1,2 -o p.json").exit, 0);
  EXPECT_TRUE(fs::exists(folder / "p-2.json"));
}

TEST_F(OutputFiles, OneFileByTwoPathsIsRefused) {
  fs::create_directory(folder / "d");
  std::ofstream(folder / "there") << "";
  fs::create_hard_link(folder / "there", folder / "hard");
  fs::create_symlink("x", folder / "soft");
  for (auto const* outputs : {"-o x --header ./x", "-o x --header d/../x", "-o there --header hard",
                              "-o x --header soft", "-o d/y --header d/./y"}) {
    auto const said = run(std::string(k_small_plan) + " " + outputs);
    EXPECT_EQ(said.exit, 2) << outputs;
    EXPECT_THAT(said.err, HasSubstr("error E0912: two outputs go to ")) << outputs;
    EXPECT_THAT(said.err, HasSubstr("is the same file")) << outputs;
  }
  EXPECT_FALSE(fs::exists(folder / "x")) << "nothing is written";
  EXPECT_EQ(run(std::string(k_small_plan) + " -o x --header d/x").exit, 0);
}

TEST_F(OutputFiles, WhatIsReadIsNotReplaced) {
  ASSERT_EQ(run(std::string(k_small_plan) + " -o p.json").exit, 0);
  fs::copy_file(std::string(TESSERA_SOURCE_DIR) + "/workloads/two-gemms.json", folder / "w.json");
  fs::create_symlink("p.json", folder / "link.json");
  for (auto const* command :
       {"plan w.json -o w.json", "plan w.json --html w.json", "generate p.json -o p.json",
        "generate link.json -o p.json", "simulate p.json -o ./p.json", "simulate p.json --trace link.json"}) {
    auto const before = read_text(folder / "p.json") + read_text(folder / "w.json");
    auto const said = run(command);
    EXPECT_EQ(said.exit, 2) << command;
    EXPECT_THAT(said.err, HasSubstr("error E0912")) << command;
    EXPECT_THAT(said.err, HasSubstr("is read, and would be replaced by what is made from it")) << command;
    EXPECT_EQ(read_text(folder / "p.json") + read_text(folder / "w.json"), before) << command;
  }
  EXPECT_EQ(run("generate p.json -o h.cuh").exit, 0);
}

TEST_F(OutputFiles, AFullDeviceIsAnErrorOfWhatIsPrintedToo) {
  for (auto const* arguments : {"--help", "plan --help", "--version", "machines"}) {
    auto const command = std::string("'" TESSERA_BINARY "' ") + arguments + " >/dev/full 2>/dev/null";
    EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 3) << arguments;
  }
}

TEST_F(OutputFiles, APipeThatNobodyReadsLeavesNothingHalfWritten) {
  auto const command = "cd '" + folder.path() + "' && (trap - PIPE; '" TESSERA_BINARY "' " + k_small_plan +
                       " -o p.json --csv - 2>/dev/null; echo $? >code) | true";
  ASSERT_EQ(std::system(command.c_str()), 0);
  for (auto const& entry : fs::directory_iterator(folder.path()))
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  EXPECT_EQ(fs::exists(folder / "p.json"), read_text(folder / "code") == "0\n");
}

TEST_F(OutputFiles, AFileThatMayNotGrowIsRefusedAndLeavesNone) {
  auto const command = "cd '" + folder.path() + "' && (ulimit -f 4; '" TESSERA_BINARY "' " + k_small_plan +
                       " -o a.json --html b.html) >/dev/null 2>../err-of-" +
                       fs::path(folder.path()).filename().string();
  int const status = std::system(command.c_str());
  auto const err = folder / ("../err-of-" + fs::path(folder.path()).filename().string());
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_THAT(read_text(err), HasSubstr("error E0902: cannot write "));
  EXPECT_TRUE(fs::is_empty(folder.path()));
  fs::remove(err);
}

TEST_F(OutputFiles, NamesCannotSteerATerminal) {
  auto plan = nlohmann::ordered_json::parse(run(std::string(k_small_plan) + " --json").out);
  plan["why"] =
      "because \x1b[2J\x1b]0;title\x07 of \xc2\x9b"
      "31m and \x7f";
  std::ofstream(folder / "plan.json") << plan.dump();
  auto timeline = nlohmann::ordered_json::parse(run("simulate plan.json --json").out);
  timeline["pipeline"] = "mlp \x1b[31mred";
  std::ofstream(folder / "run.json") << timeline.dump();
  for (auto const* reader : {"explain run.json", "diff run.json run.json"}) {
    auto const said = run(reader);
    EXPECT_EQ(said.exit, 0) << said.err;
    EXPECT_THAT(said.out, Not(HasSubstr("\x1b"))) << reader;
    EXPECT_THAT(said.out, HasSubstr("\\x1b[31mred")) << reader;
  }
  auto const explained = run("explain plan.json").out;
  EXPECT_THAT(explained, HasSubstr("\\x1b[2J\\x1b]0;title\\x07"));
  EXPECT_THAT(explained, HasSubstr("\\u009b31m and \\x7f"));
  EXPECT_EQ(run("explain plan.json --json").json()["why"], plan["why"]) << "JSON keeps what was said";
  auto named = plan;
  named["pipeline"]["name"] = "mlp \x1b[31mred";
  std::ofstream(folder / "named.json") << named.dump();
  EXPECT_EQ(run("explain named.json").err,
            "named.json:1: error E0252: \"name\" has control characters in it\n");
  plan["launches"][0]["\x1b[1munknown"] = 1;
  std::ofstream(folder / "plan.json") << plan.dump();
  auto const refused = run("explain plan.json");
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err, Not(HasSubstr("\x1b")));
  EXPECT_THAT(refused.err, HasSubstr("\\x1b[1munknown"));
}

}  // namespace
}  // namespace tessera
