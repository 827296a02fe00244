// SPDX-License-Identifier: Apache-2.0
#include "sweep_run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <optional>

#include "files.hpp"
#include "files/partial_files.hpp"
#include "parallel.hpp"
#include "tessera/sweep/sweep_json.hpp"

namespace tessera::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Texts = std::vector<std::string>;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string duration_text(double seconds) {
  auto const whole = std::lround(seconds);
  return whole < 60     ? fmt::format("{} s", whole)
         : whole < 3600 ? fmt::format("{}:{:02} min", whole / 60, whole % 60)
                        : fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

/// "7 of 12 points, about 3:20 min to go": redrawn on a terminal, a line every few seconds elsewhere.
class Progress {
 public:
  Progress(Session const& session, std::size_t points, bool wanted)
      : session_(session), points_(points), lines_(wanted && !isatty(STDERR_FILENO)) {}

  void done() {
    ++done_;
    double const left =
        seconds_since(start_) / static_cast<double>(done_) * static_cast<double>(points_ - done_);
    auto const text = done_ == points_ ? fmt::format("{0} of {0} points", points_)
                                       : fmt::format("{} of {} points, about {} to go", done_, points_,
                                                     duration_text(left));
    if (done_ < points_ && seconds_since(said_) < (lines_ ? 5 : 0.1)) return;
    lines_ ? session_.say(text) : session_.progress(text);
    said_ = Clock::now();
  }

