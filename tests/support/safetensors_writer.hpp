// SPDX-License-Identifier: Apache-2.0
// Writes files as Hugging Face has them, right ones and broken ones.
#pragma once

#include <cstdint>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

namespace tessera::support {

struct WrittenTensor {
  std::string name, type;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

inline std::string length_bytes(std::uint64_t length) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(length >> (8 * i) & 0xff);
  return text;
}

/// "[0, 4]", or with any separator.
inline std::string list_text(std::vector<std::int64_t> const& numbers) {
  std::string text;
  for (auto const one : numbers) text += (text.empty() ? "" : ",") + std::to_string(one);
  return "[" + text + "]";
}

/// A file of this header, whatever it says.
inline std::string safetensors_of(std::string const& json, std::string const& data) {
  return length_bytes(json.size()) + json + data;
}

inline std::string safetensors_of(std::vector<WrittenTensor> const& tensors) {
  std::string json = R"({"__metadata__":{"format":"pt"})", data;
  for (auto const& one : tensors) {
    auto const begin = static_cast<std::int64_t>(data.size());
    data += one.bytes;
    json += ",\"" + one.name + "\":{\"dtype\":\"" + one.type + "\",\"shape\":" + list_text(one.shape) +
            ",\"data_offsets\":" + list_text({begin, static_cast<std::int64_t>(data.size())}) + "}";
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');  // as the format's own library does
  return safetensors_of(json, data);
}

/// So many bytes of a tensor that all differ from their neighbours'.
inline WrittenTensor counting_tensor(std::string name, std::string type, std::vector<std::int64_t> shape,
                                     std::int64_t bytes_each) {
  WrittenTensor one{std::move(name), std::move(type), std::move(shape), {}};
  auto const count = std::accumulate(one.shape.begin(), one.shape.end(), bytes_each, std::multiplies<>());
  for (std::int64_t i = 0; i < count; ++i) one.bytes += static_cast<char>(i * 7 + 1);
  return one;
}

inline void write_bytes(std::string const& path, std::string const& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace tessera::support
