// SPDX-License-Identifier: Apache-2.0
// What the programs that measure flows share.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <tessera/diagnostic.hpp>
#include <tessera/run/device.hpp>
#include <vector>

#include "kernels/lattice_boltzmann/problem.hpp"
#include "src/bench/machine_of_gpu.hpp"

namespace tessera::lattice_boltzmann {

struct Box {
  int width, height, depth;
};

/// Those that words from number `first` on name ("48x36x132"), or the usual ones; none: one is no box.
inline std::optional<std::vector<Box>> boxes_of(int count, char** words, int first, std::vector<Box> usual) {
  if (count <= first) return usual;
  std::vector<Box> boxes;
  for (int i = first; i < count; ++i) {
    Box box{};
    if (std::sscanf(words[i], "%dx%dx%d", &box.width, &box.height, &box.depth) != 3) return std::nullopt;
    boxes.push_back(box);
  }
  return boxes;
}

/// The shipped profile of the current device.
inline Expected<MachineProfile> profile_here() {
  auto const here = with_device();
  if (!here) return here;
  return bench::machine_of_gpu(here->gpu);
}

/// A fluid that is pushed, without walls.
inline Problem measured_flow(Box const& box) {
  auto problem = Problem{box.width, box.height, box.depth, 0.6};
  problem.force[0] = 1e-7;
  return problem;
}

inline double mlups(Problem const& problem, double us) { return static_cast<double>(problem.size()) / us; }

/// Says why not.
inline bool fine(Expected<void> const& done) {
  if (!done) std::printf("  %s\n", to_text(done.error()).c_str());
  return done.has_value();
}

}  // namespace tessera::lattice_boltzmann
