// SPDX-License-Identifier: Apache-2.0
// A cell of a D3Q19 lattice and its update (BGK, Guo's forcing), for device code and for the CPU's reference
// alike. Every operation is written out, multiply-adds included, so that all who compile it without
// contraction of their own get the same bits.
//
// Populations are kept without the weights of their directions: 0 everywhere is a fluid at rest with density
// 1, and rounding is relative to what differs from it.
#pragma once

#include <cmath>
#include <tessera/sync/config.cuh>

namespace tessera::lattice_boltzmann {

constexpr int k_directions = 19;
constexpr int k_pairs = 9;

namespace detail {
/// A component of all directions, two bits each, plus 1.
TESSERA_HOST_DEVICE constexpr unsigned long long pack(int const (&of_pairs)[k_pairs]) {
  unsigned long long word = 1;
  for (int p = 0; p < k_pairs; ++p) {
    word |= static_cast<unsigned long long>(1 + of_pairs[p]) << (2 * (2 * p + 1));
    word |= static_cast<unsigned long long>(1 - of_pairs[p]) << (2 * (2 * p + 2));
  }
  return word;
}
TESSERA_HOST_DEVICE constexpr unsigned long long packed_x() { return pack({1, 0, 0, 1, 1, 1, 1, 0, 0}); }
TESSERA_HOST_DEVICE constexpr unsigned long long packed_y() { return pack({0, 1, 0, 1, -1, 0, 0, 1, 1}); }
TESSERA_HOST_DEVICE constexpr unsigned long long packed_z() { return pack({0, 0, 1, 0, 0, 1, -1, 1, -1}); }
}  // namespace detail

/// The velocity of direction i: 0 is at rest, 1 and 2, 3 and 4, ... are opposite to each other.
TESSERA_HOST_DEVICE constexpr int velocity_x(int i) {
  return static_cast<int>(detail::packed_x() >> (2 * i) & 3) - 1;
}
TESSERA_HOST_DEVICE constexpr int velocity_y(int i) {
  return static_cast<int>(detail::packed_y() >> (2 * i) & 3) - 1;
}
TESSERA_HOST_DEVICE constexpr int velocity_z(int i) {
  return static_cast<int>(detail::packed_z() >> (2 * i) & 3) - 1;
}
TESSERA_HOST_DEVICE constexpr int opposite(int i) { return i == 0 ? 0 : ((i - 1) ^ 1) + 1; }
/// 1 over the weight of direction i.
TESSERA_HOST_DEVICE constexpr int inverse_weight(int i) { return i == 0 ? 3 : i < 7 ? 18 : 36; }

TESSERA_HOST_DEVICE inline float multiply_add(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return ::fmaf(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}
TESSERA_HOST_DEVICE inline double multiply_add(double a, double b, double c) {
#if defined(__CUDA_ARCH__)
  return ::fma(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}

/// What all cells of a problem have in common. Velocities are in cells a step.
template <class Real>
struct Relaxation {
  Real rate = 1;                ///< 1 / tau
  Real keep = 0;                ///< 1 - rate
  Real force[3] = {};           ///< on a cell, each step
  Real half_force[3] = {};      ///
  Real force_on_speed = 0;      ///< 3 (1 - rate / 2)
  Real of_force[k_pairs] = {};  ///< what the force adds to the first of a pair, and takes from the other
  Real of_lid[k_pairs] = {};    ///< the same of a bounce off a moving wall
};

/// `force` and `lid`: on a cell, and of walls that move.
template <class Real>
Relaxation<Real> relaxation_of(double tau, double const (&force)[3], double const (&lid)[3]) {
  Relaxation<Real> result;
  double const rate = 1 / tau, forced = 3 * (1 - rate / 2);
  // Their sum is 1 to the last bit, or each step would add to what is conserved.
  result.keep = static_cast<Real>(1 - rate);
  result.rate = Real(1) - result.keep;
  result.force_on_speed = static_cast<Real>(forced);
  for (int d = 0; d < 3; ++d) {
    result.force[d] = static_cast<Real>(force[d]);
    result.half_force[d] = static_cast<Real>(force[d] / 2);
  }
  for (int p = 0; p < k_pairs; ++p) {
    int const i = 2 * p + 1;
    auto const along = [i](double const(&v)[3]) {
      return velocity_x(i) * v[0] + velocity_y(i) * v[1] + velocity_z(i) * v[2];
    };
    result.of_force[p] = static_cast<Real>(forced * along(force) / inverse_weight(i));
    result.of_lid[p] = static_cast<Real>(6 * along(lid) / inverse_weight(i));
  }
  return result;
}

/// What population i gets where it bounced off a moving wall.
template <class Real>
TESSERA_HOST_DEVICE inline Real lid_adds(Relaxation<Real> const& of, int i) {
  return i % 2 == 1 ? of.of_lid[(i - 1) / 2] : -of.of_lid[(i - 1) / 2];
}

/// The same for all populations of a mask.
template <class Real>
TESSERA_HOST_DEVICE inline void add_lids(unsigned lids, Relaxation<Real> const& of, Real (&f)[k_directions]) {
  if (lids == 0) return;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int i = 1; i < k_directions; ++i)
    if ((lids >> i & 1) != 0) f[i] = f[i] + lid_adds(of, i);
}

template <class Real>
struct Moments {
  Real excess = 0;         ///< density - 1
  Real momentum[3] = {0};  ///< without what a force adds
};

template <class Real>
TESSERA_HOST_DEVICE inline Moments<Real> moments_of(Real const (&f)[k_directions]) {
  Real sum[k_pairs], difference[k_pairs];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int p = 0; p < k_pairs; ++p) {
    sum[p] = f[2 * p + 1] + f[2 * p + 2];
    difference[p] = f[2 * p + 1] - f[2 * p + 2];
  }
  Moments<Real> m;
  m.excess =
      f[0] + (((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]))) + sum[8];
  m.momentum[0] = difference[0] + ((difference[3] + difference[4]) + (difference[5] + difference[6]));
  m.momentum[1] = difference[1] + ((difference[3] - difference[4]) + (difference[7] + difference[8]));
  m.momentum[2] = difference[2] + ((difference[5] - difference[6]) + (difference[7] - difference[8]));
  return m;
}