 private:
  Session const& session_;
  std::size_t points_, done_ = 0;
  bool lines_;
  Clock::time_point start_ = Clock::now(), said_ = start_;
};

bool about_command_line(Diagnostics const& reasons) {
  return !reasons.empty() && reasons.front().code.rfind("E09", 0) == 0;
}

std::string inputs_text(SweepSubject const& subject, std::vector<SweepSetting> settings) {
  // One point is the same in whichever order its parameters were named.
  std::sort(settings.begin(), settings.end(),
            [](SweepSetting const& a, SweepSetting const& b) { return a.name < b.name; });
  auto text = subject.identity;
  for (auto const& [name, value] : settings) text += fmt::format("\n{}={}", name, value);
  return text;
}

SweepTable wanted_points(SweepSubject const& subject, SweepGrid const& grid, SweepShard const& shard) {
  SweepTable table{"", grid.size(), {}, subject.results(grid), {}};
  auto text = subject.identity;
  for (auto const& axis : grid.axes) {
    table.axes.push_back(axis.name);
    text += fmt::format("\n{}={}", axis.name, fmt::join(axis.values, ","));
  }
  table.sweep = fingerprint(text);
  for (std::size_t point = 0; point < grid.size(); ++point) {
    if (!shard.has(point)) continue;
    auto const settings = grid.point(point);
    SweepRow row{point, fingerprint(inputs_text(subject, settings)), {}, "", {}};
    for (auto const& setting : settings) row.values.push_back(setting.value);
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// The table without rows that are not there yet.
SweepTable so_far(SweepTable const& table) {
  auto copy = table;
  std::erase_if(copy.rows, [](SweepRow const& row) { return row.results.empty(); });
  return copy;
}

Expected<void> take_from(SweepFile const& file, SweepTable& table) {
  if (file.path.empty() || file.path == "-" || file.fresh) return {};
  auto const text = read_if_there(file.path);
  if (!text) return tl::make_unexpected(text.error());
  if (!*text) return {};
  auto const there = parse_sweep(file, **text);
  if (!there) return tl::make_unexpected(there.error());
  auto kept = rows_to_keep(*there, file.path, table);
  if (!kept) return tl::make_unexpected(kept.error());
  for (auto& row : *kept) {
    auto const at =
        std::lower_bound(table.rows.begin(), table.rows.end(), row.point,
                         [](SweepRow const& wanted, std::size_t point) { return wanted.point < point; });
    *at = std::move(row);
  }
  return {};
}

}  // namespace

std::vector<Expected<Texts>> run_points(
    Session const& session, SweepSubject const& subject, Texts const& columns,
    std::vector<std::vector<SweepSetting>> const& points, RunOptions const& options,
    std::function<bool(std::size_t, Expected<Texts> const&)> const& done) {
  std::vector<Expected<Texts>> results(points.size(), Texts{});
  std::atomic<bool> over{false};
  std::mutex one_at_a_time;
  Progress progress(session, points.size(), options.progress);
  in_threads(options.jobs, points.size(), [&](std::size_t i) {
    if (over) return;
    auto result = subject.run(points[i], columns);
    std::lock_guard const lock(one_at_a_time);
    if (!result && about_command_line(result.error())) over = true;
    results[i] = std::move(result);
    progress.done();
    if (done && !done(i, results[i])) over = true;
  });
  session.progress("");
  return results;
}

Expected<SweepFile> sweep_file(std::string const& path, std::string const& format, bool fresh) {
  auto const named = path.size() > 5 && path.substr(path.size() - 5) == ".json"  ? "json"
                     : path.size() > 4 && path.substr(path.size() - 4) == ".csv" ? "csv"
                     : path == "-"                                               ? "csv"
                                                                                 : "";
  auto const chosen = format.empty() ? std::string(named) : format;
  if (!path.empty() && chosen.empty())
    return tl::make_unexpected(complaint("E0921", path + " ends in neither .csv nor .json",
                                         "--format csv or --format json says what it is"));
  return SweepFile{path, chosen == "json", fresh};
}

std::string print_sweep(SweepFile const& file, SweepTable const& table) {
  return file.json ? print_sweep_json(table) : print_sweep_csv(table);
}

Expected<SweepTable> parse_sweep(SweepFile const& file, std::string const& text) {
  auto const rules = sweep_rules();
  return file.json ? parse_sweep_json(text, file.path, rules) : parse_sweep_csv(text, file.path, rules);
}

Expected<SweepTable> run_sweep(Session const& session, SweepSubject const& subject, SweepGrid const& grid,
                               SweepShard const& shard, RunOptions const& options, SweepFile const& file) {
  auto table = wanted_points(subject, grid, shard);
  if (auto const taken = take_from(file, table); !taken) return tl::make_unexpected(taken.error());
  std::vector<std::size_t> missing;
  std::vector<std::vector<SweepSetting>> points;
  for (std::size_t r = 0; r < table.rows.size(); ++r)
    if (table.rows[r].results.empty())
      missing.push_back(r), points.push_back(grid.point(table.rows[r].point));
  if (auto const there = table.rows.size() - missing.size(); there > 0)
    session.say(fmt::format("{} of {} points are in {} already", there, table.rows.size(), file.path));

  bool const saves = !file.path.empty() && file.path != "-";
  auto saved = Clock::now();
  Expected<void> written;
  files::LastWords last_words;
  auto const keeps = [&](std::size_t count) {
    if (session.quiet) return;
    last_words.set(
        saves ? fmt::format("interrupted: {} of {} points are in {}; the same command computes the rest",
                            count, table.rows.size(), file.path)
              : "interrupted: no point is kept; with -o FILE.csv the same command continues");
  };
  keeps(table.rows.size() - missing.size());
  auto const results = run_points(session, subject, table.results, points, options,
                                  [&](std::size_t i, Expected<Texts> const& result) {
                                    auto& row = table.rows[missing[i]];
                                    if (!result) row.refused = result.error().front().code;
                                    row.results = result ? *result : Texts(table.results.size());
                                    bool const useless = !result && about_command_line(result.error());
                                    if (!written) return false;
                                    if (!saves || useless || seconds_since(saved) < 2) return true;
                                    auto const there = so_far(table);
                                    written = write_file(file.path, print_sweep(file, there));
                                    if (written) keeps(there.rows.size());
                                    saved = Clock::now();
                                    return written.has_value();
                                  });
  if (!written) return tl::make_unexpected(written.error());
  std::size_t refused = 0;
  Diagnostics first;
  for (auto const& result : results)
    if (!result) {
      if (about_command_line(result.error())) return tl::make_unexpected(result.error());
      if (refused++ == 0) first = result.error();
    }
  if (refused > 0 && refused == table.rows.size()) {
    // A share without a good point is still a share: --merge asks for its rows.
    if (saves && shard.of > 1)
      if (auto const kept = write_file(file.path, print_sweep(file, table)); !kept)
        return tl::make_unexpected(kept.error());
    return tl::make_unexpected(first);
  }
  if (refused > 0)
    session.say(fmt::format("{} of {} points are refused; the first: {}", refused, table.rows.size(),
                            to_text(first.front())));
  return table;
}

}  // namespace tessera::cli
