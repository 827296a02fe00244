// SPDX-License-Identifier: Apache-2.0
// Measures which candidate computes an MLP of one size fastest.
#pragma once

#include <string>
#include <tessera/tune/cache.hpp>
#include <tessera/tune/choose.hpp>
#include <vector>

#include "arena.hpp"
#include "screen.hpp"

namespace tessera::mlp {

struct TuneOptions {
  bool quick = false;         ///< fewer samples and finalists
  double least_gain = 0.003;  ///< over cuBLASLt, as a part of the time
  Load load = Load::any;
  Progress progress;  ///< may be empty
};

/// One finalist.
struct Finalist {
  Measurement measurement;
  double hot_low = 0, hot_high = 0;  ///< 10 and 90 per cent of the samples are below
  double relative_error = 0;
};

struct TunedShape {
  TunedSize size;
  std::vector<Finalist> finalists;  ///< fastest first, for any load
  std::string reason;
  int tried = 0;
};

/// The arena was made for at least so many tokens and the same sizes. E0535 if no candidate is right.
Expected<TunedShape> tune(Arena& arena, Shape const& shape, TuneOptions const& options);

/// Checks and measures these in turns, hot and cool. Wrong ones have no times. Before medians are taken a
/// round counts by how long it took all of them: the clock drifts, and in a round it is the same for all.
Expected<std::vector<Finalist>> measure(Arena& arena, Shape const& shape,
                                        std::vector<Candidate> const& candidates, int hot_rounds,
                                        int cool_rounds);

/// Launches of one sample: enough that its start and end do not count, and a multiple of `sets`.
int pieces_of_a_sample(Shape const& shape, int sets);

/// Operations a second of the fastest bf16 product seen on an H200.
inline constexpr double peak_flops = 790e12;

/// No MLP of this shape is faster: the operations at so many a second, or the bytes (weights, input and
/// output once, h written and read) at so many a second.
double floor_us(Shape const& shape, double flops_per_second, double bytes_per_second);

}  // namespace tessera::mlp
