// SPDX-License-Identifier: Apache-2.0
#include "files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "diagnostic/nearest.hpp"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t k_most_bytes = std::size_t{1} << 30;

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
    if (text.size() > k_most_bytes) return cannot("E0901", "read", path, "it is larger than 1 GiB");
  }
  if (std::ferror(file)) return cannot("E0901", "read", path, std::strerror(errno));
  return text;
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
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return {};
  }
  std::error_code error;
  if (fs::is_directory(path, error)) return cannot("E0902", "write", path, "it is a folder");
  // A device or a pipe cannot be replaced by renaming; write through it. A link stays, and its file is new.
  bool const special = fs::exists(path, error) && !fs::is_regular_file(path, error);
  auto const target = followed(path).string();
  if (fs::is_symlink(fs::symlink_status(target, error)))
    return cannot("E0902", "write", path, std::strerror(ELOOP));
  auto const beside = special ? path : fmt::format("{}.{}.tmp", target, getpid());
  File file(std::fopen(beside.c_str(), "wb"));
  if (!file) {
    int const reason = errno;
    auto const folder = fs::path(path).parent_path();
    bool const missing = reason == ENOENT && !folder.empty() && !fs::exists(folder, error);
    return cannot("E0902", "write", path, std::strerror(reason),
                  missing ? "make the folder first: mkdir -p " + folder.string() : "");
  }
  bool ok = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  ok = std::fflush(file.get()) == 0 && ok;
  int reason = errno;
  ok = std::fclose(file.release()) == 0 && ok;
  if (ok && !special && std::rename(beside.c_str(), target.c_str()) != 0) {
    ok = false;
    reason = errno;
  }
  if (ok) return {};
  if (!special) std::remove(beside.c_str());
  return cannot("E0902", "write", path, std::strerror(reason));
}

Expected<void> write_files(Session const& session, std::vector<OutputFile> const& files) {
  for (std::size_t i = 0; i < files.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (is_same_file(files[i].path, files[j].path))
        return tl::make_unexpected(complaint(
            "E0912",
            fmt::format("two outputs go to {}", files[i].path == "-" ? "standard output" : files[i].path),
            "give each output a name of its own",
            files[i].path == files[j].path
                ? std::vector<std::string>{}
                : std::vector<std::string>{fmt::format("{} is the same file", files[j].path)}));
  for (auto const& file : files) {
    if (auto const written = write_file(file.path, file.text); !written) return written;
    if (file.path != "-") session.say("wrote " + file.path);
  }
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
