// SPDX-License-Identifier: Apache-2.0
// One size of an MLP: Tessera's tuned choice beside its peers, measured in turns.
#pragma once

#include <string>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "kernels/mlp/measure/tune.hpp"

namespace tessera::bench {

struct Row {
  std::string group;
  bool tessera = false;  ///< the tuned choice, or one of Tessera's mechanisms
  mlp::Finalist result;
};

struct SizeResult {
  mlp::Shape shape;
  mlp::TunedShape tuned;
  std::vector<Row> rows;
  double seconds = 0;  ///< that it took, with tuning

  /// The fastest right row of the peers, or of the tuned choice alone, by this time.
  double best_peer(double Measurement::*time) const;
  double chosen(double Measurement::*time) const;
};

Expected<SizeResult> bench_size(mlp::Arena& arena, mlp::Shape const& shape, mlp::TuneOptions const& options);

}  // namespace tessera::bench
