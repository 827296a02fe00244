// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera::lattice_boltzmann {
namespace {

Expected<void> refused(std::string message, std::string way_out) {
  return refuse({"E0568", Severity::error, {}, std::move(message), {}, std::move(way_out)});
}

Expected<void> check_fields(Problem const& p) {
  auto const right = [&](std::size_t size) { return size == 0 || static_cast<long long>(size) == p.size(); };
  bool all = right(p.cells.size()) && right(p.density.size());
  for (auto const& component : p.velocity) all = all && right(component.size());
  if (!all)
    return refused(fmt::format("fields of another size than the box of {} cells", p.size()),
                   "give a value for each cell, x first, or none");
  for (float const density : p.density)
    if (!(density > 0.5f && density < 2))
      return refused(fmt::format("a density of {} at the start", density),
                     "scale it: in lattice units it is about 1");
  return {};
}

constexpr double k_most_speed = k_most_mach * std::numbers::inv_sqrt3;

Expected<void> too_fast(double speed, char const* what) {
  return refused(fmt::format("{} at {:.3g} cells a step, Mach {:.3g}", what, speed, speed * std::sqrt(3.0)),
                 fmt::format("stay below Mach {}, {:.3g} cells a step: smaller steps of time", k_most_mach,
                             k_most_speed));
}

/// Walls that move slide: one that moved towards the fluid would have to push it away.
Expected<void> check_lid(Problem const& p) {
  char const* const ends[] = {"x = 0", "x = width", "y = 0", "y = height", "z = 0", "z = depth"};
  for (std::size_t face = 0; face < p.faces.size(); ++face)
    if (double const off = p.lid[face / 2]; p.faces[face] == Face::lid && off != 0)
      return refused(
          fmt::format("a lid at {} that moves through its own face, {:.3g} cells a step", ends[face], off),
          fmt::format("set lid[{}] to 0: a lid slides along its face", face / 2));
  return {};
}

Expected<void> check_speed(Problem const& p) {
  double const lid = std::hypot(p.lid[0], p.lid[1], p.lid[2]);
  if (!(lid <= k_most_speed)) return too_fast(lid, "a wall that moves");
  // Of a force a step's worth alone can be judged: how fast it makes the fluid depends on the walls.
  double const force = std::hypot(p.force[0], p.force[1], p.force[2]);
  if (!(force <= k_most_speed)) return too_fast(force, "a force that leaves a fluid, after one step,");
  bool const at_rest =
      std::all_of(p.velocity.begin(), p.velocity.end(), [](auto const& v) { return v.empty(); });
  for (std::size_t n = 0; !at_rest && n < static_cast<std::size_t>(p.size()); ++n) {
    double square = 0;
    for (auto const& component : p.velocity)
      if (!component.empty()) square += 1.0 * component[n] * component[n];
    if (!(square <= k_most_speed * k_most_speed)) return too_fast(std::sqrt(square), "a flow that starts");
  }
  return {};
}

}  // namespace

Expected<void> check_box(Problem const& p) {
  for (int const edge : {p.width, p.height, p.depth})
    if (edge < 1 || edge > k_most_edge)
      return refused(fmt::format("a box of {}x{}x{} cells", p.width, p.height, p.depth),
                     fmt::format("ask for 1 to {} cells along each axis", k_most_edge));
  if (p.size() >= k_most_cells)
    return refused(fmt::format("a box of {} cells", p.size()), "ask for fewer than 2^31");
  char const* const axes[] = {"x", "y", "z"};
  for (std::size_t d = 0; d < 3; ++d)
    if ((p.faces[2 * d] == Face::periodic) != (p.faces[2 * d + 1] == Face::periodic))
      return refused(
          fmt::format("a box that is periodic at one end of {} and has a wall at the other", axes[d]),
          "make both ends periodic, or both walls");
  return {};
}

Expected<void> check_problem(Problem const& problem) {
  if (auto ok = check_box(problem); !ok) return ok;
  constexpr double k_tau_end = 1e6;
  if (problem.tau >= k_tau_end)
    return refused(
        fmt::format("a relaxation time tau of {}", problem.tau),
        fmt::format("ask for less than {}: the viscosity (tau - 1/2) / 3 is beyond any flow's", k_tau_end));
  if (!(problem.tau > 0.5))
    return refused(
        fmt::format("a relaxation time tau of {}", problem.tau),
        "ask for more than 0.5: the viscosity (tau - 1/2) / 3 is positive; below 0.51 few flows stay "
        "stable");
  if (auto ok = check_fields(problem); !ok) return ok;
  if (auto ok = check_lid(problem); !ok) return ok;
  return check_speed(problem);
}

