// SPDX-License-Identifier: Apache-2.0
// A pipeline that is repeated: time steps of a stencil, layers of a model, tokens of a decode. What an
// iteration reads of earlier ones carries a distance.
#pragma once

#include <string>
#include <vector>

#include "pipeline.hpp"

namespace tessera {

/// A tile of the consumer in iteration n reads tiles that the producer computed in iteration n - distance.
/// The producer may be any stage of the body, the consumer itself included. In the first `distance`
/// iterations the operand holds what the buffer held before the loop.
struct CarriedDependence {
  Dependence dependence;
  int distance = 1;  ///< in iterations, >= 1

  bool operator==(CarriedDependence const&) const = default;
};

/// How many copies there are of a buffer that has more than one.
struct BufferCopies {
  static constexpr int each_iteration = 0;  ///< one for each iteration: a layer's own weights

  std::string buffer;
  int copies = each_iteration;  ///< iteration n writes, or reads from outside, copy n modulo copies

  bool operator==(BufferCopies const&) const = default;
};

struct Loop {
  Pipeline body;  ///< one iteration
  std::vector<CarriedDependence> carried;
  std::vector<BufferCopies> copies;

  bool operator==(Loop const&) const = default;
};

/// Copies of a buffer; 1 unless the loop says otherwise.
int copies_of(Loop const& loop, std::string const& buffer);

/// How many iterations back an operand of a stage reads; 0: its own.
int distance_of(Loop const& loop, int stage, std::string const& operand);

/// "u#1": the copy of a buffer that an iteration uses. "u" where there is one copy. Where each iteration has
/// its own, the copies from before the loop are "u#-1", "u#-2", ...
std::string copy_name(Loop const& loop, std::string const& buffer, int iteration);

/// So many iterations as one pipeline: stage s of iteration n is "s_n". What holds of it, such as a proof or
/// what it computes, holds of the loop. Precondition: stages and operands that the carried dependences name
/// exist.
Pipeline unroll(Loop const& loop, int iterations);

/// Number of iterations that shows everything a loop does. What is right among so many is right among any
/// number, because a dependence, or the reuse of a buffer, depends on the distance alone.
int window_of(Loop const& loop);

}  // namespace tessera
