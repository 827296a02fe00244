// SPDX-License-Identifier: Apache-2.0
// What a launch with roles costs on a machine, as named figures with sources: the simulator's only numbers.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../diagnostic.hpp"
#include "../measure/machine_profile.hpp"

namespace tessera {

/// A value by the bytes that an SM has on their way. Between points in a straight line; beyond them as at
/// the nearest.
using InFlightCurve = std::vector<std::pair<double, double>>;
double at_bytes(InFlightCurve const& curve, double bytes);

/// Figures of a machine and of the kernel with roles (tessera/run/roles.cuh) on it. None is taken from how
/// long a loop with roles takes. role_figures() and role_curves() say where each comes from.
struct RoleMachine {
  // Memory.
  double dram_gbps = 0;     ///< 1e9 bytes/s that all SMs read together
  double l2_gbps = 0;       ///< of what comes from DRAM and of what lies in L2
  double sm_load_gbps = 0;  ///< most of one load
  double load_ns = 0;       ///< idle: a load of weights is issued -> its first bytes come from DRAM
  double slowest_sm = 1;    ///< a load of the SM that is served worst takes so many times the mean SM's
  double fastest_sm = 1;    ///< ... served best; SMs between are spread evenly
  InFlightCurve dram_share = {{0, 1}};  ///< of dram_gbps that SMs reach with so many bytes on their way
  InFlightCurve late_load_ns = {
      {0, 0}};  ///< a load that hits L2 behind so many bytes of weights, until it landed

  // Turns of the rings, by the warps that compute.
  double turn_ns = 0;       ///< of the ring of weights, for each slot
  double late_turn_ns = 0;  ///< more, where a slot of the ring of activations begins

  // Loaders.
  double load_issue_ns = 0;  ///< a thread issues a load
  double early_warps = 1;    ///< threads that issue loads of weights, in turns
  double token_copy_ns = 0;  ///< the first word is seen -> slots of activations are filled

  // From SM to SM.
  double hop_ns = 0;     ///< the last store -> another SM has seen the word
  double look_ns = 0;    ///< a look at the semaphores of 32 tiles that are there
  double post_ns = 0;    ///< what a fence and a post take before that, where a semaphore says it
  double launch_ns = 0;  ///< blocks start -> loaders know their first tile

  bool operator==(RoleMachine const&) const = default;
};

/// One number of RoleMachine.
struct RoleFigure {
  std::string name;  ///< of the member
  std::string unit;
  double RoleMachine::*member;
  std::string source;
};
std::span<RoleFigure const> role_figures();

/// One curve of RoleMachine.
struct RoleCurve {
  std::string name;  ///< of the member
  std::string unit;
  InFlightCurve RoleMachine::*member;
  std::string source;
};
std::span<RoleCurve const> role_curves();
/// "0 KiB: 335, 46 KiB: 657".
std::string to_text(InFlightCurve const& curve);

/// Gives a figure another value: "turn_ns=100". Refuses (E0506) what is no figure, or no number.
Expected<void> set_role_figure(RoleMachine& machine, std::string const& assignment);

/// Bandwidths and posts of the profile (of its probe, where it has one), and for the rest what was measured
/// on an H200 (role_figures()).
RoleMachine role_machine(MachineProfile const& machine);

}  // namespace tessera
