// SPDX-License-Identifier: Apache-2.0
// Measures which plan of a workload is fastest on this machine's GPU. Needs the library tessera_tune_gpu.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "../check/check.hpp"
#include "../describe/workload.hpp"
#include "../measure/machine_profile.hpp"
#include "../run/bindings.hpp"
#include "choose.hpp"
#include "plans.hpp"
#include "search.hpp"

namespace tessera {

/// Relative errors up to this are right: rounding a result to bf16 alone is 1.65e-3, in the mean square, and
/// what is made of rounded results behind a gate comes to 2.03e-3.
constexpr double k_allowed_error = 2.5e-3;

/// A plan, ready to be measured.
struct Launchable {
  /// Enqueues one launch on a set of operands; may be captured. CUDA's error.
  std::function<int(GpuStream, int set)> launch;
  /// Did a wait give up since the last call? Forgets it. Called when the streams are idle.
  std::function<bool()> stalled;
  /// Runs it on poisoned outputs: the worst relative error of what it computes; NaN if it cannot run, left
  /// something unwritten or a wait gave up.
  std::function<double()> error;
  /// What a block of each launch's kernel holds as it is compiled (Chain::resources()); empty: as the plan
  /// says.
  std::vector<Resources> resources = {};
};

/// A workload as a tuner sees it.
struct Subject {
  int sets = 1;          ///< of operands, used in turns: together larger than the L2 cache
  double about_us = 10;  ///< of a launch: says how many launches fill a sample
  /// A plan of the chain or of its first stages, of which the last may have fewer tiles: what a stage's
  /// blocks take is measured so (price_stages()). Such a plan is launched, and its results are not looked at.
  std::function<Expected<Launchable>(Plan const&)> make;
  PlanVariants variants = {};  ///< may be empty
};

/// Told the name of what is about to run, so that whoever watches sees what a GPU that does not answer is
/// busy with; and then again with its time in microseconds, infinite where it cannot run or a wait gave up.
using Progress = std::function<void(std::string const& name, std::optional<double> us)>;

struct TuneOptions {
  bool quick = false;         ///< fewer samples and finalists
  double least_gain = 0.003;  ///< over the baseline, as a part of the time
  Load load = Load::any;
  Progress progress;  ///< may be empty
};

/// A candidate measured well.
struct Finalist {
  TuneCandidate candidate;
  Measurement measurement;           ///< of the candidate's name
  double hot_low = 0, hot_high = 0;  ///< 10 and 90 per cent of the samples are below
  double relative_error = 0;
};

struct Tuned {
  std::vector<Finalist> finalists;  ///< fastest first, for any load
  std::size_t chosen = 0, baseline = 0;
  std::string reason;
  std::vector<StagePrice> prices;  ///< measured, of a chain whose tiles are given; the plans have them
  int tried = 0;

  Finalist const& winner() const { return finalists[chosen]; }
};

/// Checks these and measures them in turns, hot and cool. Wrong ones have no times. Before medians are taken
/// a round counts by how long it took all of them: the clock drifts, and in a round it is the same for all.
/// E0511.
Expected<std::vector<Finalist>> measure(Subject const& subject, std::vector<TuneCandidate> const& candidates,
                                        GpuStream stream, int hot_rounds, int cool_rounds);

/// Measures these from few samples to many, dropping the slow ones, and decides (tune/choose.hpp). `times`:
/// what is known of each already, microseconds, infinite for those that cannot run. E0535 if none is right.
Expected<Tuned> tune(Subject const& subject, std::vector<TuneCandidate> const& candidates,
                     std::vector<double> const& times, GpuStream stream, TuneOptions const& options = {});

/// By this machine's GPU (tune/variants.hpp). As it is where the subject knows no variants.
Plan with_fastest_variants(Plan plan, Subject const& subject, GpuStream stream,
                           TuneOptions const& options = {});

/// Any chain whose tiles are given: search(), and the decision. What its kernels' blocks hold is taken from
/// the kernels (Launchable::resources). Nothing is taken that is not faster than stream order beyond doubt.
/// Candidates have their predicted times in their plans, as Finalist::measurement has the measured ones.
Expected<Tuned> tune(CheckedPipeline const& checked, MachineProfile const& machine, Subject const& subject,
                     GpuStream stream, TuneOptions const& options = {});

/// Operators, by registered kernels: search(), and the decision.
Expected<Tuned> tune(OperatorGraph const& graph, Registry const& kernels, MachineProfile const& machine,
                     Subject const& subject, GpuStream stream, TuneOptions const& options = {});

}  // namespace tessera
