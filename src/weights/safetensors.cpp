// SPDX-License-Identifier: Apache-2.0
#include "tessera/weights/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "diagnostic/nearest.hpp"
#include "json/reader.hpp"

namespace tessera {
namespace {

using json::Document;
using json::Node;
using json::ObjectReader;

constexpr json::Codes k_header{"E0570", "E0570", "E0570", "E0570"};
constexpr json::Codes k_index{"E0571", "E0571", "E0571", "E0571"};
constexpr char const* k_whole_file = "copy or download the file again";

// All types of whole bytes that the format has.
constexpr std::array<std::pair<char const*, unsigned>, 16> k_types{{{"BF16", 2},
                                                                    {"F16", 2},
                                                                    {"F32", 4},
                                                                    {"F64", 8},
                                                                    {"F8_E4M3", 1},
                                                                    {"F8_E5M2", 1},
                                                                    {"F8_E8M0", 1},
                                                                    {"BOOL", 1},
                                                                    {"I8", 1},
                                                                    {"U8", 1},
                                                                    {"I16", 2},
                                                                    {"U16", 2},
                                                                    {"I32", 4},
                                                                    {"U32", 4},
                                                                    {"I64", 8},
                                                                    {"U64", 8}}};

unsigned bytes_of_type(std::string const& type) {
  for (auto const& [name, bytes] : k_types)
    if (type == name) return bytes;
  return 0;
}

std::string shown(std::string const& name) { return '"' + name.substr(0, 120) + '"'; }

tl::unexpected<Diagnostics> refused(std::string const& file, std::string message, std::string way_out) {
  return refuse({"E0570", Severity::error, {file, 0}, std::move(message), {}, std::move(way_out)});
}

/// Findings about a file whose JSON is one line of it, behind bytes that are no text.
tl::unexpected<Diagnostics> without_lines(Diagnostics findings) {
  for (auto& one : findings) one.where.line = 0;
  return tl::make_unexpected(std::move(findings));
}

/// Nothing if that is beyond 64 bits.
std::optional<std::uint64_t> bytes_of(std::vector<std::int64_t> const& shape, unsigned each) {
  std::uint64_t bytes = each;
  for (auto const extent : shape) {
    auto const n = static_cast<std::uint64_t>(extent);
    if (n != 0 && bytes > std::numeric_limits<std::uint64_t>::max() / n) return std::nullopt;
    bytes *= n;
  }
  return bytes;
}

/// Offsets are still those of the data.
StoredTensor read_tensor(Document& document, std::string const& name, Node const& node) {
  StoredTensor tensor;
  tensor.name = name;
  auto const what = "tensor " + shown(name);
  ObjectReader reader(document, node, what);
  tensor.type = reader.string("dtype");
  constexpr std::int64_t k_most = std::numeric_limits<std::int64_t>::max();
  for (auto const& extent : reader.array("shape"))
    tensor.shape.push_back(json::integer_item(document, extent, 0, k_most));
  auto const& offsets = reader.array("data_offsets");
  std::vector<std::uint64_t> ends;
  for (auto const& offset : offsets)
    ends.push_back(static_cast<std::uint64_t>(json::integer_item(document, offset, 0, k_most)));
  if (document.failed()) return tensor;
  if (ends.size() != 2 || ends[0] > ends[1]) {
    document.report(node, "E0570",
                    fmt::format("\"data_offsets\" of {} must be where it begins and ends", what), {},
                    k_whole_file);
    return tensor;
  }
  tensor.begin = ends[0], tensor.end = ends[1];
  auto const each = bytes_of_type(tensor.type);
  if (each == 0) {
    std::vector<std::string> known;
    for (auto const& type : k_types) known.emplace_back(type.first);
    document.report(node, "E0570",
                    fmt::format("\"dtype\" of {} is not a known type: {}", what, shown(tensor.type)),
                    {"known: " + list_of(known)}, "save the weights as BF16");
    return tensor;
  }
  auto const bytes = bytes_of(tensor.shape, each);
  if (!bytes || *bytes != tensor.end - tensor.begin)
    document.report(node, "E0570",
                    fmt::format("{} is {} and has {} bytes, not {}", what, to_text(tensor.shape, tensor.type),
                                tensor.end - tensor.begin, bytes ? std::to_string(*bytes) : "more than 2^64"),
                    {}, k_whole_file);
  return tensor;
}

/// E0570 unless each begins where the one before ends, and the last one ends with the data.
Expected<void> check_places(std::vector<StoredTensor> const& tensors, std::uint64_t data_bytes,
                            std::string const& file) {
  std::uint64_t end = 0;
  StoredTensor const* before = nullptr;
  for (auto const& one : tensors) {
    if (one.begin < end)
      return refused(file,
                     fmt::format("tensors {} and {} share bytes {} to {} of the data", shown(before->name),
                                 shown(one.name), one.begin, std::min(end, one.end)),
                     k_whole_file);
    if (one.begin > end)
      return refused(file,
                     fmt::format("bytes {} to {} of the data, before tensor {}, belong to no tensor", end,
                                 one.begin, shown(one.name)),
                     k_whole_file);
    end = one.end;
    before = &one;
  }
  if (end > data_bytes)
    return refused(file,
                   fmt::format("the file ends early: tensors take {} bytes, and {} are there, so tensor {} "
                               "is not whole",
                               end, data_bytes, shown(before->name)),
                   k_whole_file);
  if (end < data_bytes)
    return refused(file, fmt::format("{} bytes behind the last tensor belong to no tensor", data_bytes - end),
                   k_whole_file);
  return {};
}

}  // namespace

std::string to_text(std::vector<std::int64_t> const& shape, std::string const& type) {
  std::string text;
  constexpr std::size_t most_shown = 8;
  for (std::size_t i = 0; i < shape.size() && i < most_shown; ++i)
    text += (text.empty() ? "" : ", ") + std::to_string(shape[i]);
  if (shape.size() > most_shown) text += fmt::format(", ... ({} dimensions)", shape.size());
  return fmt::format("[{}] of {}", text, type);
}

Expected<std::uint64_t> safetensors_header_bytes(std::string_view first_bytes, std::uint64_t file_bytes,
                                                 std::string const& file) {
  if (first_bytes.size() < k_safetensors_length_bytes || file_bytes < k_safetensors_length_bytes)
    return refused(file, fmt::format("a file of {} bytes is too short for a header", file_bytes),
                   k_whole_file);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < k_safetensors_length_bytes; ++i)
    bytes |= static_cast<std::uint64_t>(static_cast<unsigned char>(first_bytes[i])) << (8 * i);
  // Text (a page of a web server, a pointer of Git LFS) read as a length is beyond this, too.
  if (bytes > k_most_safetensors_header_bytes)
    return refused(file,
                   fmt::format("a header of {} bytes by its first eight; up to {} are read", bytes,
                               k_most_safetensors_header_bytes),
                   "is it a safetensors file? One that Git LFS has not fetched yet is a few lines of text");
  if (bytes > file_bytes - k_safetensors_length_bytes)
    return refused(
        file, fmt::format("the file ends early: a header of {} bytes in a file of {}", bytes, file_bytes),
        k_whole_file);
  return bytes;
}

