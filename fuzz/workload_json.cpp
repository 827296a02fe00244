// SPDX-License-Identifier: Apache-2.0
// Any bytes as a workload: a refusal with diagnostics, or a value that prints, reads back the same and can be
// checked.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <variant>

#include "tessera/check/check.hpp"
#include "tessera/describe/workload_json.hpp"

namespace {

// check() is exact, so its time grows with the grid: seconds at its limit of 2^24 tiles, minutes under the
// sanitizers. Between 2000 tiles and that limit lies what a benchmark is for.
bool is_small_or_refused(tessera::Pipeline const& pipeline) {
  constexpr std::int64_t k_most_tiles = 2000, k_refused_from = (std::int64_t{1} << 24) + 1;
  std::int64_t tiles = 0;
  for (auto const& stage : pipeline.stages) {
    std::int64_t product = 1;
    for (auto const& dimension : stage.grid) {
      if (dimension.extent < 1 || dimension.extent >= k_refused_from) return true;
      product = std::min(product * dimension.extent, k_refused_from);
    }
    if (product == k_refused_from) return true;
    tiles += product;
  }
  return tiles <= k_most_tiles;
}

// print_workload does not keep source lines.
void forget_lines(tessera::Pipeline& pipeline) {
  pipeline.where = {};
  for (auto& stage : pipeline.stages) stage.where = {};
  for (auto& dependence : pipeline.dependences) dependence.where = {};
}

void forget_lines(tessera::OperatorGraph& graph) {
  graph.where = {};
  for (auto& op : graph.operators) op.where = {};
}

void forget_lines(tessera::Loop& loop) {
  forget_lines(loop.body);
  for (auto& carried : loop.carried) carried.dependence.where = {};
}

void forget_lines(tessera::Workload& workload) {
  std::visit([](auto& form) { forget_lines(form); }, workload);
}

void refuse_with_a_reason(tessera::Expected<tessera::CheckedPipeline> const& checked) {
  if (!checked && checked.error().empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto workload =
      tessera::parse_workload(std::string_view(reinterpret_cast<char const*>(data), size), "fuzz.json");
  if (!workload) {
    if (workload.error().empty()) std::abort();
    return 0;
  }
  auto const text = tessera::print_workload(*workload);
  auto again = tessera::parse_workload(text, "again.json");
  if (!again || tessera::print_workload(*again) != text) std::abort();
  forget_lines(*workload);
  forget_lines(*again);
  if (!(*workload == *again)) std::abort();

  if (auto const* pipeline = std::get_if<tessera::Pipeline>(&*workload);
      pipeline && is_small_or_refused(*pipeline)) {
    refuse_with_a_reason(tessera::check(*pipeline));
  }
  if (auto const* loop = std::get_if<tessera::Loop>(&*workload); loop && is_small_or_refused(loop->body)) {
    refuse_with_a_reason(tessera::check(*loop, 2));
  }
  return 0;
}
