// SPDX-License-Identifier: Apache-2.0
// Names that have broken headers, or could: each is refused, or its header compiles.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "generate/examples.hpp"
#include "tessera/generate/generate.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr char const* k_refused[] = {
    // the header's own
    "grids", "sets", "maps", "dependences", "orders", "workers", "chain", "tessera", "index", "grid",
    "splits", "threads", "start", "Order", "Operands", "Posts", "BeforeStore", "custom_order", "wait_kernel",
    "reorder_loads", "plain_store", "triggers_at_start", "completes_after_previous", "announces_start",
    "persistent_blocks", "variant", "Tickets", "tickets", "first_stage", "table",
    // the language's
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch",
    "char", "char8_t", "char16_t", "char32_t", "class", "compl", "concept", "const", "consteval", "constexpr",
    "constinit", "const_cast", "continue", "co_await", "co_return", "co_yield", "decltype", "default",
    "delete", "do", "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false",
    "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new",
    "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public",
    "register", "reinterpret_cast", "requires", "return", "short", "signed", "sizeof", "static",
    "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local", "throw", "true",
    "try", "typedef", "typeid", "typename", "typeof", "union", "unsigned", "using", "virtual", "void",
    "volatile", "wchar_t", "while", "xor", "xor_eq",
    // macros
    "TESSERA_HOST_DEVICE", "NULL", "EOF", "errno", "assert", "offsetof", "linux", "unix", "stdin",
    // no identifiers
    "", "1a", "a b", "a-b", "a__b", "_a", "a;b", "a\nb", "a\"b", "a//b", "caf\xc3\xa9"};

constexpr char const* k_accepted[] = {
    "a",         "x_",        "std",    "main",         "printf",    "size_t",     "int32_t",  "Tile",
    "TileBox",   "tile",      "access", "box",          "Set",       "accesses",   "Policy",   "first",
    "count",     "StageView", "dim3",   "stages",       "threadIdx", "semaphores", "counters", "gemm1_0",
    "gemm2_a_0", "Digit",     "uint32", "tickets_of_a", "blocks",    "cut_box",    "RowMajor"};

std::string header_of(std::string const& name, std::string const& pipeline, Diagnostics& refusal) {
  auto plan = examples::attention();
  plan.pipeline.name = pipeline;
  plan.pipeline.stages[0].name = name;
  for (auto& dim : plan.pipeline.stages[1].grid) dim.name = name;  // the consumer's become variables
  auto const header = generate_header(plan);
  if (header) return *header;
  refusal = header.error();
  return "";
}

bool compiles(std::string const& text, std::string& messages) {
  auto const folder = fs::temp_directory_path() / ("tessera-names-" + std::to_string(getpid()));
  fs::create_directories(folder);
  auto const source = (folder / "all.cpp").string(), log = (folder / "log").string();
  std::ofstream(source) << text;
  auto const command =
      std::string("'" TESSERA_COMPILER "' -std=c++17 -fsyntax-only -Wall -Wextra -Werror -I '") +
      TESSERA_SOURCE_DIR + "/include' '" + source + "' 2>'" + log + "'";
  int const status = std::system(command.c_str());
  std::ostringstream said;
  said << std::ifstream(log).rdbuf();
  messages = said.str().substr(0, 4000);
  fs::remove_all(folder);
  return status == 0;
}

TEST(NastyNames, AreRefusedByCode) {
  for (std::string const name : k_refused) {
    Diagnostics refusal;
    EXPECT_EQ(header_of(name, "p", refusal), "") << name;
    ASSERT_FALSE(refusal.empty()) << name;
    EXPECT_TRUE(refusal.front().code == "E0401" || refusal.front().code == "E0402") << name;
  }
}

TEST(NastyNames, OrTheHeaderCompiles) {
  std::string all = "#include <cassert>\n#include <cmath>\n#include <cstdio>\n#include <cstdlib>\n";
  int count = 0;
  for (std::string const name : k_accepted) {
    Diagnostics refusal;
    all += header_of(name, "p" + std::to_string(count++), refusal) + "\n";
    EXPECT_TRUE(refusal.empty()) << to_text(refusal);
  }
  // As a pipeline's name, any text will do.
  std::set<std::string> spaces;
  for (auto const* list : {k_refused, k_accepted})
    for (std::size_t i = 0; i < (list == k_refused ? std::size(k_refused) : std::size(k_accepted)); ++i) {
      Diagnostics refusal;
      auto header = header_of("a", list[i], refusal);
      EXPECT_TRUE(refusal.empty()) << to_text(refusal);
      auto const space = header.substr(header.find("\nnamespace "), 80);
      if (spaces.insert(space.substr(0, space.find('{'))).second) all += header + "\n";
    }
  std::string messages;
  std::string::size_type at = 0;
  while ((at = all.find("#pragma once", at)) != std::string::npos) all.erase(at, 12);
  EXPECT_TRUE(compiles(all, messages)) << messages;
}

TEST(NastyNames, TheCompilerSeesWhatIsWrong) {
  std::string messages;
  EXPECT_FALSE(compiles("struct index { static constexpr int index = 0; };\n", messages));
}

TEST(NastyNames, DimensionsStayApart) {
  auto plan = examples::attention();
  plan.pipeline.stages[1].grid[0].name = "tile_at_1";
  plan.pipeline.stages[1].grid[1].name = "class";
  auto const header = generate_header(plan);
  ASSERT_TRUE(header);
  std::string messages, text = *header;
  text.erase(text.find("#pragma once"), 12);
  EXPECT_TRUE(compiles(text, messages)) << messages;
}

TEST(NastyNames, AStageIsNotATableOfTickets) {
  auto plan = examples::mixed();
  plan.pipeline.stages[0].name = plan.pipeline.stages[1].name + "_tickets";
  auto const header = generate_header(plan);
  ASSERT_FALSE(header);
  EXPECT_EQ(header.error().front().code, "E0402");
}

}  // namespace
}  // namespace tessera
