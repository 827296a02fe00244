// SPDX-License-Identifier: Apache-2.0
#include "size_bench.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include "cutlass.hpp"
#include "kernels/bindings/families.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/rank.hpp"

namespace tessera::bench {
namespace {

constexpr char const* chosen_group = "Tessera";

struct Contender {
  std::string group;
  bool tessera = false;
  TuneCandidate candidate;
};

bool has(std::string const& text, char const* word) { return text.find(word) != std::string::npos; }

/// What of Tessera or of a library a candidate shows.
std::string group_of(TuneCandidate const& one) {
  auto const mechanism = mechanism_of(one.plan);
  if (has(one.group, "stream_k")) return "CUTLASS Stream-K";
  if (has(one.group, "cutlass")) return mechanism == Mechanism::pdl ? "CUTLASS + PDL" : "CUTLASS";
  if (one.baseline) return "cuBLASLt";
  if (has(one.group, "cublaslt")) return "Tessera with cuBLASLt";
  if (mechanism == Mechanism::fused) return "Tessera one launch";
  if (mechanism == Mechanism::stream_order) return "Tessera stream";
  if (mechanism == Mechanism::pdl) return "Tessera pdl";
  return one.plan.semaphores.empty() || one.plan.semaphores.front().policy != "RowSync" ? "Tessera tile"
                                                                                        : "Tessera row";
}

/// The kernels of a registry that `wanted` names.
template <class Wanted>
Registry only(Registry const& kernels, Wanted const& wanted) {
  Registry result;
  for (auto const& kernel : kernels.kernels())
    if (wanted(kernel)) (void)result.add(kernel);
  return result;
}

class SizeBench {
 public:
  SizeBench(OperatorGraph const& graph, MachineProfile const& machine, Subject const& subject,
            GpuStream stream, TuneOptions const& options, Registry const& kernels)
      : graph_(graph),
        machine_(machine),
        subject_(subject),
        stream_(stream),
        options_(options),
        kernels_(kernels) {}

  Expected<SizeResult> run() {
    SizeResult result;
    result.graph = graph_;
    auto tuned = tune(graph_, shipped_kernels(), machine_, subject_, stream_, options_);
    if (!tuned) return tl::make_unexpected(tuned.error());
    result.tuned = std::move(*tuned);
    add_tuned(result.tuned);
    add_planned();
    for (char const* const tile : {"128x256", "128x192"}) add_same_tiles(tile);
    add_peers();
    // The best of cuBLASLt's twice: shows how far to trust the rest.
    auto const base =
        std::find_if(all_.begin(), all_.end(), [](auto const& one) { return one.group == "cuBLASLt"; });
    std::vector<TuneCandidate> candidates;
    for (auto const& one : all_) {
      place_.push_back(place_of(candidates, one.candidate.name));
      if (place_.back() == candidates.size()) candidates.push_back(one.candidate);
    }
    if (base != all_.end()) {
      place_.push_back(candidates.size());
      candidates.push_back(base->candidate);
      all_.push_back({"cuBLASLt again", true, candidates.back()});
    }
    if (options_.progress) options_.progress("all of them in turns", {});
    auto measured = measure(subject_, candidates, stream_, options_.quick ? 7 : 21, options_.quick ? 3 : 9);
    if (!measured) return tl::make_unexpected(measured.error());
    for (std::size_t i = 0; i < all_.size(); ++i)
      result.rows.push_back({all_[i].group, all_[i].tessera, (*measured)[place_[i]]});
    return result;
  }

 private:
  static std::size_t place_of(std::vector<TuneCandidate> const& candidates, std::string const& name) {
    auto const known = std::find_if(candidates.begin(), candidates.end(),
                                    [&](TuneCandidate const& one) { return one.name == name; });
    return static_cast<std::size_t>(known - candidates.begin());
  }

  std::size_t count(std::string const& group) const {
    return static_cast<std::size_t>(
        std::count_if(all_.begin(), all_.end(), [&](Contender const& one) { return one.group == group; }));
  }