std::vector<Links> links_of(Problem const& p) {
  bool walls = !p.cells.empty();
  for (auto const face : p.faces) walls = walls || face != Face::periodic;
  std::vector<Links> links;
  if (!walls) return links;
  links.resize(static_cast<std::size_t>(p.size()));
  int const edges[] = {p.width, p.height, p.depth};
  auto const number = [&](int x, int y, int z) {
    return static_cast<std::size_t>(x + 1LL * p.width * (y + 1LL * p.height * z));
  };
  auto const kind = [&](std::size_t n) { return p.cells.empty() ? Cell::fluid : p.cells[n]; };
  for (int z = 0; z < p.depth; ++z)
    for (int y = 0; y < p.height; ++y)
      for (int x = 0; x < p.width; ++x) {
        auto& link = links[number(x, y, z)];
        if (kind(number(x, y, z)) != Cell::fluid) {
          link.walls = k_solid;
          continue;
        }
        for (int i = 1; i < k_directions; ++i) {
          int from[] = {x - velocity_x(i), y - velocity_y(i), z - velocity_z(i)};
          bool wall = false, lid = false;
          for (std::size_t d = 0; d < 3; ++d) {
            bool const low = from[d] < 0, high = from[d] >= edges[d];
            if (!low && !high) continue;
            auto const face = p.faces[2 * d + (high ? 1 : 0)];
            wall = wall || face != Face::periodic;
            lid = lid || face == Face::lid;
            from[d] = low ? edges[d] - 1 : 0;
          }
          if (!wall) {
            auto const neighbour = kind(number(from[0], from[1], from[2]));
            wall = neighbour != Cell::fluid, lid = neighbour == Cell::lid;
          }
          if (wall) link.walls |= 1u << i;
          if (lid) link.lids |= 1u << i;
        }
      }
  return links;
}

std::string to_string(Problem const& p) {
  return fmt::format("a box of {}x{}x{} cells, tau {:.4g}", p.width, p.height, p.depth, p.tau);
}

Problem cavity(int width, int height, int depth, double speed, double tau) {
  Problem result{width, height, depth, tau};
  result.faces = {Face::wall, Face::wall, Face::wall, Face::lid, Face::wall, Face::wall};
  result.lid[0] = speed;
  return result;
}

Problem driven_cavity(int edge, double speed, double reynolds) {
  return cavity(edge, edge, edge, speed, 0.5 + 3 * speed * edge / reynolds);
}

Problem taylor_green(int width, int height, int depth, double speed, double tau) {
  Problem result{width, height, depth, tau};
  auto const size = static_cast<std::size_t>(result.size());
  result.density.resize(size);
  for (auto& component : result.velocity) component.resize(size);
  double const kx = 2 * std::numbers::pi / width, ky = 2 * std::numbers::pi / height;
  std::size_t n = 0;
  for (int z = 0; z < depth; ++z)
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x, ++n) {
        double const a = kx * (x + 0.5), b = ky * (y + 0.5);
        result.velocity[0][n] = static_cast<float>(-speed * std::sqrt(ky / kx) * std::cos(a) * std::sin(b));
        result.velocity[1][n] = static_cast<float>(speed * std::sqrt(kx / ky) * std::sin(a) * std::cos(b));
        double const pressure = -speed * speed / 4 * (ky / kx * std::cos(2 * a) + kx / ky * std::cos(2 * b));
        result.density[n] = static_cast<float>(1 + 3 * pressure);
      }
  return result;
}

Problem channel(int width, int height, int depth, double speed, double tau) {
  Problem result{width, height, depth, tau};
  result.faces[2] = result.faces[3] = Face::wall;
  double const viscosity = (tau - 0.5) / 3;
  result.force[0] = 8 * viscosity * speed / (1.0 * height * height);
  return result;
}

Expected<void> check_named_flow(std::string const& name, int width, int height, int depth, double speed,
                                double tau) {
  if (name != "vortices" && name != "cavity" && name != "channel")
    return refused(fmt::format("no flow has the name {}", name), "ask for vortices, cavity or channel");
  // What is about the box comes first: fields are as large.
  if (auto ok = check_problem(cavity(width, height, depth, 0, tau)); !ok) return ok;
  if (name == "cavity") return check_problem(cavity(width, height, depth, speed, tau));
  if (!(std::abs(speed) <= k_most_speed))
    return too_fast(std::abs(speed), name == "channel" ? "a channel that flows" : "vortices that turn");
  if (name == "channel") return check_problem(channel(width, height, depth, speed, tau));
  // They are the same at all z.
  return check_problem(taylor_green(width, height, 1, speed, tau));
}

Expected<Problem> named_flow(std::string const& name, int width, int height, int depth, double speed,
                             double tau) {
  if (auto ok = check_named_flow(name, width, height, depth, speed, tau); !ok)
    return tl::make_unexpected(ok.error());
  return name == "cavity"    ? cavity(width, height, depth, speed, tau)
         : name == "channel" ? channel(width, height, depth, speed, tau)
                             : taylor_green(width, height, depth, speed, tau);
}

}  // namespace tessera::lattice_boltzmann
