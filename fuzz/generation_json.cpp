// SPDX-License-Identifier: Apache-2.0
// Any bytes as a measured run of a decoder: a refusal with diagnostics, or a value that prints and reads back
// the same, and that can be shown.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/report/generation.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const generation =
      tessera::parse_generation(std::string_view(reinterpret_cast<char const*>(data), size), "fuzz.json");
  if (!generation) {
    if (generation.error().empty()) std::abort();
    return 0;
  }
  auto const text = tessera::print_generation(*generation);
  auto const again = tessera::parse_generation(text, "again.json");
  if (!again || tessera::print_generation(*again) != text) std::abort();
  (void)tessera::summary(*generation);
  (void)tessera::new_tokens(*generation);
  return 0;
}
