// SPDX-License-Identifier: Apache-2.0
// Hugging Face's safetensors: what the header of a file says of its tensors, and which files an index names.
// Pure: the caller reads the bytes. `file` appears in diagnostics only.
//
//   file    8 bytes: n, little-endian | n bytes: JSON | the tensors' numbers, one behind the other
//   JSON    {"model.norm.weight": {"dtype": "BF16", "shape": [2048], "data_offsets": [0, 4096]}, ...}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../diagnostic.hpp"

namespace tessera {

struct StoredTensor {
  std::string name;
  std::string type;  ///< as the format names it: "BF16"
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< of its bytes in the file

  bool operator==(StoredTensor const&) const = default;
};

/// The first bytes of a file, which say how long its JSON is.
constexpr std::uint64_t k_safetensors_length_bytes = 8;
/// A header of 4096 tensors, which is as many as an object of JSON may have members here, is a tenth of it.
constexpr std::uint64_t k_most_safetensors_header_bytes = std::uint64_t{16} << 20;

/// How long the JSON is, told by the file's first bytes. E0570.
Expected<std::uint64_t> safetensors_header_bytes(std::string_view first_bytes, std::uint64_t file_bytes,
                                                 std::string const& file);

/// The tensors in the order of their bytes, which they share with none and which are all of the file's behind
/// the header. E0570: no such JSON, unknown types, sizes that are not shape times type, bytes of two tensors,
/// of none, or beyond the file's end.
Expected<std::vector<StoredTensor>> parse_safetensors_header(std::string_view json, std::uint64_t file_bytes,
                                                             std::string const& file);

/// model.safetensors.index.json: names of tensors, each with the name of a file beside the index. E0571 for
/// names of files that lead elsewhere.
Expected<std::vector<std::pair<std::string, std::string>>> parse_safetensors_index(std::string_view json,
                                                                                   std::string const& file);

/// "[2048, 8192] of BF16"
std::string to_text(std::vector<std::int64_t> const& shape, std::string const& type);

}  // namespace tessera
