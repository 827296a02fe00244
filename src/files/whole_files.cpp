// SPDX-License-Identifier: Apache-2.0
#include "files/whole_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "files/partial_files.hpp"

namespace tessera::files {
namespace {

namespace fs = std::filesystem;

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closer>;

tl::unexpected<Diagnostics> cannot_write(std::string const& path, std::string const& why,
                                         std::string hint = {}) {
  Diagnostic d;
  d.code = "E0902";
  d.message = fmt::format("cannot write {}: {}", path, why);
  d.suggestion = std::move(hint);
  return refuse(std::move(d));
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

/// A device or a pipe cannot be replaced by renaming; it is written through.
bool is_special(std::string const& path) {
  std::error_code error;
  return fs::exists(path, error) && !fs::is_regular_file(path, error);
}

/// What cannot be replaced. A pipe that nobody reads is an error (ENXIO) and not a wait; writing may wait.
std::FILE* open_special(char const* path) {
  int const descriptor = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return nullptr;
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
  return fdopen(descriptor, "wb");
}

/// Into `name`, which is `path` or stands for it until it is whole.
Expected<void> put(char const* name, WholeFile const& whole) {
  bool const fresh = name != whole.path;
  // Whatever has that name, be it a link of somebody else's, is not written through.
  if (fresh) std::remove(name);
  File file(fresh ? std::fopen(name, "wbx") : open_special(name));
  if (!file) {
    int const reason = errno;
    std::error_code error;
    if (reason == ENXIO && fs::is_fifo(whole.path, error))
      return cannot_write(whole.path, "nobody reads this pipe", "start its reader first");
    return cannot_write(whole.path, std::strerror(reason));
  }
  bool ok = std::fwrite(whole.text.data(), 1, whole.text.size(), file.get()) == whole.text.size();
  ok = std::fflush(file.get()) == 0 && ok;
  int const reason = errno;
  ok = std::fclose(file.release()) == 0 && ok;
  if (!ok) return cannot_write(whole.path, std::strerror(reason));
  return {};
}

}  // namespace

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

Expected<void> check_place(std::string const& path) {
  std::error_code error;
  if (path == "-") return {};
  if (fs::is_directory(path, error)) return cannot_write(path, "it is a folder");
  // A new file takes its place, so its permissions would not be asked.
  auto const there = fs::status(path, error);
  auto const writers = fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
  if (fs::is_regular_file(there) && (there.permissions() & writers) == fs::perms::none)
    return cannot_write(path, "it is read-only", "take another name, or chmod u+w " + path);
  auto const folder = followed(path).parent_path();
  if (folder.empty() || fs::is_directory(folder, error)) return {};
  if (fs::exists(folder, error)) return cannot_write(path, std::strerror(ENOTDIR));
  return cannot_write(path, std::strerror(ENOENT), "make the folder first: mkdir -p " + folder.string());
}

Expected<void> write_whole(std::vector<WholeFile> const& files) {
  std::vector<PartialFile> partial;
  for (auto const& file : files) {
    std::error_code error;
    if (file.path == "-") continue;
    if (auto const place = check_place(file.path); !place) return place;
    if (is_special(file.path)) continue;
    // A link stays, and its file is new.
    auto const target = followed(file.path).string();
    if (fs::is_symlink(fs::symlink_status(target, error)))
      return cannot_write(file.path, std::strerror(ELOOP));
    partial.emplace_back(target);
    if (auto const written = put(partial.back().beside(), file); !written) return written;
  }
  for (auto const& file : files) {
    if (file.path == "-") {
      std::fwrite(file.text.data(), 1, file.text.size(), stdout);
      if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
        return cannot_write("standard output", std::strerror(errno));
    } else if (is_special(file.path)) {
      if (auto const written = put(file.path.c_str(), file); !written) return written;
    }
  }
  if (auto const done = rename_all(partial); done < partial.size())
    return cannot_write(partial[done].path(), std::strerror(errno));
  return {};
}

}  // namespace tessera::files
