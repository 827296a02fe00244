// SPDX-License-Identifier: Apache-2.0
// What no single range of a machine profile can say.
#include <fmt/format.h>

#include <bit>
#include <charconv>

#include "tessera/measure/machine_fields.hpp"

namespace tessera {

namespace {

constexpr int k_first_with_pdl = 90;

/// 70 of "sm_70"; the first that has everything of what is called otherwise.
int generation(std::string const& architecture) {
  int number = k_first_with_pdl;
  constexpr std::string_view k_begin = "sm_";
  if (architecture.starts_with(k_begin))
    std::from_chars(architecture.data() + k_begin.size(), architecture.data() + architecture.size(), number);
  return number;
}

}  // namespace

Diagnostics contradictions(MachineProfile const& m) {
  Diagnostics found;
  auto const report = [&](std::string message, std::string suggestion) {
    auto& diagnostic = found.emplace_back();
    diagnostic.code = "E0606";
    diagnostic.message = std::move(message);
    diagnostic.suggestion = std::move(suggestion);
  };
  if (m.shared_bytes_per_block > m.shared_bytes_per_sm)
    report(fmt::format("one block may take {} bytes of shared memory, but an SM has {}",
                       m.shared_bytes_per_block, m.shared_bytes_per_sm),
           "shared_bytes_per_block is the largest opt-in allocation; it is at most shared_bytes_per_sm");
  if (m.has_pdl && generation(m.architecture) < k_first_with_pdl)
    report(fmt::format("has_pdl, and the architecture is {}", m.architecture),
           fmt::format("programmatic dependent launch begins with sm_{}: has_pdl is false before it",
                       k_first_with_pdl));
  if (m.l2_gbps < m.dram_gbps)
    report(fmt::format("L2 ({:g} GB/s) is slower than DRAM ({:g} GB/s)", m.l2_gbps, m.dram_gbps),
           "every load goes through L2: check the units");
  if (m.store_post_ns > m.post_ns)
    report(fmt::format("a post by plain store ({:g} ns) costs more than one by atomic add ({:g} ns)",
                       m.store_post_ns, m.post_ns),
           "store_post_ns is at most post_ns");
  if (m.power_limit_w > 0 && m.power_idle_w >= m.power_limit_w)
    report(fmt::format("the GPU draws {:g} W when idle, and its limit is {:g} W", m.power_idle_w,
                       m.power_limit_w),
           "power_limit_w is the limit under load; leave it out for a constant clock");
  if (m.power_limit_w > 0 && m.power_burst_w > 0 && m.power_burst_w < m.power_limit_w)
    report(fmt::format("behind a rest the GPU may draw {:g} W, and {:g} W under load", m.power_burst_w,
                       m.power_limit_w),
           "power_burst_w is at least power_limit_w; leave it out where there is no such time");
  if (!m.overlap) return found;
  auto const& h = *m.overlap;
  if (!std::has_single_bit(static_cast<unsigned>(h.banks)) || h.bank_groups > h.banks ||
      !std::has_single_bit(static_cast<unsigned>(h.bank_groups)))
    report(fmt::format("{} banks in {} groups", h.banks, h.bank_groups),
           "banks and bank_groups are powers of two, and a group has at least one bank");
  if (h.l2_slices % h.channels != 0)
    report(fmt::format("{} slices of L2 before {} channels", h.l2_slices, h.channels),
           "every channel has the same number of slices, one or more");
  if (h.channel_interleave < 128)
    report(fmt::format("{} bytes before the next channel's turn", h.channel_interleave),
           "a line of L2, 128 bytes, lies in one channel");
  if (m.l2_mib > 512.0 * h.channels)
    report(fmt::format("{:g} MiB of L2 before {} channels", m.l2_mib, h.channels),
           "at most 512 MiB of L2 before a channel");
  if (h.row_bytes % h.channel_interleave != 0 ||
      !std::has_single_bit(static_cast<unsigned>(h.channel_interleave)))
    report(fmt::format("a row of {} bytes, {} bytes before the next channel's turn", h.row_bytes,
                       h.channel_interleave),
           "row_bytes is a multiple of channel_interleave, which is a power of two");
  return found;
}

}  // namespace tessera
