// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/cache.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::decode {

int splits_for(Model const& model, int batch, int blocks) {
  return std::clamp(blocks / (batch * model.kv_heads), 1, k_most_splits);
}

double launched_work(Model const& model, int batch, int positions, int sms, int splits) {
  double const blocks = double(batch) * model.kv_heads * splits, bytes = 4.0 * positions * model.head_size;
  double const seats = seats_of_parts(sms, splits);
  // While blocks begin and end, and while parts are joined: measured with 4 queries of 64.
  double const of_wave = 77e3 * model.group() * model.head_size / 256;
  double const of_join = splits == 1 ? 0 : (parts_share_cluster(splits) ? 0.3 : 0.6) * of_wave;
  return std::ceil(blocks / seats) * bytes / splits +
         std::ceil(blocks / (launched_blocks(model.head_size) * seats)) * of_wave + of_join;
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
