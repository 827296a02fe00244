// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/step_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tessera/describe/dsl.hpp>
#include <tessera/plan/build.hpp>
#include <tuple>

#include "kernels/lattice_boltzmann/each_cut.hpp"
#include "kernels/lattice_boltzmann/on_chip.hpp"
#include "kernels/lattice_boltzmann/trip.hpp"

namespace tessera::lattice_boltzmann {
namespace {

constexpr char const* k_names[] = {"two_lattices", "in_place",         "trips",
                                   "barrier",      "cooperative",      "neighbours",
                                   "chip_tokens",  "chip_semaphores",  "chip_split_barrier",
                                   "chip_barrier", "chip_cooperative", "chip_clusters"};
static_assert(std::size(k_names) == std::size(k_variants));

/// Tasks of the inside that a task of the rim takes as long as: its words' addresses, loads and stores.
constexpr double k_rim_task = 3;

/// A coordinate and its two neighbours around a periodic axis of so many tiles, each once.
std::vector<Dim> around(Dim const& at, int tiles) {
  std::vector<Dim> result = {at};
  if (tiles > 1) result.push_back((at + 1) % tiles);
  if (tiles > 2) result.push_back((at + (tiles - 1)) % tiles);
  return result;
}

}  // namespace

bool has_walls(Problem const& problem) {
  return !problem.cells.empty() ||
         std::any_of(problem.faces.begin(), problem.faces.end(), [](Face f) { return f != Face::periodic; });
}

std::string to_string(Variant variant) { return k_names[static_cast<std::size_t>(variant)]; }

std::optional<Variant> variant_named(std::string const& name) {
  for (auto const variant : k_variants)
    if (to_string(variant) == name) return variant;
  return std::nullopt;
}

long long memory_of(Problem const& problem, Variant variant) {
  auto const cells = problem.size();
  long long bytes = 4 * k_directions * cells * (has_two_lattices(variant) ? 2 : 1);
  if (has_walls(problem)) bytes += cells * static_cast<long long>(1 + sizeof(Links));
  if (!problem.density.empty()) bytes += 4 * cells;
  for (auto const& component : problem.velocity)
    if (!component.empty()) bytes += 4 * cells;
  return bytes;
}

Diagnostic does_not_fit(std::string message, std::string way_out) {
  Diagnostic one;
  one.code = "E0569";
  one.message = std::move(message);
  one.suggestion = std::move(way_out);
  return one;
}

Expected<void> check_memory(Problem const& problem, Variant variant, long long free_bytes, long long beside) {
  auto const needed = memory_of(problem, variant) + beside;
  if (needed <= free_bytes) return {};
  auto const gib = [](long long bytes) {
    return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
  };
  auto const least = memory_of(problem, Variant::in_place) + beside;
  auto const hint =
      variant != Variant::in_place && least <= free_bytes
          ? fmt::format("take the variant in_place, which needs {}", gib(least))
          : fmt::format("ask for at most {:.0f} cells along each axis",
                        std::floor(std::cbrt(static_cast<double>(free_bytes) / static_cast<double>(least) *
                                             static_cast<double>(problem.size()))));
  return refuse(does_not_fit(fmt::format("{} as {} needs {} of memory, and {} are free", to_string(problem),
                                         to_string(variant), gib(needed), gib(free_bytes)),
                             hint));
}

Expected<void> check_cut(Problem const& problem, ChipCut const& cut) {
  int const edges[] = {problem.width, problem.height, problem.depth};
  long long cells = 1;
  for (int a = 0; a < 3; ++a) {
    if (cut.box[a] != edges[a])
      return refuse(does_not_fit(fmt::format("a cut of a box of {}x{}x{} cells for {}", cut.box[0],
                                             cut.box[1], cut.box[2], to_string(problem)),
                                 "cut the problem's own box"));
    if (cut.blocks[a] < 1 || cut.blocks[a] > cut.box[a])
      return refuse(does_not_fit(fmt::format("a cut into {}x{}x{} blocks of {}", cut.blocks[0], cut.blocks[1],
                                             cut.blocks[2], to_string(problem)),
                                 "cut each axis into 1 block at least, and into no more than its cells"));
    cells *= (cut.box[a] + cut.blocks[a] - 1) / cut.blocks[a];
  }
  if (cells > k_chip_cells)
    return refuse(does_not_fit(fmt::format("blocks of {} cells on a chip", cells),
                               fmt::format("{} fit: cut the box into more blocks", k_chip_cells)));
  auto const& c = cut.cluster;
  for (int a = 0; a < 3; ++a)
    if (c[a] < 1 || cut.blocks[a] % c[a] != 0)
      return refuse(
          does_not_fit(fmt::format("clusters of {}x{}x{} among {}x{}x{} blocks, which do not fill them", c[0],
                                   c[1], c[2], cut.blocks[0], cut.blocks[1], cut.blocks[2]),
                       "take a cluster whose edges divide the numbers of blocks"));
  if (cut.cluster_blocks() > k_cluster_blocks)
    return refuse(does_not_fit(fmt::format("clusters of {} blocks", cut.cluster_blocks()),
                               fmt::format("take {} at most", k_cluster_blocks)));
  return {};
}

double tasks_of(ChipCut const& cut) {
  double most = 0;
  // The first and the last along each axis: sizes differ by one at most, and the last one has the largest.
  for (int z = 0; z < std::min(2, cut.blocks[2]); ++z)
    for (int y = 0; y < std::min(2, cut.blocks[1]); ++y)
      for (int x = 0; x < std::min(2, cut.blocks[0]); ++x) {
        auto const last = [&](int axis, int i) { return i == 0 ? 0 : cut.blocks[axis] - 1; };
        ChipBlock const block(cut, last(0, x) + cut.blocks[0] * (last(1, y) + cut.blocks[1] * last(2, z)));
        int const rim = (block.rim() + 31) / 32, inside = (block.cells() - block.rim() + 31) / 32;
        most = std::max(most, k_rim_task * rim + inside);
      }
  return most;
}

std::optional<ChipCut> chip_cut(Problem const& problem, int sms) {
  std::optional<ChipCut> best;
  double least = std::numeric_limits<double>::infinity();
  if (problem.size() > 1LL * sms * k_chip_cells) return best;
  for_each_cut(problem, sms, [&](ChipCut const& cut) {
    if (cut.most_cells() > k_chip_cells) return;
    double const tasks = tasks_of(cut);
    if (tasks < least) least = tasks, best = cut;
  });
  return best;
}

ChipCut tile_cut(Problem const& problem, int workers) {
  ChipCut best{{problem.width, problem.height, problem.depth}, {1, 1, 1}};
  auto const rank = [](ChipCut const& cut) {
    // Rows of x stay whole where that costs nothing.
    return std::tuple(cut.most_cells(), cut.blocks[0], cut.blocks[1]);
  };
  for_each_cut(problem, workers, [&](ChipCut const& cut) {
    if (rank(cut) < rank(best)) best = cut;
  });
  return best;
}

namespace {
/// Sectors of memory, of 8 cells, that a row of cells lies in on average, and what one costs beside an update
/// of a cell: 19 times 32 bytes by the L2's rate (k_share_of_l2), where an update takes an SM 2 ns.
double sectors(double cells, bool aligned) { return cells / 8 + (aligned ? 0 : 1); }
constexpr double k_sector = 7;
/// Planes that a block goes through at most: blocks beside each other do not wait for each other, and those
/// that are further apart than the L2 holds read what is around their tiles from memory once more.
constexpr int k_trip_planes = 96;

/// Of one SM: blocks come one behind the other; those of the last round may have an SM for themselves.
double of_trip(ChipCut const& cut, int sms, double sector) {
  double size[3];
  for (int a = 0; a < 3; ++a) size[a] = std::ceil(1.0 * cut.box[a] / cut.blocks[a]);
  double const rounds = std::ceil(cut.count() / (1.0 * sms * k_trips_on_sm)) * k_trips_on_sm;
  bool const aligned = cut.box[0] % (8 * cut.blocks[0]) == 0;
  double const first = (size[1] + 2) * (size[0] + 2 + sector * sectors(size[0] + 2, false));
  double const second = size[1] * (size[0] + sector * sectors(size[0], aligned));
  return rounds * ((size[2] + 2) * first + size[2] * second);
}
}  // namespace

double updates_of_trip(ChipCut const& cut, int sms) { return of_trip(cut, sms, 0); }

ChipCut trip_cut(Problem const& problem, int sms) {
  int const room = has_walls(problem) ? Middle<true>::columns : Middle<false>::columns;
  long long const slots = 1LL * sms * k_trips_on_sm;
  ChipCut best;
  double least = std::numeric_limits<double>::infinity();
  auto const tiles = [](int edge, int size) { return (edge + size - 1) / size; };
  for (int width = 1; width <= problem.width && (width + 2) * 3 <= room; ++width)
    for (int height = 1; height <= problem.height && (width + 2) * (height + 2) <= room &&
                         width * height <= Middle<true>::cells;
         ++height) {
      ChipCut cut{{problem.width, problem.height, problem.depth},
                  {tiles(problem.width, width), tiles(problem.height, height), 1}};
      long long const plane = 1LL * cut.blocks[0] * cut.blocks[1];
      for (long long rounds = (plane + slots - 1) / slots, more = 0; more < 4; ++more) {
        cut.blocks[2] = static_cast<int>(
            std::clamp((rounds + more) * slots / plane, 1LL, static_cast<long long>(problem.depth)));
        double const cost = of_trip(cut, sms, k_sector);
        if (cost < least) least = cost, best = cut;
      }
    }
  best.blocks[2] = std::max(best.blocks[2], tiles(problem.depth, k_trip_planes));
  return best;
}

Expected<Loop> describe_steps(ChipCut const& cut, Resources const& resources) {
  PipelineBuilder pipeline("lattice_boltzmann");
  auto [x, y, z] = pipeline.dims("x", "y", "z");
  auto step = pipeline.stage("step", {x = cut.blocks[0], y = cut.blocks[1], z = cut.blocks[2]});
  step.output("populations").resources(resources);
  std::vector<TileRef> read;
  for (auto const& c : around(z, cut.blocks[2]))
    for (auto const& b : around(y, cut.blocks[1]))
      for (auto const& a : around(x, cut.blocks[0])) read.push_back(earlier(step(a, b, c)));
  pipeline.depends_on(step(x, y, z), read).through("before");
  pipeline.copies("populations", 2);
  return pipeline.build_loop();
}

Expected<LoopPlan> plan_steps(ChipCut const& cut, Resources const& resources, MachineProfile const& machine,
                              bool tokens) {
  auto const loop = describe_steps(cut, resources);
  if (!loop) return tl::make_unexpected(loop.error());
  return plan_loop(*loop, machine, cut.count(),
                   tokens ? std::vector<std::string>{"populations"} : std::vector<std::string>{});
}

Expected<Plan> plan_launch(MachineProfile const& machine) {
  PipelineBuilder pipeline("lattice_boltzmann");
  auto [x] = pipeline.dims("x");
  pipeline.stage("step", {x = 1}).output("populations");
  auto const built = pipeline.build();
  if (!built) return tl::make_unexpected(built.error());
  auto const checked = check(*built);
  if (!checked) return tl::make_unexpected(checked.error());
  return build_plan(*checked, machine, {});
}

}  // namespace tessera::lattice_boltzmann