Expected<std::vector<StoredTensor>> parse_safetensors_header(std::string_view json, std::uint64_t file_bytes,
                                                             std::string const& file) {
  auto document = Document::parse(json, file, k_header);
  if (!document) return without_lines(document.error());
  std::vector<StoredTensor> tensors;
  if (!document->root().is(Node::Kind::object)) {
    ObjectReader const no_object(*document, document->root(), "the header");
    return without_lines(document->refusal().value());
  }
  // The format: words by name, and no other JSON.
  ObjectReader header(*document, document->root(), "the header");
  if (auto const* about = header.object_or("__metadata__"); about != nullptr) {
    ObjectReader words(*document, *about, "\"__metadata__\"");
    for (auto const& name : about->content->names) words.string(name);
  }
  auto const& content = *document->root().content;
  for (std::size_t i = 0; i < content.names.size(); ++i)
    if (content.names[i] != "__metadata__")
      tensors.push_back(read_tensor(*document, content.names[i], content.items[i]));
  if (document->failed()) return without_lines(document->refusal().value());
  std::sort(tensors.begin(), tensors.end(), [](StoredTensor const& a, StoredTensor const& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  auto const data_begin = k_safetensors_length_bytes + json.size();
  auto const data_bytes = file_bytes > data_begin ? file_bytes - data_begin : 0;
  if (auto ok = check_places(tensors, data_bytes, file); !ok) return tl::make_unexpected(ok.error());
  for (auto& one : tensors) one.begin += data_begin, one.end += data_begin;
  return tensors;
}

Expected<std::vector<std::pair<std::string, std::string>>> parse_safetensors_index(std::string_view json,
                                                                                   std::string const& file) {
  auto document = Document::parse(json, file, k_index);
  if (!document) return tl::make_unexpected(document.error());
  std::vector<std::pair<std::string, std::string>> result;
  ObjectReader root(*document, document->root(), "the index");
  root.object_or("metadata");
  auto const* map = root.object("weight_map");
  if (map == nullptr) return document->refusal();
  ObjectReader reader(*document, *map, "\"weight_map\"");
  for (auto const& name : map->content->names) {
    auto const in = reader.string(name);
    if (document->failed()) return document->refusal();
    if (in.empty() || in.find('/') != std::string::npos || in.find('\0') != std::string::npos || in == "." ||
        in == "..")
      document->report(
          *map->find(name), "E0571",
          fmt::format("tensor {} is in {}, which is no file beside the index", shown(name), shown(in)), {},
          "put all files of the model into one folder");
    result.emplace_back(name, in);
  }
  if (document->failed()) return document->refusal();
  return result;
}

}  // namespace tessera
