// SPDX-License-Identifier: Apache-2.0
// Computes the points of a sweep on several threads, and keeps a file of them up to date meanwhile.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "session.hpp"
#include "sweep_subject.hpp"
#include "tessera/sweep/table.hpp"

namespace tessera::cli {

struct RunOptions {
  unsigned jobs = 0;      ///< 0: all cores
  bool progress = false;  ///< also where standard error is no terminal
};

/// Results for each of the settings, in their order. `done`, if there is one, is called after each of them,
/// never twice at once. A refusal that is about the command line (E09..) ends the run, and so does `done` by
/// false: what was not begun is left empty.
std::vector<Expected<std::vector<std::string>>> run_points(
    Session const& session, SweepSubject const& subject, std::vector<std::string> const& columns,
    std::vector<std::vector<SweepSetting>> const& points, RunOptions const& options,
    std::function<bool(std::size_t, Expected<std::vector<std::string>> const&)> const& done);

struct SweepFile {
  std::string path;  ///< empty: none; "-": standard output
  bool json = false;
  bool fresh = false;  ///< whatever the file holds is computed again
};

/// The format by --format, or by the name's ending. E0921.
Expected<SweepFile> sweep_file(std::string const& path, std::string const& format, bool fresh);

std::string print_sweep(SweepFile const& file, SweepTable const& table);
Expected<SweepTable> parse_sweep(SweepFile const& file, std::string const& text);

/// The shard's points of the grid. Those that the file has are taken from it, and every few seconds it is
/// written anew with what there is. Refused if every point is, with E0923 for a file of something else, and
/// early where the file cannot be written.
Expected<SweepTable> run_sweep(Session const& session, SweepSubject const& subject, SweepGrid const& grid,
                               SweepShard const& shard, RunOptions const& options, SweepFile const& file);

}  // namespace tessera::cli
