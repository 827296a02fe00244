// SPDX-License-Identifier: Apache-2.0
// From all candidates for a shape to the few that are worth measuring well.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "arena.hpp"
#include "kernels/mlp/candidate.hpp"
#include "src/bench/timer.hpp"

namespace tessera::mlp {

struct Screened {
  std::vector<Candidate> candidates;
  std::vector<double> times;  ///< microseconds, of a few samples alone
  int tried = 0;              ///< halves and pairs
};

/// Told the name of what is about to run, so that whoever watches sees what a GPU that does not answer is
/// busy with; and then again with its time in microseconds, infinite where it cannot run or a wait gave up.
using Progress = std::function<void(std::string const& name, std::optional<double> us)>;

/// Ranks the halves alone, then tries pairs of the fastest in every way to overlap them, orders of tiles for
/// the fastest of these, and all single launches. Never leaves out cuBLASLt's fastest. `samples` for each.
/// Whose wait gave up is infinitely slow.
Expected<Screened> screen(Arena& arena, bench::Timer& timer, Shape const& shape, int samples,
                          Progress const& progress);

/// The candidates that are measured better: the `keep` fastest, of each two kernels and way to overlap them
/// no more than two, and never fewer than two of each source that is there.
std::vector<Candidate> finalists(Screened const& screened, std::size_t keep);

}  // namespace tessera::mlp
