// SPDX-License-Identifier: Apache-2.0
#include "files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "diagnostic/nearest.hpp"
#include "files/whole_files.hpp"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

/// A timeline of some 500 000 tiles; nothing else that is read comes near.
constexpr std::size_t k_most_bytes = std::size_t{64} << 20;

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closer>;

tl::unexpected<Diagnostics> cannot(char const* code, char const* what, std::string const& path,
                                   std::string const& why, std::string hint = {}) {
  return tl::make_unexpected(
      complaint(code, fmt::format("cannot {} {}: {}", what, path, why), std::move(hint)));
}

/// A file of the same folder whose name is a slip of the hand away.
std::string near_name(std::string const& path) {
  fs::path const wanted(path);
  auto const folder = wanted.has_parent_path() ? wanted.parent_path() : fs::path(".");
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end && names.size() < 2000;
       it.increment(error))
    names.push_back(it->path().filename().string());
  return did_you_mean(wanted.filename().string(), names);
}

/// What read_file() gave since the command began. A command reads its files one after the other.
std::vector<std::string> read_paths;

Expected<void> check_not_read(std::string const& path) {
  for (auto const& input : read_paths)
    if (files::is_same_file(path, input))
      return tl::make_unexpected(
          complaint("E0912", fmt::format("{} is read, and would be replaced by what is made from it", path),
                    "give the output a name of its own",
                    path == input ? std::vector<std::string>{}
                                  : std::vector<std::string>{fmt::format("{} is the same file", input)}));
  return {};
}

Expected<std::string> read_all(std::FILE* file, std::string const& path) {
  std::string text;
  char buffer[1 << 16];
  while (auto const count = std::fread(buffer, 1, sizeof buffer, file)) {
    text.append(buffer, count);
    if (text.size() > k_most_bytes)
      return cannot("E0901", "read", path, fmt::format("it is larger than {} MiB", k_most_bytes >> 20),
                    "is it the file that was meant?");
  }
  if (std::ferror(file)) return cannot("E0901", "read", path, std::strerror(errno));
  return text;
}

Expected<std::string> contents_of(std::string const& path) {
  if (path == "-") return read_all(stdin, "standard input");
  std::error_code error;
  if (fs::is_directory(path, error)) {
    auto const config = fs::path(path) / "config.json";
    return cannot("E0901", "read", path, "it is a folder",
                  fs::exists(config, error) ? "did you mean " + config.string() + "?" : "");
  }
  File const file(std::fopen(path.c_str(), "rb"));
  if (!file) {
    int const reason = errno;
    return cannot("E0901", "read", path, std::strerror(reason), reason == ENOENT ? near_name(path) : "");
  }
  return read_all(file.get(), path);
}

}  // namespace

void forget_what_was_read() { read_paths.clear(); }

Expected<std::string> read_file(std::string const& path) {
  std::error_code error;
  // A device or a pipe is not replaced by what is written to it.
  if (path != "-" && fs::is_regular_file(path, error)) read_paths.push_back(path);
  return contents_of(path);
}

Expected<std::optional<std::string>> read_if_there(std::string const& path) {
  std::error_code error;
  if (!fs::exists(path, error) && !error) return std::optional<std::string>();
  auto text = contents_of(path);
  if (!text) return tl::make_unexpected(text.error());
  return std::optional(std::move(*text));
}

Expected<void> write_file(std::string const& path, std::string_view text) {
  if (auto const fit = check_outputs({path}); !fit) return fit;
  return files::write_whole({{path, text}});
}

Expected<void> check_outputs(std::vector<std::string> const& paths) {
  for (std::size_t i = 0; i < paths.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!paths[i].empty() && !paths[j].empty() && files::is_same_file(paths[i], paths[j]))
        return tl::make_unexpected(complaint(
            "E0912", fmt::format("two outputs go to {}", paths[i] == "-" ? "standard output" : paths[i]),
            "give each output a name of its own",
            paths[i] == paths[j] ? std::vector<std::string>{}
                                 : std::vector<std::string>{fmt::format("{} is the same file", paths[j])}));
  for (auto const& path : paths) {
    if (path.empty()) continue;
    if (auto const place = files::check_place(path); !place) return place;
    if (auto const fresh = check_not_read(path); !fresh) return fresh;
  }
  return {};
}

Expected<void> write_files(Session const& session, std::vector<OutputFile> const& files) {
  std::vector<std::string> paths;
  for (auto const& file : files) paths.push_back(file.path);
  if (auto const fit = check_outputs(paths); !fit) return fit;
  std::vector<files::WholeFile> pieces;
  for (auto const& file : files) pieces.push_back({file.path, file.text});
  if (auto const written = files::write_whole(pieces); !written) return written;
  for (auto const& file : files)
    if (file.path != "-") session.say("wrote " + file.path);
  return {};
}

bool fill_standard_output(std::vector<OutputFile> const& files) {
  return std::any_of(files.begin(), files.end(), [](OutputFile const& file) { return file.path == "-"; });
}

Expected<void> check_for_sizes(std::string const& path) {
  if (path.empty() || path == "-") return {};
  if (auto const place = files::check_place(path); !place) return place;
  std::error_code error;
  // Where standard output is a file, what leads to it is one, too; there is no place for names beside it.
  auto const folder = fs::weakly_canonical(fs::absolute(path, error).parent_path(), error).string();
  bool const of_system = folder == "/dev" || folder.rfind("/proc/", 0) == 0;
  if (of_system || (fs::exists(path, error) && !fs::is_regular_file(path, error)))
    return cannot("E0902", "write", path, "each size has a file of its own, and this is none",
                  "ask for one size, or name a file");
  return {};
}

std::string with_size(std::string const& path, std::string const& size) {
  if (path == "-") return path;
  fs::path const whole(path);
  return (whole.parent_path() / (whole.stem().string() + "-" + size + whole.extension().string())).string();
}

}  // namespace tessera::cli
