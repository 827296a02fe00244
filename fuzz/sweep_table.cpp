// SPDX-License-Identifier: Apache-2.0
// Any bytes as a table of a sweep, CSV and JSON: a refusal with diagnostics, or a table that prints and reads
// back the same, and that can be merged.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/sweep/sweep_json.hpp"

namespace {

using tessera::Expected;
using tessera::SweepTable;

template <class Parse, class Print>
void read_back(std::string_view text, Parse parse, Print print) {
  auto const table = parse(text, "fuzz");
  if (!table) {
    if (table.error().empty()) std::abort();
    return;
  }
  auto const again = parse(print(*table), "again");
  if (!again || !(*again == *table)) std::abort();
  auto const merged = tessera::merge({{"fuzz", *table}});
  if (!merged && merged.error().empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  auto const csv = [](auto of, char const* file) { return tessera::parse_sweep_csv(of, file); };
  auto const json = [](auto of, char const* file) { return tessera::parse_sweep_json(of, file); };
  read_back(text, csv, tessera::print_sweep_csv);
  read_back(text, json, tessera::print_sweep_json);
  return 0;
}
