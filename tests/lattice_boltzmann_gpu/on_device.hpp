// SPDX-License-Identifier: Apache-2.0
// A flow's fields, from the device.
#pragma once

#include <gmock/gmock.h>

#include <cstring>

#include "gpu/device_buffer.hpp"
#include "kernels/lattice_boltzmann/lattice_boltzmann.hpp"
#include "kernels/lattice_boltzmann/reference.hpp"
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
