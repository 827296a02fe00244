// SPDX-License-Identifier: Apache-2.0
// Any lines as the names of a plan: a refusal with diagnostics, or a header in which all names are valid and
// distinct. The first line chooses one of the examples of tests/generate, the second is the plan's name, then
// come stages, operands, dimensions, and the file of the stages' lines; what is not there stays.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "generate/examples.hpp"
#include "support/header_names.hpp"
#include "tessera/generate/generate.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

using tessera::Plan;

std::vector<Plan> const& examples() {
  static std::vector<Plan> const plans = {
      tessera::examples::mixed(),       tessera::examples::fused(true),
      tessera::examples::convolution(), tessera::examples::attention(),
      tessera::examples::fused(false),  tessera::examples::mlp("TileSync", tessera::Mechanism::wait_kernel)};
  return plans;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines(1);
  for (char const c : text)
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  return lines;
}

std::string text_of(std::vector<std::string> const& lines) {
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) text += (i > 0 ? "\n" : "") + lines[i];
  return text;
}

/// The places of an example that have names, in the order of the lines.
template <class Use>
void for_each_name(Plan& plan, Use const& use) {
  use(plan.pipeline.name);
  for (auto& stage : plan.pipeline.stages) use(stage.name);
  for (auto& stage : plan.pipeline.stages)
    for (auto& operand : stage.operands) {
      auto const before = operand.name;
      use(operand.name);
      for (auto& dependence : plan.pipeline.dependences)
        if (&plan.pipeline.stages[static_cast<std::size_t>(dependence.consumer)] == &stage &&
            dependence.operand == before)
          dependence.operand = operand.name;
    }
  for (auto& stage : plan.pipeline.stages)
    for (auto& dimension : stage.grid) use(dimension.name);
  for (auto& stage : plan.pipeline.stages) use(stage.where.file);
}

Plan chosen(std::vector<std::string> const& lines) {
  auto const which = lines[0].empty() ? 0u : static_cast<unsigned char>(lines[0][0]);
  return examples()[which % examples().size()];
}

/// Words of the examples' own headers: what a name is most likely to collide with.
std::vector<std::string> const& words() {
  static auto const all = [] {
    std::vector<std::string> found;
    for (auto const& plan : examples())
      for (auto const& word : tessera::support::words_of_header(tessera::generate_header(plan).value()))
        found.push_back(word);
    return found;
  }();
  return all;
}

}  // namespace

/// Mostly changes one name: into a word of a header, into another name, or by a suffix that headers add.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  std::minstd_rand random(seed);
  if (random() % 4 == 0) return LLVMFuzzerMutate(data, size, most);
  auto lines = lines_of({reinterpret_cast<char const*>(data), size});
  auto plan = chosen(lines);
  std::size_t names = 1;
  for_each_name(plan, [&](std::string const& name) {
    if (names >= lines.size()) lines.push_back(name);
    ++names;
  });
  auto& line = lines[1 + random() % (lines.size() - 1)];
  switch (random() % 4) {
    case 0: line = words()[random() % words().size()]; break;
    case 1: line = lines[1 + random() % (lines.size() - 1)]; break;
    case 2: line += random() % 2 == 0 ? "_" : "_" + std::to_string(random() % 5); break;
    default: line += "_" + words()[random() % words().size()];
  }
  auto const text = text_of(lines);
  if (text.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const lines = lines_of({reinterpret_cast<char const*>(data), size});
  auto plan = chosen(lines);
  std::size_t next = 1;
  for_each_name(plan, [&](std::string& name) {
    if (next < lines.size()) name = lines[next];
    ++next;
  });
  auto const header = tessera::generate_header(plan);
  if (!header) {
    if (header.error().empty()) std::abort();
    return 0;
  }
  auto const problem = tessera::support::HeaderNames::problem_of(*header);
  if (!problem.empty()) {
    std::fprintf(stderr, "%s in\n%s\n", problem.c_str(), header->c_str());
    std::abort();
  }
  return 0;
}
