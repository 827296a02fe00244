// SPDX-License-Identifier: Apache-2.0
#include "tune.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tessera/communicate/reach.hpp>
#include <tessera/measure/statistics.hpp>

#include "refused.hpp"
#include "src/bench/matrices.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/select.hpp"

namespace tessera::gemm_collectives {

using gpu::ok;
using gpu::Select;

OperandRing::OperandRing(std::shared_ptr<PeerGroup> const& group, Problem const& problem, int most)
    : ranks_(group->size()) {
  auto const rows = static_cast<std::size_t>(problem.rows);
  auto const columns = static_cast<std::size_t>(problem.local_columns());
  auto const depth = static_cast<std::size_t>(problem.local_depth());
  std::size_t const bytes[] = {2 * rows * depth, 2 * columns * depth, 2 * rows * columns};
  constexpr std::size_t k_more_than_caches = 200u << 20;
  std::size_t const sets = k_more_than_caches / (bytes[0] + bytes[1] + bytes[2]) + 1;
  count_ = static_cast<int>(std::clamp<std::size_t>(sets, 2, static_cast<std::size_t>(std::max(most, 2))));
  for (int set = 0; set < count_; ++set)
    for (int which = 0; which < 3; ++which) {
      memory_.push_back(must(PeerMemory::make(group, bytes[which])));
      for (int rank = 0; rank < ranks_ && which < 2; ++rank) {
        Select const current(group->device(rank));
        float const deviation = which == 0 ? 1 : 1 / std::sqrt(static_cast<float>(problem.depth));
        bench::fill_random(memory_.back().at(rank), bytes[which] / 2, problem.type,
                           static_cast<unsigned long long>((set * 2 + which) * ranks_ + rank), deviation,
                           nullptr);
        ok(cudaStreamSynchronize(nullptr));
      }
    }
}

std::vector<Operands> OperandRing::of(int set) const {
  std::vector<Operands> result;
  for (int rank = 0; rank < ranks_; ++rank) {
    auto const at = [&](int which) { return memory_[static_cast<std::size_t>(3 * set + which)].at(rank); };
    result.push_back({at(0), at(1), at(2)});
  }
  return result;
}

namespace {

/// Is a kernel worth its trial? What is left out was slower wherever it was measured
/// (docs/design/notes-peers.md).
bool worth_it(PieceKernel const& kernel, int algorithm, int rows, Way way) {
  if (kernel.few >= 0) {
    if (rows <= 8) return kernel.few <= 1;
    return rows <= 32 ? kernel.few == 2 || kernel.few == 6 : kernel.few == 4;
  }
  // Only the library's products add, and only ours stores across a link without waiting for each tile.
  if (kernel.tiles != nullptr)
    return way == Way::store && std::strcmp(kernel.tiles->info.name, "128x256x64_2x1") == 0;
  return algorithm == 0 || way == Way::words || way == Way::copy || way == Way::sequential;
}

}  // namespace

std::vector<Options> options_to_try(Problem const& problem, Way way) {
  if (way == Way::fused) return {{way, {}, 1}};
  // Rows of the products: all, or a shard's.
  bool const whole = way == Way::words || way == Way::sequential;
  // Where shards are a few rows, transfers are all that counts.
  constexpr int k_least_rows = 128, k_most_words_rows = 512;
  if (!whole && problem.rows < k_least_rows) return {};
  if (way == Way::words && problem.rows > k_most_words_rows) return {};
  int const rows = whole ? problem.rows : most_shard_rows(problem.rows, problem.ranks);
  constexpr int k_most_algorithms = 2;
  // Products of fewer rows do not fill the SMs.
  constexpr int k_least_part = 256;
  std::vector<Options> result;
  for (int const parts : way == Way::add ? std::vector{1, 2, 4} : std::vector{1}) {
    if (parts > 1 && rows < parts * k_least_part) continue;
    // What the library guesses for each part, which may be another kernel than a whole shard's.
    if (parts > 1) result.push_back({way, {}, parts});
    int algorithms = 0;
    for (auto const& kernel :
         kernels_to_try({rows, problem.local_columns(), problem.local_depth(), problem.type, problem.gelu},
                        k_most_algorithms)) {
      bool const by_library = kernel.tiles == nullptr && kernel.few < 0;
      int const algorithm = by_library ? algorithms++ : -1;
      if (way != Way::words && kernel.few >= 0) continue;
      if (worth_it(kernel, algorithm, rows, way)) result.push_back({way, kernel, parts});
    }
  }
  return result;
}

std::vector<Tried> tune(std::shared_ptr<PeerGroup> const& group, Problem const& problem,
                        TuneOptions const& options, Gang& gang, OperandRing const& operands) {
  std::vector<Tried> tried;
  for (auto const way : ways_of(problem))
    for (auto const& one : options_to_try(problem, way)) {
      auto product = GemmCollective::make(group, problem, one);
      if (!product) continue;
      GangTimed timed{product->name(), [&](std::vector<cudaStream_t> const& streams, int set) {
                        return product->run(operands.of(set), streams);
                      }};
      gang.capture(timed, options.calls, operands.count());
      gang.rounds({&timed}, options.rounds, options.calls);
      Gang::release(timed);
      if (product->finish()) tried.push_back({one, timed.name, median(timed.us)});
    }
  std::stable_sort(tried.begin(), tried.end(), [](auto const& a, auto const& b) { return a.us < b.us; });
  return tried;
}

Expected<std::vector<Tried>> tune(std::shared_ptr<PeerGroup> const& group, Problem problem,
                                  TuneOptions const& options) {
  problem.ranks = group->size();
  if (auto fine = check_problem(problem); !fine) return tl::make_unexpected(fine.error());
  if (!group->apart().empty()) return refuse(needs_reach("tuning", group->apart()));
  if (group->of_processes())
    return kernels::refusal("E0581", "tuning among several processes",
                            "tune in one process that has all GPUs, and give all ranks what was fastest",
                            {to_string(problem)});
  try {
    Gang gang(group);
    return tune(group, problem, options, gang, OperandRing(group, problem, options.calls));
  } catch (std::exception const& error) {
    return failed(error);
  }
}

}  // namespace tessera::gemm_collectives
