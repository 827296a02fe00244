// SPDX-License-Identifier: Apache-2.0
#include "tessera/weights/weight_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "diagnostic/nearest.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr char const* k_single = "model.safetensors";
constexpr char const* k_index = "model.safetensors.index.json";

tl::unexpected<Diagnostics> refused(std::string file, std::string message, std::string way_out,
                                    std::vector<std::string> notes = {}) {
  return refuse({"E0571",
                 Severity::error,
                 {std::move(file), 0},
                 std::move(message),
                 std::move(notes),
                 std::move(way_out)});
}
tl::unexpected<Diagnostics> cannot_read(std::string const& path, std::string const& why) {
  Diagnostic failed;
  failed.code = "E0901";
  failed.message = fmt::format("cannot read {}: {}", path, why);
  return refuse(std::move(failed));
}

struct Opened {
  FileDescriptor descriptor;
  std::uint64_t bytes = 0;
};

Expected<Opened> open_file(std::string const& path) {
  Opened opened;
  // Without O_NONBLOCK a pipe that nobody writes to would be waited for.
  opened.descriptor = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (opened.descriptor.number() < 0) return cannot_read(path, std::strerror(errno));
  struct stat about {};
  if (::fstat(opened.descriptor.number(), &about) != 0) return cannot_read(path, std::strerror(errno));
  // Places in a pipe or a device mean nothing.
  if (!S_ISREG(about.st_mode)) return cannot_read(path, "it is not a file");
  opened.bytes = static_cast<std::uint64_t>(about.st_size);
  return opened;
}

/// Bytes from `at` on; E0901 if there are not so many. A file that is read, and not mapped, can become
/// shorter without ending the program.
Expected<void> read_bytes(int descriptor, std::string const& path, std::uint64_t at, std::uint64_t bytes,
                          void* to) {
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    constexpr std::uint64_t k_at_once = std::uint64_t{1} << 30;
    auto const got = ::pread(descriptor, out, static_cast<std::size_t>(std::min(bytes, k_at_once)),
                             static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot_read(path, std::strerror(errno));
    if (got == 0) return cannot_read(path, fmt::format("it ends at byte {}, {} early", at, bytes));
    out += got;
    at += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::uint64_t>(got);
  }
  return {};
}

Expected<std::string> read_text(Opened const& file, std::string const& path, std::uint64_t at,
                                std::uint64_t bytes) {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  if (auto ok = read_bytes(file.descriptor.number(), path, at, bytes, text.data()); !ok)
    return tl::make_unexpected(ok.error());
  return text;
}

/// What a folder without weights has instead.
std::string other_weights(std::string const& folder) {
  std::vector<std::string> safetensors;
  bool torch = false;
  std::error_code error;
  int seen = 0;
  for (fs::directory_iterator it(folder, error), end; !error && it != end && seen < 2000;
       it.increment(error), ++seen) {
    auto const name = it->path().filename().string();
    if (it->path().extension() == ".safetensors") safetensors.push_back(name);
    torch = torch || it->path().extension() == ".bin" || it->path().extension() == ".pth";
  }
  std::sort(safetensors.begin(), safetensors.end());
  if (safetensors.size() == 1) return fmt::format("name the file: {}/{}", folder, safetensors.front());
  if (!safetensors.empty())
    return fmt::format("there are {} others ({}, ...), which {} has to name", safetensors.size(),
                       safetensors.front(), k_index);
  if (torch)
    return "save them as safetensors: model.save_pretrained(folder), with transformers 4.35 or later";
  return "name the folder that has a model's config.json and its weights";
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (number_ >= 0) ::close(number_);
}

Expected<void> WeightFiles::add(std::string const& path) {
  auto opened = open_file(path);
  if (!opened) return tl::make_unexpected(opened.error());
  auto const first =
      read_text(*opened, path, 0, std::min<std::uint64_t>(opened->bytes, k_safetensors_length_bytes));
  if (!first) return tl::make_unexpected(first.error());
  auto const bytes = safetensors_header_bytes(*first, opened->bytes, path);
  if (!bytes) return tl::make_unexpected(bytes.error());
  auto const json = read_text(*opened, path, k_safetensors_length_bytes, *bytes);
  if (!json) return tl::make_unexpected(json.error());
  auto stored = parse_safetensors_header(*json, opened->bytes, path);
  if (!stored) return tl::make_unexpected(stored.error());
  for (auto& one : *stored) tensors_.push_back({std::move(one), files_.size()});
  files_.push_back({path, std::move(opened->descriptor)});
  return {};
}

