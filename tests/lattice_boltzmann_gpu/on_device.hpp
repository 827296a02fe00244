// SPDX-License-Identifier: Apache-2.0
// A flow's fields, from the device.
#pragma once

#include <gmock/gmock.h>

#include <cstring>

#include "gpu/device_buffer.hpp"
#include "gpu/select.hpp"
#include "kernels/lattice_boltzmann/lattice_boltzmann.hpp"
#include "kernels/lattice_boltzmann/reference.hpp"
#include "kernels/lattice_boltzmann/slab_flow.hpp"
#include "support/assert_ok.hpp"

namespace tessera::lattice_boltzmann {

inline Flow<float> flow_on_device(LatticeBoltzmann& flow, cudaStream_t stream = nullptr) {
  auto const cells = static_cast<std::size_t>(flow.problem().size());
  gpu::DeviceBuffer<float> density(cells, gpu::k_poison), u(cells, gpu::k_poison), v(cells, gpu::k_poison),
      w(cells, gpu::k_poison);
  auto const written = flow.write(stream, {density.get(), {u.get(), v.get(), w.get()}});
  EXPECT_TRUE(written) << to_text(written.error());
  return {density.download(), {u.download(), v.download(), w.download()}};
}

/// What fields of all ranks' planes are one behind the other.
inline Flow<float> flow_on_devices(SlabFlow& flow, PeerGroup const& group) {
  Flow<float> result;
  auto const append = [](std::vector<float>& to, gpu::DeviceBuffer<float> const& from) {
    auto const some = from.download();
    to.insert(to.end(), some.begin(), some.end());
  };
  for (int rank = 0; rank < flow.ranks(); ++rank) {
    gpu::Select const current(group.device(rank));
    auto const cells = static_cast<std::size_t>(1LL * flow.problem().width * flow.problem().height *
                                                flow.planes(rank).rows());
    gpu::DeviceBuffer<float> density(cells, gpu::k_poison), u(cells, gpu::k_poison), v(cells, gpu::k_poison),
        w(cells, gpu::k_poison);
    auto const written = flow.write(rank, nullptr, {density.get(), {u.get(), v.get(), w.get()}});
    EXPECT_TRUE(written) << (written ? "" : to_text(written.error()));
    append(result.density, density);
    append(result.velocity[0], u), append(result.velocity[1], v), append(result.velocity[2], w);
  }
  return result;
}

/// The number of values that have other bits.
inline std::size_t other_bits(Flow<float> const& a, Flow<float> const& b) {
  std::size_t count = 0;
  auto const compare = [&](std::vector<float> const& one, std::vector<float> const& other) {
    EXPECT_EQ(one.size(), other.size());
    for (std::size_t n = 0; n < one.size(); ++n) count += std::memcmp(&one[n], &other[n], 4) != 0 ? 1 : 0;
  };
  compare(a.density, b.density);
  for (int d = 0; d < 3; ++d) compare(a.velocity[d], b.velocity[d]);
  return count;
}

}  // namespace tessera::lattice_boltzmann
