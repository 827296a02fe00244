// SPDX-License-Identifier: Apache-2.0
// Any bytes as a machine profile: a refusal with diagnostics, or a profile that prints and reads back the
// same, and whose numbers are in the ranges that their table promises.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/measure/machine_fields.hpp"
#include "tessera/measure/machine_json.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const machine =
      tessera::parse_machine(std::string_view(reinterpret_cast<char const*>(data), size), "fuzz.json");
  if (!machine) {
    if (machine.error().empty()) std::abort();
    return 0;
  }
  auto const text = tessera::print_machine(*machine);
  auto const again = tessera::parse_machine(text, "again.json");
  if (!again || tessera::print_machine(*again) != text) std::abort();
  if (!tessera::contradictions(*machine).empty()) std::abort();
  for (auto const& number : tessera::machine_numbers()) {
    auto const value = tessera::machine_number(*machine, number.name);
    if (value && !std::isfinite(*value)) std::abort();
  }
  // An SM holds what it holds: nothing divides by zero.
  tessera::Resources resources;
  resources.threads = 256;
  resources.registers_per_thread = 64;
  if (tessera::occupancy(*machine, resources) < 0) std::abort();
  return 0;
}