Expected<void> WeightFiles::sort() {
  std::sort(tensors_.begin(), tensors_.end(),
            [](Tensor const& a, Tensor const& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < tensors_.size(); ++i)
    if (tensors_[i].name == tensors_[i - 1].name)
      return refused(path_,
                     fmt::format("tensor \"{}\" is in {} and in {}", tensors_[i].name,
                                 files_[tensors_[i - 1].file].path, files_[tensors_[i].file].path),
                     "leave only the files of one model in the folder");
  return {};
}

Expected<void> WeightFiles::add_all_of_index(std::string const& path) {
  auto const opened = open_file(path);
  if (!opened) return tl::make_unexpected(opened.error());
  if (opened->bytes > k_most_safetensors_header_bytes)
    return refused(path,
                   fmt::format("an index of {} bytes; up to {} are read", opened->bytes,
                               k_most_safetensors_header_bytes),
                   "is it the file that was meant?");
  auto const json = read_text(*opened, path, 0, opened->bytes);
  if (!json) return tl::make_unexpected(json.error());
  auto const index = parse_safetensors_index(*json, path);
  if (!index) return tl::make_unexpected(index.error());
  if (index->empty()) return refused(path, "the index names no tensor", "copy or download the index again");
  auto const folder = fs::path(path).parent_path();
  std::vector<std::string> names;
  for (auto const& [tensor, file] : *index) names.push_back(file);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (auto const& name : names) {
    auto const shard = (folder / name).string();
    std::error_code error;
    if (!fs::exists(shard, error)) {
      auto const in_it =
          std::count_if(index->begin(), index->end(), [&](auto const& one) { return one.second == name; });
      return refused(
          path, fmt::format("{} of {} tensors are in {}, which is not there", in_it, index->size(), shard),
          "copy or download the missing file");
    }
    if (auto ok = add(shard); !ok) return ok;
  }
  if (auto ok = sort(); !ok) return ok;
  for (auto const& [name, file] : *index) {
    auto const* const tensor = find(name);
    if (tensor == nullptr || path_of(*tensor) != (folder / file).string())
      return refused(
          path, fmt::format("tensor \"{}\" is not in {}, where the index has it", name.substr(0, 120), file),
          "the index is of other files: copy or download both again",
          tensor != nullptr ? std::vector<std::string>{"it is in " + path_of(*tensor)}
                            : std::vector<std::string>{});
  }
  if (tensors_.size() > index->size()) {
    std::vector<std::string> indexed;
    for (auto const& one : *index) indexed.push_back(one.first);
    std::sort(indexed.begin(), indexed.end());
    for (auto const& tensor : tensors_)
      if (!std::binary_search(indexed.begin(), indexed.end(), tensor.name))
        return refused(path,
                       fmt::format("tensor \"{}\" is in {}, and the index does not name it",
                                   tensor.name.substr(0, 120), path_of(tensor)),
                       "the index is of other files: copy or download both again");
  }
  return {};
}

Expected<WeightFiles> WeightFiles::open(std::string const& path) {
  WeightFiles files;
  files.path_ = path;
  std::error_code error;
  std::string const in_folder = (fs::path(path) / k_single).string(),
                    index = (fs::path(path) / k_index).string();
  Expected<void> ok;
  if (!fs::exists(path, error))
    ok = cannot_read(path, error ? error.message() : std::strerror(ENOENT));
  else if (!fs::is_directory(path, error) && fs::path(path).filename() == "config.json")
    ok = refused(
        path, "it is the model's config, not its weights",
        fmt::format("name the folder: {}", (fs::path(".") / path).parent_path().lexically_normal().string()));
  else if (!fs::is_directory(path, error))
    ok = ends_with(path, ".json") ? files.add_all_of_index(path) : files.add(path);
  else if (fs::exists(in_folder, error))  // as transformers choose where there are both
    ok = files.add(in_folder);
  else if (fs::exists(index, error))
    ok = files.add_all_of_index(index);
  else
    ok = refused(path, fmt::format("the folder has neither {} nor {}", k_single, k_index),
                 other_weights(path));
  if (ok) ok = files.sort();
  if (!ok) return tl::make_unexpected(ok.error());
  return files;
}

WeightFiles::Tensor const* WeightFiles::find(std::string_view name) const {
  auto const at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [](Tensor const& one, std::string_view what) { return one.name < what; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

std::uint64_t WeightFiles::bytes() const {
  std::uint64_t sum = 0;
  for (auto const& one : tensors_) sum += one.end - one.begin;
  return sum;
}

Expected<void> WeightFiles::read(Tensor const& tensor, std::uint64_t from, std::uint64_t bytes,
                                 void* to) const {
  return read_bytes(files_[tensor.file].descriptor.number(), path_of(tensor), tensor.begin + from, bytes, to);
}

}  // namespace tessera
