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
  // While blocks begin and end, measured with 4 queries of 64; and while parts are joined, of which eight are
  // read at a time.
  double const of_wave = 77e3 * std::max(0.6, model.group() * model.head_size / 256.0);
  double const joins = splits == 1                               ? 0
                       : parts_share_cluster(tiles, splits, sms) ? 0.5
                       : splits <= 8                             ? 0.6
                                                                 : 0.9;
  return std::ceil(blocks / sms) * bytes / splits +
         std::ceil(blocks / (launched_blocks(model.head_size) * sms)) * of_wave + joins * of_wave;
}

int launched_splits(Model const& model, int batch, int cached, int sms) {
  int best = 1;
  double least = 0;
  for (int splits = 1; splits <= k_most_splits; ++splits) {
    double const work = launched_work(model, batch, cached + 1, sms, splits);
    if (splits == 1 || work < least) best = splits, least = work;
  }
  return best;
}

}  // namespace tessera::decode
