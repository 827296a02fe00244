// SPDX-License-Identifier: Apache-2.0
// Any bytes as a convolution network, each of its layers in turn: a refusal with diagnostics, or operators
// that print and read back the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/describe/workload_json.hpp"
#include "tessera/document.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  tessera::ConvOptions options;
  // By the input's length, so that one input always means the same.
  options.images = 1 + static_cast<std::int64_t>(size % 5);
  auto const summary = tessera::summarize_document(text, "fuzz.json");
  if (!summary && summary.error().empty()) std::abort();
  if (summary && !summary->layers.empty()) options.layer = summary->layers[size % summary->layers.size()];

  auto const graph = tessera::import_conv_network(text, "fuzz.json", options);
  if (!graph) {
    if (graph.error().empty()) std::abort();
    return 0;
  }
  auto const printed = tessera::print_workload(*graph);
  auto const again = tessera::parse_workload(printed, "again.json");
  if (!again || tessera::print_workload(*again) != printed) std::abort();
  return 0;
}
