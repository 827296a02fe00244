// SPDX-License-Identifier: Apache-2.0
// Any bytes as a timeline: a refusal with diagnostics, or a value that prints and reads back the same, and
// that everything that draws or counts can be given.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/report/report.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const timeline =
      tessera::parse_timeline(std::string_view(reinterpret_cast<char const*>(data), size), "fuzz.json");
  if (!timeline) {
    if (timeline.error().empty()) std::abort();
    return 0;
  }
  auto const text = tessera::print_timeline(*timeline);
  auto const again = tessera::parse_timeline(text, "again.json");
  if (!again || tessera::print_timeline(*again) != text) std::abort();
  (void)tessera::summary(*timeline);
  (void)tessera::draw(*timeline);
  (void)tessera::diff(*timeline, *again);
  (void)tessera::timeline_csv(*timeline);
  (void)tessera::perfetto_trace(*timeline);
  (void)tessera::timeline_html(*timeline);
  return 0;
}
