// SPDX-License-Identifier: Apache-2.0
#include "tessera/tune/cache_file.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "files/partial_files.hpp"
#include "tessera/shipped.hpp"
#include "tessera/tune/cache_json.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string variable(char const* name) {
  char const* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

tl::unexpected<Diagnostics> file_failed(std::string const& path, std::string const& what,
                                        std::string const& reason) {
  Diagnostic failed;
  failed.code = "E0531";
  failed.where.file = path;
  failed.message = "the tuning cache cannot be " + what + ": " + reason;
  failed.suggestion = "name another file with TESSERA_TUNE_CACHE or --cache";
  return refuse(std::move(failed));
}

}  // namespace

std::string default_cache_file() {
  if (auto const file = variable("TESSERA_TUNE_CACHE"); !file.empty()) return file;
  if (auto const folder = variable("XDG_CACHE_HOME"); !folder.empty()) return folder + "/tessera/tune.json";
  auto const home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/tessera/tune.json";
}

Expected<TuneCache> read_cache(std::string const& path) {
  std::error_code error;
  if (!fs::exists(path, error) && !error) return TuneCache{};
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file || fs::is_directory(path, error)) return file_failed(path, "read", std::strerror(errno));
  return parse_tune_cache(text.str(), path);
}

TuneCache const& shipped_tunings() {
  static TuneCache const all = [] {
    TuneCache read;
    for (auto const& file : shipped_tuning_files())
      if (auto const one = parse_tune_cache(file.text, "tunings/" + std::string(file.name) + ".json"); one)
        merge(read, *one);
    return read;
  }();
  return all;
}

Expected<void> add_to_cache(std::string const& path, TuneCache const& newer) {
  std::error_code error;
  if (auto const folder = fs::path(path).parent_path(); !folder.empty())
    fs::create_directories(folder, error);
  if (error) return file_failed(path, "written", error.message());
  auto cache = read_cache(path);
  if (!cache) return tl::make_unexpected(cache.error());
  merge(*cache, newer);
  std::vector<files::PartialFile> whole;
  whole.emplace_back(path);
  {
    std::ofstream file(whole.front().beside(), std::ios::binary);
    file << print_tune_cache(*cache);
    file.flush();
    if (!file) return file_failed(path, "written", std::strerror(errno));
  }
  if (files::rename_all(whole) == whole.size()) return {};
  return file_failed(path, "written", std::strerror(errno));
}

}  // namespace tessera