  void add_tuned(Tuned const& tuned) {
    all_.push_back({chosen_group, true, tuned.winner().candidate});
    // What would be taken if the load were known.
    std::vector<Measurement> finals;
    for (auto const& one : tuned.finalists) finals.push_back(one.measurement);
    for (auto const load : {Load::steady, Load::bursts})
      if (auto const decision = decide(finals, options_.least_gain, load); decision.chosen != Decision::none)
        all_.push_back({load == Load::steady ? "Tessera for steady load" : "Tessera for bursts", true,
                        tuned.finalists[decision.chosen].candidate});
    for (auto const& one : tuned.finalists) {
      auto const group = group_of(one.candidate);
      bool const baseline = one.candidate.baseline;
      if (one.measurement.right && count(group) < (baseline ? 3u : 1u))
        all_.push_back({group, !baseline, one.candidate});
    }
  }

  void add_planned() {
    auto const compiled = only(kernels_, [](KernelEntry const& kernel) {
      return kernel.family != "published" && kernel.family.rfind("cutlass", 0) != 0;
    });
    PlanOptions how;
    how.chained = true;  // graphs of the same workload, back to back
    if (auto plan = choose_by_simulation(graph_, compiled, machine_, how))
      all_.push_back({"Tessera as planned", true, {plan_name(*plan), "", false, *plan}});
  }

  /// The same tiles for every operator, by every mechanism: what the mechanism alone is worth.
  void add_same_tiles(std::string const& tile) {
    if (graph_.operators.size() < 2 || graph_.operators.front().m <= 128) return;
    auto const name = "gemm_" + tile + "x64_2x1";
    auto const one = only(shipped_kernels(), [&](KernelEntry const& kernel) { return kernel.name == name; });
    auto quick = options_;
    quick.quick = true;
    auto const tuned = tune(graph_, one, machine_, subject_, stream_, quick);
    if (!tuned) return;  // not compiled for these operators
    for (auto const& [mechanisms, text] : {std::pair{std::vector{Mechanism::stream_order}, " stream"},
                                           std::pair{std::vector{Mechanism::pdl}, " pdl"},
                                           std::pair{std::vector{Mechanism::pdl_tiles}, " semaphores"}})
      for (auto const& finalist : tuned->finalists)
        if (mechanism_of(finalist.candidate.plan) == mechanisms.front() && finalist.measurement.right &&
            count(tile + text) == 0)
          all_.push_back({tile + text, true, finalist.candidate});
  }

  /// Each family by itself: a slower one would not be among the finalists of all.
  void add_peers() {
    for (char const* const family : {"cutlass", "cutlass_stream_k"}) {
      auto const peers = only(kernels_, [&](KernelEntry const& kernel) { return kernel.family == family; });
      auto quick = options_;
      quick.quick = true;
      auto const tuned = tune(graph_, peers, machine_, subject_, stream_, quick);
      if (!tuned) {
        if (options_.progress) options_.progress(to_text(tuned.error()), {});
        continue;  // other types
      }
      for (auto const& one : tuned->finalists)
        if (auto const group = group_of(one.candidate); one.measurement.right && count(group) < 3)
          all_.push_back({group, false, one.candidate});
        else if (!one.measurement.right && options_.progress)
          options_.progress(one.candidate.name + " is wrong", one.relative_error);
    }
  }

  OperatorGraph const& graph_;
  MachineProfile const& machine_;
  Subject const& subject_;
  GpuStream stream_;
  TuneOptions const& options_;
  Registry const& kernels_;
  std::vector<Contender> all_;
  std::vector<std::size_t> place_;
};

}  // namespace

double SizeResult::best_peer(double Measurement::*time) const {
  double best = std::numeric_limits<double>::infinity();
  for (auto const& row : rows)
    if (!row.tessera && row.result.measurement.right) best = std::min(best, row.result.measurement.*time);
  return best;
}

double SizeResult::chosen(double Measurement::*time) const {
  for (auto const& row : rows)
    if (row.group == chosen_group && row.result.measurement.right) return row.result.measurement.*time;
  return std::numeric_limits<double>::infinity();
}

Expected<SizeResult> bench_size(OperatorGraph const& graph, MachineProfile const& machine, double floor_us,
                                GpuStream stream, TuneOptions const& options) {
  auto const begin = std::chrono::steady_clock::now();
  auto kernels = shipped_kernels();
  auto bindings = shipped_bindings();
  if (auto added = add_cutlass(kernels, bindings); !added) return tl::make_unexpected(added.error());
  auto const bench = Workbench::make(graph, kernels, bindings, stream);
  if (!bench) return tl::make_unexpected(bench.error());
  auto const subject = bench->subject(floor_us);
  auto result = SizeBench(graph, machine, subject, stream, options, kernels).run();
  if (!result) return result;
  result->floor_us = floor_us;
  result->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace tessera::bench
