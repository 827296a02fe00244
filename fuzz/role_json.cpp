// SPDX-License-Identifier: Apache-2.0
// Any bytes as a loop with roles: a refusal with diagnostics, or a value that prints and reads back the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/simulate/role_json.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const roles =
      tessera::parse_roles(std::string_view(reinterpret_cast<char const*>(data), size), "fuzz.json");
  if (!roles) {
    if (roles.error().empty()) std::abort();
    return 0;
  }
  auto const text = tessera::print_roles(*roles);
  auto const again = tessera::parse_roles(text, "again.json");
  if (!again || tessera::print_roles(*again) != text) std::abort();
  return 0;
}
