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
#include "partial_files.hpp"

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

/// The file that a symbolic link leads to, also where there is none yet.
fs::path followed(fs::path path) {
  constexpr int k_most_links = 40;  // as Linux; in a circle the result is a link
  std::error_code error;
  for (int i = 0; i < k_most_links && fs::is_symlink(fs::symlink_status(path, error)); ++i) {
    auto const next = fs::read_symlink(path, error);
    if (error) break;
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
  return path;
}

bool is_same_file(std::string const& a, std::string const& b) {
  if (a == b) return true;
  if (a == "-" || b == "-") return false;
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  auto const whole_a = fs::weakly_canonical(fs::absolute(followed(a), error), error);
  if (error) return false;
  auto const whole_b = fs::weakly_canonical(fs::absolute(followed(b), error), error);
  return !error && whole_a == whole_b;
}

Expected<std::string> read_all(std::FILE* file, std::string const& path) {
  std::string text;
  char buffer[1 << 16];
  while (auto const count = std::fread(buffer, 1, sizeof buffer, file)) {
    text.append(buffer, count);
    if (text.size() > k_most_bytes)
      return cannot("E0901", "read", path, fmt::format("it is larger than {} MiB", k_most_bytes >> 20),
                    "is it the file that was meant? A timeline of fewer tiles is smaller");
  }
  if (std::ferror(file)) return cannot("E0901", "read", path, std::strerror(errno));
  return text;
}

struct Piece {
  std::string path;
  std::string_view text;
};

/// A device or a pipe cannot be replaced by renaming; it is written through.
bool is_special(std::string const& path) {
  std::error_code error;
  return fs::exists(path, error) && !fs::is_regular_file(path, error);
}

/// E0902 if the path is a folder, or is in none.
Expected<void> check_place(std::string const& path) {
  std::error_code error;
  if (path == "-") return {};
  if (fs::is_directory(path, error)) return cannot("E0902", "write", path, "it is a folder");
  auto const folder = followed(path).parent_path();
  if (folder.empty() || fs::is_directory(folder, error)) return {};
  if (fs::exists(folder, error)) return cannot("E0902", "write", path, std::strerror(ENOTDIR));
  return cannot("E0902", "write", path, std::strerror(ENOENT),
                "make the folder first: mkdir -p " + folder.string());
}

/// Into `name`, which is `path` or stands for it until it is whole.
Expected<void> put(char const* name, Piece const& piece) {
  File file(std::fopen(name, "wb"));
  if (!file) return cannot("E0902", "write", piece.path, std::strerror(errno));
  bool ok = std::fwrite(piece.text.data(), 1, piece.text.size(), file.get()) == piece.text.size();
  ok = std::fflush(file.get()) == 0 && ok;
  int const reason = errno;
  ok = std::fclose(file.release()) == 0 && ok;
  if (!ok) return cannot("E0902", "write", piece.path, std::strerror(reason));
  return {};
}

/// All files under names of their own first, so that what stops one leaves none.
Expected<void> write_all(std::vector<Piece> const& pieces) {
  std::vector<PartialFile> partial;
  for (auto const& piece : pieces) {
    std::error_code error;
    if (piece.path == "-") continue;
    if (auto const place = check_place(piece.path); !place) return place;
    if (is_special(piece.path)) continue;
    // A link stays, and its file is new.
    auto const target = followed(piece.path).string();
    if (fs::is_symlink(fs::symlink_status(target, error)))
      return cannot("E0902", "write", piece.path, std::strerror(ELOOP));
    partial.emplace_back(target);
    if (auto const written = put(partial.back().beside(), piece); !written) return written;
  }
  if (auto const done = rename_all(partial); done < partial.size())
    return cannot("E0902", "write", partial[done].path(), std::strerror(errno));
  for (auto const& piece : pieces) {
    if (piece.path == "-") {
      std::fwrite(piece.text.data(), 1, piece.text.size(), stdout);
    } else if (is_special(piece.path)) {
      if (auto const written = put(piece.path.c_str(), piece); !written) return written;
    }
  }
  return {};
}

}  // namespace

Expected<std::string> read_file(std::string const& path) {
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

Expected<std::optional<std::string>> read_if_there(std::string const& path) {
  std::error_code error;
  if (!fs::exists(path, error) && !error) return std::optional<std::string>();
  auto text = read_file(path);
  if (!text) return tl::make_unexpected(text.error());
  return std::optional(std::move(*text));
}

Expected<void> write_file(std::string const& path, std::string_view text) {
  return write_all({{path, text}});
}

Expected<void> check_outputs(std::vector<std::string> const& paths) {
  for (std::size_t i = 0; i < paths.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!paths[i].empty() && !paths[j].empty() && is_same_file(paths[i], paths[j]))
        return tl::make_unexpected(complaint(
            "E0912", fmt::format("two outputs go to {}", paths[i] == "-" ? "standard output" : paths[i]),
            "give each output a name of its own",
            paths[i] == paths[j] ? std::vector<std::string>{}
                                 : std::vector<std::string>{fmt::format("{} is the same file", paths[j])}));
  for (auto const& path : paths)
    if (auto const place = path.empty() ? Expected<void>() : check_place(path); !place) return place;
  return {};
}

Expected<void> write_files(Session const& session, std::vector<OutputFile> const& files) {
  std::vector<std::string> paths;
  for (auto const& file : files) paths.push_back(file.path);
  if (auto const fit = check_outputs(paths); !fit) return fit;
  std::vector<Piece> pieces;
  for (auto const& file : files) pieces.push_back({file.path, file.text});
  if (auto const written = write_all(pieces); !written) return written;
  for (auto const& file : files)
    if (file.path != "-") session.say("wrote " + file.path);
  return {};
}

bool fill_standard_output(std::vector<OutputFile> const& files) {
  return std::any_of(files.begin(), files.end(), [](OutputFile const& file) { return file.path == "-"; });
}

std::string with_size(std::string const& path, std::string const& size) {
  if (path == "-") return path;
  fs::path const whole(path);
  return (whole.parent_path() / (whole.stem().string() + "-" + size + whole.extension().string())).string();
}

}  // namespace tessera::cli
