// SPDX-License-Identifier: Apache-2.0
// What a program that the tool started, and its temporary files, come to when the tool is ended.
#include <signal.h>

#include <array>
#include <chrono>
#include <fstream>
#include <thread>

#include "cli/alone.hpp"
#include "tessera/report/report.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// Waits for an event of another process; the deadline only ends a hang.
template <class Event>
bool comes_true(Event const& event) {
  for (auto const end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
       std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(std::chrono::milliseconds(2)))
    if (event()) return true;
  return event();
}

/// Gone, or waiting for whoever adopted it to hear of its end, which some containers' first process does
/// late.
bool has_ended(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return true;
  auto const state = text.find(") ");  // behind the command's name
  return state == std::string::npos || text[state + 2] == 'Z' || text[state + 2] == 'X';
}

std::size_t entries(std::string const& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

struct EndedCompanion : AloneInAFolder {
  EndedCompanion() { fs::create_directory(folder / "tmp"); }

  /// The tool's process id; `command` runs in the folder, with its temporary files in tmp.
  pid_t begin(std::string const& command) const {
    auto const line = "cd " + folder.path() + " && TMPDIR=" + (folder / "tmp") + " exec ./tessera " +
                      command + " >out 2>err </dev/null";
    pid_t const process = fork();
    if (process == 0) {
      // Whoever runs the tests may ignore them (nohup, a shell's background), and children inherit that.
      for (int const one : {SIGINT, SIGTERM, SIGHUP}) ::signal(one, SIG_DFL);
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
    return process;
  }
  static int status_of(pid_t process) {
    int status = 0;
    waitpid(process, &status, 0);
    return status;
  }
};

TEST_F(EndedCompanion, SignalsGoToItAndEndTheToolAfterIt) {
  for (auto const& [name, program, command] :
       {std::tuple{SIGINT, "tessera-gpu", "run llama-65b --tp 8 --tokens 1"},
        std::tuple{SIGTERM, "tessera-gpu", "tune llama-65b --tp 8 --tokens 1"},
        std::tuple{SIGHUP, "tessera-bench", "bench mlp llama-65b --tp 8 --tokens 1"},
        std::tuple{SIGINT, "tessera-decode", "run llama-3.2-1b --decode --prompt-ids 1"},
        std::tuple{SIGINT, "tessera-gpu", "--json run llama-65b --tp 8 --tokens 1"},
        std::tuple{SIGTERM, "tessera-probe", "probe --quick"}}) {
    // The sleeper says its own name: a shell's child that is told before it has left the shell's traps
    // behind loses the signal.
    put_beside(program,
               "trap 'echo told >told; kill $!; exit 0' INT TERM HUP\n"
               "sh -c 'echo $$ >sleeper.new; mv sleeper.new sleeper; exec sleep 600' & wait\n");
    for (auto const* left : {"told", "sleeper"}) fs::remove(folder / left);
    auto const tool = begin(command);
    ASSERT_TRUE(comes_true([&] { return fs::exists(folder / "sleeper"); })) << command;
    EXPECT_EQ(kill(tool, name), 0);
    auto const status = status_of(tool);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == name) << command << ": " << status;
    EXPECT_TRUE(fs::exists(folder / "told")) << command;
    auto const sleeper = std::stoi(read_text(folder / "sleeper"));
    EXPECT_TRUE(comes_true([&] { return has_ended(sleeper); })) << command << " leaves an orphan";
    EXPECT_EQ(entries(folder / "tmp"), 0U) << command;
  }
}

TEST_F(EndedCompanion, ASecondSignalKillsWhatDoesNotListen) {
  put_beside("tessera-gpu",
             "trap 'echo told >told' INT TERM\necho $$ >there.new; mv there.new there\n"
             "while :; do sleep 0.01; done\n");
  auto const tool = begin("run llama-65b --tp 8 --tokens 1");
  ASSERT_TRUE(comes_true([&] { return fs::exists(folder / "there"); }));
  kill(tool, SIGTERM);
  ASSERT_TRUE(comes_true([&] { return fs::exists(folder / "told"); }));
  kill(tool, SIGTERM);
  auto const status = status_of(tool);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_EQ(entries(folder / "tmp"), 0U);
}

TEST_F(EndedCompanion, AnEndThatWasAskedForIsNotComplainedOf) {
  put_beside("tessera-gpu", "echo $$ >there.new; mv there.new there; exec sleep 600\n");
  auto const tool = begin("run llama-65b --tp 8 --tokens 1");
  ASSERT_TRUE(comes_true([&] { return fs::exists(folder / "there"); }));
  kill(tool, SIGINT);
  auto const status = status_of(tool);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
  EXPECT_EQ(read_text(folder / "err"), "");
}

TEST_F(EndedCompanion, ItsOwnEndByASignalIsSaid) {
  put_beside("tessera-gpu", "kill -SEGV $$\n");
  auto const said = says("run llama-65b --tp 8 --tokens 1");
  EXPECT_EQ(said.exit, 3);
  EXPECT_THAT(said.err, testing::MatchesRegex("error E0936: [^\n]*/tessera-gpu was ended by signal 11 "
                                              "[(]Segmentation fault[)]\n   hint: [^\n]*\n"));
  EXPECT_EQ(entries(folder / "tmp"), 0U);
}

TEST_F(EndedCompanion, WithJsonWhatItRefusesIsJsonToo) {
  Diagnostics const all{
      {"E0933", Severity::error, {}, "no GPU can be used: no driver", {"more: tessera explain E0933"}, ""},
      {"E0571", Severity::error, {"a/b.json", 0}, "two: of them", {}, "fetch them"},
      {"E0103",
       Severity::warning,
       {"w.json", 12},
       "outside its grid",
       {"first: a", "second: b"},
       "widen it"}};
  std::ofstream(folder / "said") << "3 of 4\r\x1b[K" << to_text(all) << "\n\n   no note\nkept in tune.json\n";
  for (auto const* more : {"", "sleep 5 & ", "sleep 0.2; "}) {  // a child of its own may hold the pipe
    put_beside("tessera-gpu", std::string("cat said >&2; ") + more + "exit 3\n");
    auto const said = says("--json run llama-65b --tp 8 --tokens 1");
    EXPECT_EQ(said.exit, 3) << more;
    EXPECT_EQ(said.out, print_diagnostics(all)) << more;
    EXPECT_THAT(said.err, testing::HasSubstr("kept in tune.json\n")) << more;
  }
  put_beside("tessera-gpu", "echo wrong; echo 'error: no code' >&2; exit 1\n");
  EXPECT_EQ(says("--json run llama-65b --tp 8 --tokens 1").out, "wrong\n");
  put_beside("tessera-gpu", "cat said >&2; exit 42\n");
  EXPECT_THAT(says("--json run llama-65b --tp 8 --tokens 1").out, testing::HasSubstr("\"code\": \"E0936\""));
  put_beside("tessera-gpu", "cat said >&2; echo fine\n");
  EXPECT_EQ(says("--json run llama-65b --tp 8 --tokens 1").out, "fine\n");
}

/// Before they look for a GPU.
TEST(CompanionsWords, ThatAreNoNumbersAreRefused) {
  auto const folder_of_tool = std::filesystem::path(TESSERA_BINARY).parent_path();
  for (auto const& [program, words, refusal] : std::initializer_list<std::array<char const*, 3>>{
           {"tessera-flow", "16 16 16 x vortices 0.05 0.6 chosen 1", "\"x\" is no such number"},
           {"tessera-flow", "99999999999 16 16 1 vortices 0.05 0.6 chosen 1", "\"99999999999\" is no such"},
           {"tessera-flow", "5x 16 16 1 vortices 0.05 0.6 chosen 1", "\"5x\" is no such number"},
           {"tessera-flow", "16 16 16 1 vortices nan 0.6 chosen 1", "\"nan\" is no such number"},
           {"tessera-flow", "16 16 16 1 vortices 0.05 0.6 none 1", "\"none\" is no variant"},
           {"tessera-flow", "16", "usage: tessera-flow <width>"},
           {"tessera-peers", "run gemm-all-reduce 8 5x 8 bf16 2 full reach -", "\"5x\" is no whole number"},
           {"tessera-peers", "run", "usage: tessera-peers tune|run|bench"},
           {"tessera-network", "resnet-50 1x", "\"1x\" are no numbers of images"}}) {
    auto const path = folder_of_tool / program;
    if (!std::filesystem::exists(path)) continue;  // built where there is nvcc
    Folder const outputs;
    auto const status =
        std::system(("'" + path.string() + "' " + words + " 2>'" + (outputs / "err") + "'").c_str());
    EXPECT_EQ(WEXITSTATUS(status), 2) << program << " " << words;
    EXPECT_THAT(read_text(outputs / "err"), testing::StartsWith(std::string("error E0908: ") + refusal));
  }
}

TEST_F(EndedCompanion, TemporaryFilesAreInAFolderThatNobodyElseSees) {
  put_beside("tessera-gpu", "stat -c %a \"$(dirname \"$4\")\"; ls \"$4\"\n");
  EXPECT_THAT(says("run llama-65b --tp 8 --tokens 1").out,
              testing::MatchesRegex("700\n[^\n]*/tessera-[A-Za-z0-9]{6}/size-0.json\n"));
}

}  // namespace
}  // namespace tessera
