// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/vtk.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstdint>

namespace tessera::lattice_boltzmann {

std::string vtk_of(Problem const& problem, Flow<float> const& flow) {
  auto text = fmt::format(
      "# vtk DataFile Version 3.0\n{}\nBINARY\nDATASET STRUCTURED_POINTS\nDIMENSIONS {} {} {}\nORIGIN 0.5 "
      "0.5 "
      "0.5\nSPACING 1 1 1\nPOINT_DATA {}\nSCALARS density float 1\nLOOKUP_TABLE default\n",
      to_string(problem), problem.width, problem.height, problem.depth, problem.size());
  // The format's numbers have their highest byte first.
  auto const add = [&text](float value) {
    auto const bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>(bits >> shift & 255));
  };
  text.reserve(text.size() + 64 + 16 * static_cast<std::size_t>(problem.size()));
  for (float const density : flow.density) add(density);
  text += "\nVECTORS velocity float\n";
  for (std::size_t n = 0; n < flow.density.size(); ++n)
    for (auto const& component : flow.velocity) add(component[n]);
  return text + '\n';
}

}  // namespace tessera::lattice_boltzmann
