// SPDX-License-Identifier: Apache-2.0
// Any bytes as the tuner's cache: a refusal with diagnostics, or a cache that prints and reads back the same,
// in which every entry is found, and that merges with itself to itself.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/tune/cache_json.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const cache =
      tessera::parse_tune_cache(std::string_view(reinterpret_cast<char const*>(data), size), "fuzz.json");
  if (!cache) {
    if (cache.error().empty()) std::abort();
    return 0;
  }
  auto const text = tessera::print_tune_cache(*cache);
  auto again = tessera::parse_tune_cache(text, "again.json");
  if (!again || tessera::print_tune_cache(*again) != text) std::abort();
  for (auto const& entry : cache->entries) {
    if (tessera::find(*cache, entry.key) != &entry) std::abort();
    auto const guesses = tessera::nearest(*cache, entry.key);
    if (guesses.empty() || guesses.front() != &entry) std::abort();
    if (!tessera::say_if_foreign(*cache, entry.key, "fuzz.json").empty()) std::abort();
  }
  for (auto const& product : cache->products)
    if (tessera::find(*cache, product.key) != &product) std::abort();
  tessera::merge(*again, *cache);
  if (tessera::print_tune_cache(*again) != text) std::abort();
  return 0;
}