/// Populations before the collision become those after it.
template <class Real>
TESSERA_HOST_DEVICE inline void collide(Real (&f)[k_directions], Relaxation<Real> const& of) {
  auto const m = moments_of(f);
  Real const density = Real(1) + m.excess;
  Real const inverse = Real(1) / density;
  Real const ux = (m.momentum[0] + of.half_force[0]) * inverse;
  Real const uy = (m.momentum[1] + of.half_force[1]) * inverse;
  Real const uz = (m.momentum[2] + of.half_force[2]) * inverse;
  Real const square = multiply_add(uz, uz, multiply_add(uy, uy, ux * ux));
  Real const work = multiply_add(uz, of.force[2], multiply_add(uy, of.force[1], ux * of.force[0]));
  // Of each population, over its weight: what does not depend on the direction.
  Real const rated = of.rate * density;
  Real const even =
      multiply_add(of.rate, m.excess, multiply_add(Real(-1.5) * rated, square, -of.force_on_speed * work));
  // 1/36 and 1/12 are rounded; the rest goes where the sums over all directions come out right.
  Real const thirty_sixth = even * Real(1.0 / 36), twelfth = rated * Real(1.0 / 12);
  f[0] = multiply_add(of.keep, f[0], multiply_add(Real(-24), thirty_sixth, even));
  Real const even_of[2] = {Real(2) * thirty_sixth, thirty_sixth};
  Real const linear_of[2] = {multiply_add(Real(-4), twelfth, Real(0.5) * rated), twelfth};
  Real const square_of[2] = {rated * Real(0.25), rated * Real(0.125)};
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int p = 0; p < k_pairs; ++p) {
    int const i = 2 * p + 1;
    int const diagonal = p < 3 ? 0 : 1;
    Real speed = 0;
    if (p == 0) speed = ux;
    if (p == 1) speed = uy;
    if (p == 2) speed = uz;
    if (p == 3) speed = ux + uy;
    if (p == 4) speed = ux - uy;
    if (p == 5) speed = ux + uz;
    if (p == 6) speed = ux - uz;
    if (p == 7) speed = uy + uz;
    if (p == 8) speed = uy - uz;
    Real const forced = of.of_force[p];
    Real const both =
        multiply_add(multiply_add(square_of[diagonal], speed, Real(3) * forced), speed, even_of[diagonal]);
    Real const apart = multiply_add(linear_of[diagonal], speed, forced);
    f[i] = multiply_add(of.keep, f[i], both + apart);
    f[i + 1] = multiply_add(of.keep, f[i + 1], both - apart);
  }
}

/// A fluid in equilibrium.
template <class Real>
TESSERA_HOST_DEVICE inline void equilibrium(Real excess, Real const (&u)[3], Real (&f)[k_directions]) {
  Real const density = Real(1) + excess;
  Real const square = u[0] * u[0] + u[1] * u[1] + u[2] * u[2];
  Real const even = excess - Real(1.5) * density * square;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int i = 0; i < k_directions; ++i) {
    Real const speed = Real(velocity_x(i)) * u[0] + Real(velocity_y(i)) * u[1] + Real(velocity_z(i)) * u[2];
    f[i] = (even + density * (Real(3) * speed + Real(4.5) * speed * speed)) / Real(inverse_weight(i));
  }
}

/// Velocity of a cell after its collision, with half of what the force added: the flow's.
template <class Real>
TESSERA_HOST_DEVICE inline void flow_of(Real const (&after)[k_directions], Relaxation<Real> const& of,
                                        Real& density, Real (&u)[3]) {
  auto const m = moments_of(after);
  density = Real(1) + m.excess;
  for (int d = 0; d < 3; ++d) u[d] = (m.momentum[d] - of.half_force[d]) / density;
}

}  // namespace tessera::lattice_boltzmann
