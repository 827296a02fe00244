// SPDX-License-Identifier: Apache-2.0
// Chains of integer vector functions whose results depend on every element that they read, with a reference
// on the CPU: a tile that is read too early, twice or not at all changes the result.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/run/chain.hpp"

namespace tessera::vector_chain {

/// Elements of one tile.
constexpr int k_width = 256;

/// Stage outputs and input on the device, row major in tiles.
struct Buffers {
  std::uint32_t const* x = nullptr;  ///< as long as the first stage's output
  std::uint32_t* out[5] = {};
  long long slow_tile = -1;  ///< of first: reads its input 200 us late
};

/// first(x, y) = f(x tile); second(x, y) reads row y of first; third(x, y) reads row y of second, and
/// first(x, y) as operand b; a fourth and a fifth read a row of the stage before, as the second does. Grids
/// (x, y); splits of the first stage compute parts of its tile. 2, 3 or 5 stages.
Pipeline pipeline(int stages, int columns, int rows, int splits);

enum class Kind { watched, bare, recording };
/// The kernels of a plan over pipeline(). `bare` and `recording` exist for three stages only.
/// `unposted`: a tile of `first` that is never posted, or -1.
std::vector<StageKernel> kernels(Plan const& plan, Buffers const& buffers, Kind kind,
                                 long long unposted = -1);

/// All stages' outputs on the CPU.
std::vector<std::vector<std::uint32_t>> reference(Pipeline const& pipeline,
                                                  std::vector<std::uint32_t> const& x);

/// Enqueues a comparison; adds the number of differing elements to *mismatches.
void compare(std::uint32_t const* a, std::uint32_t const* b, std::size_t count,
             unsigned long long* mismatches, GpuStream stream);

/// One block that is busy for so long; and a kernel that does nothing, and that nothing else uses.
void spin(int milliseconds, GpuStream stream);
void launch_empty(GpuStream stream);
/// Makes the plan's first kernel begin with spin(): its blocks come so much later.
void spin_before_first(std::vector<StageKernel>& kernels, Plan const& plan, int milliseconds);

}  // namespace tessera::vector_chain
