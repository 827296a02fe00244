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

/// 1 over a density, rounded as IEEE says. On the GPU without the choices that make it right where it is no
/// normal number: no flow has such a density.
TESSERA_HOST_DEVICE inline float reciprocal(float x) {
#if defined(__CUDA_ARCH__)
  float near;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(x));
  return ::fmaf(near, ::fmaf(-x, near, 1.0f), near);
#else
  return 1.0f / x;
#endif
}
TESSERA_HOST_DEVICE inline double reciprocal(double x) { return 1.0 / x; }

/// What all cells of a problem have in common. Velocities are in cells a step.
template <class Real>
struct Relaxation {
  Real rate = 1;              ///< 1 / tau
  Real keep = 0;              ///< 1 - rate
  Real eighth = 0;            ///< rate / 8
  Real linear[2] = {};        ///< of momentum, along an axis and along two: rate / 6, rate / 12
  Real half_force[3] = {};    ///< of the force on a cell, each step
  Real tau_force[3] = {};     ///< tau of it
  Real more_force[3] = {};    ///< 2 tau - 1 / 2 of it
  Real of_lid[k_pairs] = {};  ///< what a bounce off a moving wall adds to the first of a pair
};

/// `force` and `lid`: on a cell, and of walls that move.
template <class Real>
Relaxation<Real> relaxation_of(double tau, double const (&force)[3], double const (&lid)[3]) {
  Relaxation<Real> result;
  double const rate = 1 / tau;
  // Their sum is 1 to the last bit, or each step would add to what is conserved. One of the two differences
  // is exact: the first for rates from 1/2 on, the second for those below.
  result.keep = Real(1) - static_cast<Real>(rate);
  result.rate = Real(1) - result.keep;
  result.eighth = result.rate * Real(0.125);
  // So are eight of the second and two of the first: the rate.
  result.linear[1] = static_cast<Real>(static_cast<double>(result.rate) / 12);
  result.linear[0] = Real(0.5) * result.rate - Real(4) * result.linear[1];
  for (int d = 0; d < 3; ++d) {
    result.half_force[d] = static_cast<Real>(force[d] / 2);
    result.tau_force[d] = static_cast<Real>(force[d] * tau);
    result.more_force[d] = static_cast<Real>(force[d] * (2 * tau - 0.5));
  }
  for (int p = 0; p < k_pairs; ++p) {
    int const i = 2 * p + 1;
    double const along = velocity_x(i) * lid[0] + velocity_y(i) * lid[1] + velocity_z(i) * lid[2];
    result.of_lid[p] = static_cast<Real>(6 * along / inverse_weight(i));
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

/// What a collision adds to a pair of opposite populations: the same to both, and to one what it takes from
/// the other, `linear` of `along`. That is not rounded by itself: several pairs would share its rounding, and
/// the sum over all directions would be off by all of it.
template <class Real>
TESSERA_HOST_DEVICE inline void relax_pair(Real& one, Real& other, Real keep, Real both, Real linear,
                                           Real along) {
  one = multiply_add(keep, one, multiply_add(linear, along, both));
  other = multiply_add(keep, other, multiply_add(-linear, along, both));
}

/// Populations before the collision become those after it.
///
/// All is made of momentum with half of the force, p, with more of it, q, and with tau of it, r: in the
/// equilibrium and in Guo's forcing together, what is even in the direction c is (p c)(q c) and p q, over the
/// density, and what is odd is r c.
template <class Real>
TESSERA_HOST_DEVICE inline void collide(Real (&f)[k_directions], Relaxation<Real> const& of) {
  auto const m = moments_of(f);
  Real p[3], q[3], r[3], scaled[3], square[3];
  Real const scale = of.eighth * reciprocal(Real(1) + m.excess);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int d = 0; d < 3; ++d) {
    p[d] = m.momentum[d] + of.half_force[d];
    q[d] = m.momentum[d] + of.more_force[d];
    r[d] = m.momentum[d] + of.tau_force[d];
    scaled[d] = scale * p[d];
    square[d] = scaled[d] * q[d];
  }
  // Of populations along two axes, whose weight is 1/36: what does not depend on the direction. It is rounded
  // once for twelve of them; what is left goes to the population at rest, so that the sum over all directions
  // comes out right.
  Real const squares = (square[0] + square[1]) + square[2];
  Real const all = multiply_add(Real(-12), squares, of.rate * m.excess);
  Real const with_squares = multiply_add(all, Real(1.0 / 36), squares);
  Real const even = with_squares - squares, twice = even + even;
  f[0] = multiply_add(of.keep, f[0], multiply_add(Real(-24), even, all));
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int d = 0; d < 3; ++d)
    relax_pair(f[2 * d + 1], f[2 * d + 2], of.keep, multiply_add(Real(2), square[d], twice), of.linear[0],
               r[d]);
  constexpr int of_plane[3][2] = {{0, 1}, {0, 2}, {1, 2}};
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int plane = 0; plane < 3; ++plane) {
    int const a = of_plane[plane][0], b = of_plane[plane][1], i = 7 + 4 * plane;
    Real const alike = with_squares - square[3 - a - b];
    Real const crossed = multiply_add(scaled[a], q[b], scaled[b] * q[a]);
    relax_pair(f[i], f[i + 1], of.keep, alike + crossed, of.linear[1], r[a] + r[b]);
    relax_pair(f[i + 2], f[i + 3], of.keep, alike - crossed, of.linear[1], r[a] - r[b]);
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
