// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/reference.hpp"

namespace tessera::lattice_boltzmann {

template <class Real>
Reference<Real>::Reference(Problem const& problem)
    : problem_(problem), relaxation_(relaxation_of<Real>(problem)), links_(links_of(problem)) {
  auto const cells = static_cast<std::size_t>(problem.size());
  now_.resize(k_directions * cells), next_.resize(k_directions * cells);
  for (std::size_t n = 0; n < cells; ++n) {
    Real u[3] = {}, f[k_directions];
    for (std::size_t d = 0; d < 3; ++d)
      if (!problem.velocity[d].empty()) u[d] = problem.velocity[d][n];
    float const density = problem.density.empty() ? 1 : problem.density[n];
    equilibrium(Real(density - 1), u, f);
    bool const solid = !links_.empty() && (links_[n].walls & k_solid) != 0;
    for (std::size_t i = 0; i < k_directions; ++i) now_[i * cells + n] = solid ? Real(0) : f[i];
  }
}

template <class Real>
void Reference<Real>::step() {
  auto const& p = problem_;
  auto const cells = static_cast<std::size_t>(p.size());
  auto const wrapped = [](int at, int edge) { return at < 0 ? edge - 1 : at >= edge ? 0 : at; };
  std::size_t n = 0;
  for (int z = 0; z < p.depth; ++z)
    for (int y = 0; y < p.height; ++y)
      for (int x = 0; x < p.width; ++x, ++n) {
        Links const link = links_.empty() ? Links{} : links_[n];
        if ((link.walls & k_solid) != 0) continue;
        Real f[k_directions];
        f[0] = now_[n];
        for (int i = 1; i < k_directions; ++i) {
          auto const at = static_cast<std::size_t>(i);
          if ((link.walls >> i & 1) != 0) {
            f[i] = now_[static_cast<std::size_t>(opposite(i)) * cells + n];
            if ((link.lids >> i & 1) != 0) f[i] = f[i] + lid_adds(relaxation_, i);
            continue;
          }
          auto const from =
              static_cast<std::size_t>(wrapped(x - velocity_x(i), p.width) +
                                       1LL * p.width *
                                           (wrapped(y - velocity_y(i), p.height) +
                                            1LL * p.height * wrapped(z - velocity_z(i), p.depth)));
          f[i] = now_[at * cells + from];
        }
        collide(f, relaxation_);
        for (std::size_t i = 0; i < k_directions; ++i) next_[i * cells + n] = f[i];
      }
  now_.swap(next_);
}

template <class Real>
Flow<Real> Reference<Real>::flow() const {
  auto const cells = static_cast<std::size_t>(problem_.size());
  Flow<Real> result;
  result.density.assign(cells, 1);
  for (auto& component : result.velocity) component.assign(cells, 0);
  for (std::size_t n = 0; n < cells; ++n) {
    if (!links_.empty() && (links_[n].walls & k_solid) != 0) continue;
    Real f[k_directions], u[3];
    for (std::size_t i = 0; i < k_directions; ++i) f[i] = now_[i * cells + n];
    flow_of(f, relaxation_, result.density[n], u);
    for (std::size_t d = 0; d < 3; ++d) result.velocity[d][n] = u[d];
  }
  return result;
}

template <class Real>
Totals totals_of(Problem const& problem, Flow<Real> const& flow) {
  Totals result;
  for (std::size_t n = 0; n < static_cast<std::size_t>(problem.size()); ++n) {
    if (!problem.cells.empty() && problem.cells[n] != Cell::fluid) continue;
    ++result.cells;
    result.mass += static_cast<double>(flow.density[n]);
    for (std::size_t d = 0; d < 3; ++d)
      result.momentum[d] += static_cast<double>(flow.density[n]) * static_cast<double>(flow.velocity[d][n]);
  }
  return result;
}

template class Reference<float>;
template class Reference<double>;
template Totals totals_of<float>(Problem const&, Flow<float> const&);
template Totals totals_of<double>(Problem const&, Flow<double> const&);

}  // namespace tessera::lattice_boltzmann
