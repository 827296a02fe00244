// SPDX-License-Identifier: Apache-2.0
#include "tuned.hpp"

#include <charconv>
#include <string_view>
#include <tessera/run/device.hpp>
#include <tessera/version.hpp>

#include "kernels/common/refusal.hpp"
#include "one_call.hpp"
#include "src/gpu/select.hpp"

namespace tessera::gemm_collectives {
namespace {

constexpr std::string_view k_few = "few rows ", k_band = " band ";

std::optional<int> number(std::string_view text) {
  int value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

char const* name_of(ElementType type) { return type == ElementType::bf16 ? "bf16" : "fp16"; }

/// Nothing where the entry is of none that there is.
std::optional<Problem> problem_of(ProductKey const& key) {
  constexpr std::int64_t k_most = 1 << 20;
  for (auto const size : {key.rows, key.columns, key.depth, key.gpus})
    if (size < 1 || size > k_most) return std::nullopt;
  Problem problem;
  problem.rows = static_cast<int>(key.rows);
  problem.columns = static_cast<int>(key.columns);
  problem.depth = static_cast<int>(key.depth);
  problem.ranks = static_cast<int>(key.gpus);
  problem.type = key.type == name_of(ElementType::fp16) ? ElementType::fp16 : ElementType::bf16;
  if (key.type != name_of(problem.type)) return std::nullopt;
  for (auto const collective : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather}) {
    problem.collective = collective;
    if (key.collective == to_string(collective) && check_problem(problem)) return problem;
  }
  return std::nullopt;
}

}  // namespace

std::string to_text(PieceKernel const& kernel) {
  if (kernel.tiles != nullptr)
    return std::string(kernel.tiles->info.name) + std::string(k_band) + std::to_string(kernel.band);
  if (kernel.few >= 0) return std::string(k_few) + std::to_string(kernel.few);
  return kernel.algorithm;
}

std::optional<PieceKernel> piece_kernel(std::string const& text) {
  PieceKernel kernel;
  if (text.empty()) return kernel;
  std::string_view const all = text;
  if (all.substr(0, k_few.size()) == k_few) {
    auto const which = number(all.substr(k_few.size()));
    if (!which) return std::nullopt;
    kernel.few = *which;
    return kernel;
  }
  if (auto const at = all.rfind(k_band); at != std::string_view::npos) {
    auto const band = number(all.substr(at + k_band.size()));
    kernel.tiles = gemm_sm90::find_kernel(text.substr(0, at).c_str());
    if (!band || *band < 1 || kernel.tiles == nullptr) return std::nullopt;
    kernel.band = *band;
    return kernel;
  }
  if (!cublaslt::lt_algorithm(text)) return std::nullopt;
  kernel.algorithm = text;
  return kernel;
}

Expected<ProductKey> product_key(PeerGroup const& group, Problem const& problem) {
  ProductKey key;
  for (int const rank : group.here()) {
    gpu::Select const current(group.device(rank));
    auto const machine = with_device();
    if (!machine) return tl::make_unexpected(machine.error());
    if (!key.gpu.empty() && key.gpu != machine->gpu)
      return kernels::refusal("E0581", "GPUs that are not alike: " + key.gpu + " and " + machine->gpu,
                              "nothing is tuned for them; give the options to GemmCollective::make()",
                              {to_string(problem)});
    key.gpu = machine->gpu;
  }
  auto driver = driver_version();
  if (!driver) return tl::make_unexpected(driver.error());
  key.driver = std::move(*driver);
  key.libraries =
      std::string("tessera ") + k_version + ", cublasLt " + std::to_string(cublaslt::lt_version());
  key.collective = to_string(problem.collective);
  key.rows = problem.rows;
  key.columns = problem.columns;
  key.depth = problem.depth;
  key.type = name_of(problem.type);
  key.gpus = group.size();
  return key;
}

std::optional<Options> options_of(ProductEntry const& entry) {
  auto const problem = problem_of(entry.key);
  auto const kernel = piece_kernel(entry.kernel);
  if (!problem || !kernel) return std::nullopt;
  for (auto const way : ways_of(*problem))
    if (entry.way == to_string(way)) {
      Options options;
      options.way = way;
      options.kernel = *kernel;
      options.parts = static_cast<int>(entry.parts);
      return options;
    }
  return std::nullopt;
}

Expected<int> remember_tuned(std::shared_ptr<PeerGroup> const& group, TuneCache const& cache) {
  int count = 0;
  for (auto const& entry : cache.products) {
    auto const problem = problem_of(entry.key);
    auto const options = options_of(entry);
    if (!problem || !options || problem->ranks != group->size()) continue;
    auto const here = product_key(*group, *problem);
    if (!here) return tl::make_unexpected(here.error());
    if (*here != entry.key) continue;
    if (auto done = remember(group, *problem, *options); !done) return tl::make_unexpected(done.error());
    ++count;
  }
  return count;
}

}  // namespace tessera::gemm_collectives
