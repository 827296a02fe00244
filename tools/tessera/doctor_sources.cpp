// SPDX-License-Identifier: Apache-2.0
#include "doctor_sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "files.hpp"
#include "tessera/report/figures.hpp"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

/// In the order of their names; the folder's own path is left out in front of them.
std::vector<std::string> files_below(fs::path const& folder, std::string const& part,
                                     std::string const& ending) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder / part, error), end; !error && it != end;
       it.increment(error))
    if (it->is_regular_file(error) && it->path().extension() == ending)
      names.push_back(fs::relative(it->path(), folder, error).generic_string());
  std::sort(names.begin(), names.end());
  return names;
}

bool is_below(std::string const& name, std::initializer_list<char const*> folders) {
  return std::any_of(folders.begin(), folders.end(), [&](char const* f) { return name.starts_with(f); });
}

/// E0938: a page names a record by its path, and there is none.
void look_for_records(std::string const& text, std::string const& page, fs::path const& root,
                      Diagnostics& found) {
  static std::regex const record("results/[A-Za-z0-9_./-]+\\.json");
  std::error_code error;
  for (std::sregex_iterator it(text.begin(), text.end(), record), end; it != end; ++it) {
    if (fs::exists(root / it->str(), error)) continue;
    auto const line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + it->position(), '\n'));
    found.push_back({"E0938",
                     Severity::warning,
                     {page, line},
                     fmt::format("there is no record {}", it->str()),
                     {},
                     "name one that is there"});
  }
}

}  // namespace

int run_sources(Session const& session, std::string const& folder) {
  fs::path const root(folder);
  std::error_code error;
  if (!fs::is_directory(root / "docs", error))
    return session.fail(complaint("E0901", fmt::format("{} has no folder docs", folder),
                                  "give the folder of a source tree: tessera doctor --sources ."));
  Diagnostics found;
  auto pages = files_below(root, "docs", ".md");
  pages.insert(pages.begin(), "README.md");
  int read = 0, records = 0;
  for (auto const& page : pages) {
    if (is_below(page, {"docs/diagnostics/", "docs/reference/"})) continue;
    ++read;
    auto const text = read_file((root / page).string());
    if (!text) return session.fail(text.error());
    for (auto& one : figures_without_source(*text, page)) found.push_back(std::move(one));
    look_for_records(*text, page, root, found);
  }
  for (auto const& record : files_below(root, "results", ".json")) {
    if (is_below(record, {"results/simulated/"}) || record.ends_with("/tune.json")) continue;
    auto const text = read_file((root / record).string());
    if (!text) return session.fail(text.error());
    ++records;
    for (auto& one : gaps_of_record(*text, record)) found.push_back(std::move(one));
  }
  if (!found.empty()) return session.fail(found);
  session.print(fmt::format("{} pages, {} records: every figure says where it comes from\n", read, records));
  return k_ok;
}

}  // namespace tessera::cli
