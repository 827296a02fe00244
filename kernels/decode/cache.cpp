// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/cache.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::decode {

int splits_for(Model const& model, int batch, int blocks) {
  return std::clamp(blocks / (batch * model.kv_heads), 1, k_most_splits);
}

double launched_work(Model const& model, int batch, int positions, int sms, int splits) {
  int const tiles = batch * model.kv_heads * splits;
  double const blocks = tiles, bytes = 4.0 * positions * model.head_size;
  // Bytes that an SM reads while queries are turned and results stored, and while parts are joined, of which
  // eight are read at a time: fitted to 22 sizes on an H200 (tests/decode/step_ways_test.cpp).
  double const of_queries = 20e3 * model.group() * model.head_size / 256.0;
  double const joins = splits == 1                               ? 0
                       : parts_share_cluster(tiles, splits, sms) ? 49e3
                       : splits <= 8                             ? 71e3
                                                                 : 154e3;
  // A second wave of blocks begins and ends: measured before with 4 queries of 64, and in none of these
  // sizes.
  double const later_waves = std::ceil(blocks / (launched_blocks(model.head_size) * sms)) - 1;
  return std::ceil(blocks / sms) * bytes / splits + of_queries + joins + later_waves * 77e3;
}

LaunchedSplits launched_splits(Model const& model, int batch, int cached, int sms) {
  LaunchedSplits best;
  double least_apart = 0, least_in_cluster = 0;
  for (int splits = 1; splits <= k_most_splits; ++splits) {
    double const work = launched_work(model, batch, cached + 1, sms, splits);
    if (parts_share_cluster(batch * model.kv_heads * splits, splits, sms)) {
      if (best.in_cluster == 0 || work < least_in_cluster) best.in_cluster = splits, least_in_cluster = work;
    } else if (splits == 1 || work < least_apart) {
      best.apart = splits, least_apart = work;
    }
  }
  return best;
}

}  // namespace tessera::decode
