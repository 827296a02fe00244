// SPDX-License-Identifier: Apache-2.0
#include "overlap/limits.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "overlap/operand.hpp"
#include "tessera/overlap/run.hpp"

namespace tessera::overlap {
namespace {

// Far beyond any GEMM of today, and far from overflow.
constexpr std::int64_t k_most = 1 << 28;
constexpr std::int64_t k_most_elements = std::int64_t{1} << 36;
constexpr std::int64_t k_most_tiles = 1 << 20;
constexpr std::int64_t k_most_slices = 1 << 21;  // some 200 bytes each, and as much for each further channel
constexpr std::int64_t k_most_configured = 1 << 24;  // some 30 bytes each
constexpr std::int64_t k_most_lines = 200'000'000;   // some 10 ns each: twice GPT-3's FC-2 with 8192 tokens
constexpr std::int64_t k_line = 128;
constexpr std::int64_t k_fewest_lines = 32;  // that a slice of a tile takes as long as, however small
constexpr std::int64_t k_warp = 32;

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

tl::unexpected<Diagnostics> refused(char const* code, std::string message, std::string suggestion) {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.suggestion = std::move(suggestion);
  return refuse(std::move(d));
}

/// Lines of memory that one tile of the output loads and stores. Saturates far beyond what can be simulated.
std::int64_t lines_of_tile(GemmProblem const& p, GemmKernel const& k) {
  auto const bytes = [&](double elements) { return elements * static_cast<double>(k_element); };
  auto const slice = bytes(static_cast<double>(k.tile_m) + k.tile_n) * k.tile_k / k_line;
  auto const lines =
      static_cast<double>(divided_up(p.k, k.tile_k)) * std::max<double>(slice, k_fewest_lines) +
      bytes(static_cast<double>(k.tile_m) * k.tile_n) / k_line;
  return static_cast<std::int64_t>(std::min(lines, 1e12));
}

/// The largest m of a GEMM that is otherwise this one; 0 if there is none.
std::int64_t most_rows(GemmProblem const& p, GemmKernel const& k, std::int64_t most_tiles) {
  auto const columns = divided_up(p.n, k.tile_n);
  auto const panels = k_most_slices / divided_up(p.k, k.tile_k);
  auto const tiles = std::max<std::int64_t>(
      0, std::min({most_tiles / columns, panels - columns, k_most_lines / lines_of_tile(p, k) / columns}));
  return std::min({k_most, k_most_elements / std::max(p.n, p.k), tiles * k.tile_m});
}

/// "; that is ...", of the rows that work. A sub-layer has one for each token.
std::string that_is(std::int64_t rows) {
  return rows < 1 ? "" : fmt::format("; that is at most {} tokens (rows of the output)", rows);
}

std::string text(GemmKernel const& k) {
  return fmt::format("{} x {} x {} in {} stages", k.tile_m, k.tile_n, k.tile_k, k.stages);
}

Expected<void> check_tile(GemmKernel const& k) {
  if (k.tile_m < 1 || k.tile_n < 1 || k.tile_k < 1)
    return refused("E0544", "a tile of " + text(k), "every side of a tile is at least 1");
  if (k.stages < 2 || k.stages > 64)
    return refused("E0544", "a tile of " + text(k),
                   "2 to 64 stages: one slice is computed on while others are loaded");
  if (k.groups_per_sm < 1 || k.groups_per_sm > 64 || k.wavefronts < 1 || k.wavefronts > 64)
    return refused("E0544",
                   fmt::format("{} work-groups of {} wavefronts on an SM", k.groups_per_sm, k.wavefronts),
                   "1 to 64 of both");
  return {};
}

/// Of one work-group. What is beyond any machine's limits stays so, without overflow.
Resources resources(GemmKernel const& k) {
  auto const threads = k_warp * k.wavefronts;
  auto const accumulators = std::min<std::int64_t>(std::int64_t{k.tile_m} * k.tile_n, 1 << 25);
  auto const slice = std::min<std::int64_t>(std::int64_t{k.tile_m} + k.tile_n, 1 << 25) *
                     std::min(k.tile_k, 1 << 25) * k_element;
  return {static_cast<int>(threads), static_cast<int>(divided_up(accumulators, threads)),
          static_cast<int>(std::min<std::int64_t>(slice * k.stages, 1 << 29))};
}

/// A kernel like this one that fits: fewer slices of k where shared memory is too small, else a smaller tile.
GemmKernel fitting(MachineProfile const& machine, GemmKernel k) {
  while (occupancy(machine, resources(k)) < 1 && k.tile_m * std::int64_t{k.tile_n} > 1) {
    bool const shared = occupancy_limiter(machine, resources(k)) == "shared memory";
    auto& side = shared && k.tile_k > 16 ? k.tile_k : k.tile_m >= k.tile_n ? k.tile_m : k.tile_n;
    side /= 2;
  }
  return k;
}

bool is_of(OutputConfiguration const& configuration, std::int64_t tiles) {
  auto const in_range = [&](std::vector<std::int64_t> const& list) {
    return std::all_of(list.begin(), list.end(), [&](std::int64_t t) { return t >= 0 && t < tiles; });
  };
  bool good =
      configuration.tiles == tiles && in_range(configuration.order) && configuration.produced >= 0 &&
      configuration.produced <= static_cast<std::int64_t>(configuration.order.size()) &&
      (configuration.chunk_of.empty() || static_cast<std::int64_t>(configuration.chunk_of.size()) == tiles);
  for (auto const& map : configuration.remote) good = good && in_range(map.tiles);
  for (auto const& map : configuration.dma) good = good && in_range(map.tiles) && map.granularity >= 1;
  return good;
}

}  // namespace

TileGrid tile_grid(GemmProblem const& problem, GemmKernel const& kernel) {
  return {divided_up(problem.n, kernel.tile_n), divided_up(problem.m, kernel.tile_m)};
}

Expected<void> check_sizes(GemmProblem const& p, GemmKernel const& k, int gpus) {
  auto const gemm = fmt::format("a GEMM of {} x {} x {}", p.m, p.n, p.k);
  for (auto const size : {p.m, p.n, p.k})
    if (size < 1 || size > k_most)
      return refused("E0544", gemm, fmt::format("every size is from 1 to {}", k_most));
  bool const too_wide = p.n * p.k > k_most_elements;
  if (auto const tile = check_tile(k); !tile) return tile;
  auto const most = std::min(k_most_tiles, k_most_configured / std::max(1, gpus));
  auto const rows = too_wide ? 0 : most_rows(p, k, most);
  if (too_wide || p.m * p.k > k_most_elements || p.m * p.n > k_most_elements)
    return refused("E0544", gemm,
                   fmt::format("at most {} elements a matrix{}", k_most_elements, that_is(rows)));
  auto const grid = tile_grid(p, k);
  if (grid.columns > most || grid.rows > most / grid.columns)
    return refused("E0544", fmt::format("{} x {} tiles on {} GPUs", grid.columns, grid.rows, gpus),
                   grid.columns <= most
                       ? fmt::format("at most {} tiles{}", most, that_is(rows))
                       : fmt::format("at most {} tiles: here {} columns of the output", most,
                                     std::max<std::int64_t>(1, most / grid.rows) * k.tile_n));
  auto const panels = grid.columns + grid.rows;
  auto const slices = divided_up(p.k, k.tile_k);
  auto const fits = [&](std::int64_t fewer) {
    auto shallow = p;
    shallow.k = fewer * k.tile_k;
    return fewer > 0 && lines_of_tile(shallow, k) <= k_most_lines / grid.tiles();
  };
  if (panels * slices > k_most_slices)
    return refused(
        "E0544", fmt::format("{} slices of {} panels", slices, panels),
        rows > 0 ? fmt::format("at most {} slices in all{}", k_most_slices, that_is(rows))
        : fits(k_most_slices / panels)
            ? fmt::format("at most {} slices: tile_k of {}, or k of {}", k_most_slices / panels,
                          divided_up(p.k, k_most_slices / panels), k_most_slices / panels * k.tile_k)
            : "take larger tiles, or fewer columns of the output");
  if (auto const lines = lines_of_tile(p, k); lines > k_most_lines / grid.tiles())
    return refused(
        "E0544",
        fmt::format("{} tiles that load and store {} lines of {} bytes each", grid.tiles(), lines, k_line),
        fmt::format("at most {} lines in all{}", k_most_lines,
                    rows > 0 ? that_is(rows) : ": fewer columns of the output, or a smaller k"));
  auto const splits = std::min(slices, k_most_tiles / grid.tiles());
  if (k.splits < 1 || k.splits > splits)
    return refused("E0544", fmt::format("{} splits of {} slices", k.splits, slices),
                   fmt::format("1 to {} splits", splits));
  return {};
}

Expected<void> check_kernel(MachineProfile const& machine, GemmKernel const& k) {
  auto const one = resources(k);
  auto const held = occupancy(machine, one);
  if (held >= k.groups_per_sm) return {};
  auto const limiter = occupancy_limiter(machine, one);
  auto const message =
      fmt::format("an SM of {} holds {} work-groups with tiles of {}, and {} {} wanted: {} {}", machine.name,
                  held, text(k), k.groups_per_sm, k.groups_per_sm == 1 ? "is" : "are", limiter,
                  limiter == "shared memory" ? "is too small" : "are too few");
  if (held > 0) return refused("E0546", message, fmt::format("groups_per_sm of {} fits", held));
  auto const other = fitting(machine, k);
  return refused("E0546", message,
                 occupancy(machine, resources(other)) > 0 ? fmt::format("tiles of {} fit", text(other)) : "");
}

Expected<void> check_outputs(GemmProblem const& problem, GemmKernel const& kernel,
                             std::vector<OutputConfiguration> const& outputs) {
  if (outputs.empty())
    return refused("E0544", "no output is configured", "local_output() is that of a GEMM alone");
  auto const tiles = tile_grid(problem, kernel).tiles();
  for (auto const& output : outputs)
    if (!is_of(output, tiles))
      return refused("E0544",
                     fmt::format("GPU {}'s output configuration is not one of {} tiles", output.gpu, tiles),
                     "configure() and local_output() make one for the same sizes and kernel");
  return {};
}

Expected<void> check_panels(GemmProblem const& problem, GemmKernel const& kernel,
                            std::vector<OutputConfiguration> const& panels) {
  if (panels.size() == 1) return refused("E0544", "an all-gather of 1 GPU", "2 GPUs or more");
  auto const rows = tile_grid(problem, kernel).rows;
  for (auto const& one : panels)
    if (!is_of(one, rows) || static_cast<std::int64_t>(one.order.size()) != rows)
      return refused("E0544",
                     fmt::format("GPU {}'s input configuration is not one of {} panels", one.gpu, rows),
                     "configure_gathered() makes one for the same sizes and kernel");
  return {};
}

std::int64_t recorded(OutputConfiguration const& output, int wavefronts) {
  std::int64_t transfers = 0;
  for (auto const& map : output.remote) transfers += static_cast<std::int64_t>(map.tiles.size());
  for (auto const& map : output.dma) transfers += 2 * static_cast<std::int64_t>(map.tiles.size());
  return output.produced + transfers * wavefronts;
}

std::int64_t recorded_on_ring(std::int64_t tiles, int gpus, int wavefronts) {
  auto const chunk = tiles / gpus;
  return tiles + (chunk + 2 * (gpus - 2) * chunk) * wavefronts;
}

Expected<void> check_recording(std::int64_t blocks_and_transfers, std::int64_t tokens) {
  if (blocks_and_transfers <= k_most_recorded) return {};
  return refused("E0545",
                 fmt::format("a recording of {} blocks and transfers; the most is {}", blocks_and_transfers,
                             k_most_recorded),
                 tokens > 0 ? fmt::format("{} tokens on as many GPUs can be recorded", tokens)
                            : "record a run of fewer tokens or GPUs");
}

}  // namespace tessera::overlap
