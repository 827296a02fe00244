// SPDX-License-Identifier: Apache-2.0
// The documentation says what the tool says: captured help, and a page for every diagnostic.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "cli/program.hpp"

namespace tessera {
namespace {

std::string const k_root = TESSERA_SOURCE_DIR;

TEST(Documentation, ReferenceIsTheHelpOfEveryCommand) {
  auto const help = [](std::string const& arguments) {
    auto const said = tessera_says(arguments + " --help", k_root);
    EXPECT_EQ(said.exit, 0);
    return "```\n$ tessera " + (arguments.empty() ? "" : arguments + " ") + "--help\n" + said.out + "```\n";
  };
  std::string text =
      "# The command line\n\nWhat `tessera --help` and the help of every command print, captured by a test; "
      "nothing is said "
      "here that the tool does not say itself.\n\n";
  text += help("");
  for (auto const* command : {"plan",
                              "check",
                              "simulate",
                              "sweep",
                              "generate",
                              "explain",
                              "why-not",
                              "diff",
                              "tune",
                              "run",
                              "probe",
                              "bench",
                              "bench mlp",
                              "bench workload",
                              "bench overhead",
                              "bench ablation",
                              "bench lattice-boltzmann",
                              "bench gemm-all-reduce",
                              "doctor",
                              "workloads",
                              "machines"})
    text += "\n## tessera " + std::string(command) + "\n\n" + help(command);
  expect_golden(text, "docs/reference/cli.md");
}

// A block that begins like a workload and leaves nothing out is one.
TEST(Documentation, WorkloadsOfPagesAreAccepted) {
  Folder const folder;
  int whole = 0;
  for (auto const& entry : std::filesystem::directory_iterator(k_root + "/docs")) {
    if (entry.path().extension() != ".md") continue;
    auto const page = read_text(entry.path());
    std::string const fence = "```json\n";
    for (auto at = page.find(fence); at != std::string::npos; at = page.find(fence, at + 1)) {
      auto const begin = at + fence.size();
      auto const block = page.substr(begin, page.find("```", begin) - begin);
      if (block.rfind("{\n", 0) != 0 || block.find("...") != std::string::npos) continue;
      ++whole;
      std::ofstream(folder / "block.json") << block;
      bool const repeats = block.find("\"loop\"") != std::string::npos;
      auto const said =
          tessera_says(std::string("check block.json") + (repeats ? " --iterations 3" : ""), folder.path());
      EXPECT_EQ(said.exit, 0) << entry.path() << ": " << said.err;
    }
  }
  EXPECT_GE(whole, 2);
}

// The page's blocks of commands end with what the last of them prints.
TEST(Documentation, TimelinesOfT3AreWhatTheToolPrints) {
  Folder const folder;
  auto renewed = read_text(k_root + "/docs/t3-timelines.md");
  std::string const prompt = "$ tessera ", fence = "```\n";
  auto const begin = renewed.find(fence + prompt) + fence.size();
  auto const end = renewed.find(fence, begin);
  std::istringstream lines(renewed.substr(begin, end - begin));
  std::string commands, printed;
  for (std::string line; std::getline(lines, line);)
    if (line.rfind(prompt, 0) == 0) {
      auto const said = tessera_says(line.substr(prompt.size()), folder.path());
      EXPECT_EQ(said.exit, 0) << said.err;
      commands += line + "\n";
      printed = said.out;
    }
  EXPECT_THAT(printed, testing::HasSubstr("waiting for stores to be taken"));
  expect_golden(renewed.replace(begin, end - begin, commands + printed), "docs/t3-timelines.md");
}

// The README shows a part of an explanation; "..." stands for what it leaves out.
TEST(Documentation, ReadmeShowsWhatPlanPrints) {
  auto const readme = read_text(k_root + "/README.md");
  std::string const prompt = "$ tessera plan ";
  auto const start = readme.find(prompt);
  ASSERT_NE(start, std::string::npos);
  auto const block = readme.substr(start + 2, readme.find("```", start) - start - 2);
  auto const line_end = block.find('\n');
  auto const said = tessera_says(block.substr(std::string("tessera ").size(), line_end - 8), k_root);
  EXPECT_EQ(said.exit, 0) << said.err;
  std::istringstream lines(block.substr(line_end + 1));
  auto renewed = readme;
  for (std::string line; std::getline(lines, line);)
    if (line != "  ...") {
      // A new machine profile changes the times: the line that begins alike takes its place.
      auto const like = said.out.find('\n' + line.substr(0, 14));
      if (std::getenv("TESSERA_UPDATE_GOLDEN") && line.size() > 14 && like != std::string::npos &&
          said.out.find(line + "\n") == std::string::npos) {
        auto const now = said.out.substr(like + 1, said.out.find('\n', like + 1) - like - 1);
        renewed.replace(renewed.find(line), line.size(), now);
        std::ofstream(k_root + "/README.md") << renewed;
        line = now;
      }
      EXPECT_THAT(said.out, testing::HasSubstr(line + "\n"));
    }
}

/// Codes in the string literals of the sources, with one file for each.
std::map<std::string, std::string> codes_in_sources() {
  std::map<std::string, std::string> codes;
  std::regex const literal("\"(E[0-9]{4})\"");
  for (auto const* folder : {"/src", "/tools", "/kernels", "/python/tessera"})
    for (auto const& file : std::filesystem::recursive_directory_iterator(k_root + folder)) {
      auto const extension = file.path().extension();
      if (extension != ".cpp" && extension != ".hpp" && extension != ".py") continue;
      auto const text = read_text(file.path().string());
      for (std::sregex_iterator it(text.begin(), text.end(), literal), end; it != end; ++it)
        codes.emplace((*it)[1], file.path().filename().string());
    }
  return codes;
}

std::set<std::string> pages() {
  std::set<std::string> found;
  for (auto const& file : std::filesystem::directory_iterator(k_root + "/docs/diagnostics"))
    if (std::regex_match(file.path().filename().string(), std::regex("E[0-9]{4}\\.md")))
      found.insert(file.path().stem().string());
  return found;
}

// That every code has a page is tests/docs/check's; this is the other way round.
TEST(Documentation, EveryPageIsOfADiagnostic) {
  auto const used = codes_in_sources();
  for (auto const& code : pages())
    EXPECT_EQ(used.count(code), 1u) << code << " has a page, but nothing says it";
}

TEST(Documentation, PagesHaveTitleAndFix) {
  for (auto const& code : pages()) {
    auto const text = read_text(k_root + "/docs/diagnostics/" + code + ".md");
    EXPECT_THAT(text, testing::StartsWith("# " + code + ": "));
    EXPECT_GE(std::count(text.begin(), text.end(), '\n'), 8) << code;
  }
}

}  // namespace
}  // namespace tessera
