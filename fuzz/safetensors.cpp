// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file, and as an index: a refusal with diagnostics, or tensors whose bytes lie
// one behind the other up to the file's end.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/weights/safetensors.hpp"

namespace {

void check_header(std::string_view json, std::uint64_t file_bytes) {
  auto const tensors = tessera::parse_safetensors_header(json, file_bytes, "fuzz.safetensors");
  if (!tensors) {
    if (tensors.error().empty()) std::abort();
    (void)tessera::to_text(tensors.error());
    return;
  }
  auto at = tessera::k_safetensors_length_bytes + json.size();
  for (auto const& one : *tensors) {
    if (one.begin != at || one.end < one.begin) std::abort();
    at = one.end;
    (void)tessera::to_text(one.shape, one.type);
  }
  if (at != file_bytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view const bytes(reinterpret_cast<char const*>(data), size);
  // A document's mutator changes JSON, so most inputs are a header alone: with the data it asks for, and with
  // none.
  for (std::uint64_t const data_bytes : {0, 16, 4096})
    check_header(bytes, tessera::k_safetensors_length_bytes + size + data_bytes);
  auto const first = bytes.substr(0, tessera::k_safetensors_length_bytes);
  if (auto const length = tessera::safetensors_header_bytes(first, size, "fuzz.safetensors"); length)
    check_header(bytes.substr(tessera::k_safetensors_length_bytes, static_cast<std::size_t>(*length)), size);
  auto const index = tessera::parse_safetensors_index(bytes, "fuzz.index.json");
  if (!index && index.error().empty()) std::abort();
  if (index)
    for (auto const& [name, file] : *index)
      if (file.empty() || file.find('/') != std::string::npos) std::abort();
  return 0;
}
