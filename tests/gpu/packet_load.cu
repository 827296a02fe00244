// SPDX-License-Identifier: Apache-2.0
// For packet_loads, which reads its machine code: a consumer that uses one word of each packet's payload.
#include "tessera/sync.cuh"
#include "tessera/sync/data_token.cuh"

extern "C" __global__ void take_first_words(tessera::Packet<3> const* from, unsigned epoch, unsigned* out) {
  tessera::Packet<3> items[2];
  tessera::take(from + threadIdx.x, 32, epoch, items, tessera::NoWatch{}, tessera::WaitPlace{});
  out[threadIdx.x] = items[0].payload[0] + items[1].payload[0];
}
