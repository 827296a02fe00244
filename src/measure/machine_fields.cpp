// SPDX-License-Identifier: Apache-2.0
#include "tessera/measure/machine_fields.hpp"

namespace tessera {
namespace {

using P = MachineProfile;
// Ranges are wide: they keep out mistakes of unit and arithmetic overflow, not unusual machines.
MachineField<MachineProfile> const k_fields[] = {
    {"sms", "1", &P::sms, 1, 4096},
    {"threads_per_sm", "1", &P::threads_per_sm, 32, 65536},
    {"blocks_per_sm", "1", &P::blocks_per_sm, 1, 1024},
    {"registers_per_sm", "1", &P::registers_per_sm, 1024, 1 << 24},
    {"register_granularity", "1", &P::register_granularity, 1, 65536},
    {"shared_bytes_per_sm", "byte", &P::shared_bytes_per_sm, 0, 1 << 28},
    {"shared_bytes_per_block", "byte", &P::shared_bytes_per_block, 0, 1 << 28},
    {"shared_granularity", "byte", &P::shared_granularity, 1, 1 << 20},
    {"shared_reserved_per_block", "byte", &P::shared_reserved_per_block, 0, 1 << 20},
    {"clock_ghz", "GHz", &P::clock_ghz, 0.01, 100},
    {"matrix_flops_per_clock_per_sm", "flop/clock", &P::matrix_flops_per_clock_per_sm, 1, 1e7},
    {"matrix_efficiency", "1", &P::matrix_efficiency, 0.01, 1},
    {"dram_gbps", "1e9 byte/s", &P::dram_gbps, 1, 1e6},
    {"l2_gbps", "1e9 byte/s", &P::l2_gbps, 1, 1e7},
    {"l2_mib", "MiB", &P::l2_mib, 0, 1e6},
    {"sm_load_gbps", "1e9 byte/s", &P::sm_load_gbps, 0.1, 1e6},
    {"dram_latency_ns", "ns", &P::dram_latency_ns, 0, 1e6},
    {"launch_ns", "ns", &P::launch_ns, 0, 1e9},
    {"stream_gap_ns", "ns", &P::stream_gap_ns, 0, 1e9},
    {"pdl_gap_ns", "ns", &P::pdl_gap_ns, 0, 1e9},
    {"pdl_grid_wait_ns", "ns", &P::pdl_grid_wait_ns, 0, 1e9},
    {"stream_start_ns", "ns", &P::stream_start_ns, 0, 1e9},
    {"block_start_ns", "ns", &P::block_start_ns, 0, 1e9},
    {"ticket_ns", "ns", &P::ticket_ns, 0, 1e9},
    {"post_ns", "ns", &P::post_ns, 0, 1e9},
    {"store_post_ns", "ns", &P::store_post_ns, 0, 1e9},
    {"wait_ns", "ns", &P::wait_ns, 0, 1e9},
    {"trigger_ns", "ns", &P::trigger_ns, 0, 1e9},
    {"has_pdl", "1", &P::has_pdl, 0, 1},
    {"dispatches_in_launch_order", "1", &P::dispatches_in_launch_order, 0, 1},
    {"dram_gb", "1e9 byte", &P::dram_gb, 0, 1e6, true},
    {"l2_parts", "1", &P::l2_parts, 1, 64, true},
    {"asynchronous_loads", "1", &P::asynchronous_loads, 0, 1, true},
    {"power_limit_w", "W", &P::power_limit_w, 0, 1e5, true},
    {"power_burst_w", "W", &P::power_burst_w, 0, 1e5, true},
    {"power_idle_w", "W", &P::power_idle_w, 0, 1e5, true},
    {"power_w_per_ghz", "W/GHz", &P::power_w_per_ghz, 0, 1e5, true},
    {"power_exponent", "1", &P::power_exponent, 0, 10, true},
    {"pj_per_flop", "pJ/flop", &P::pj_per_flop, 0, 1e6, true},
    {"pj_per_l2_byte", "pJ/byte", &P::pj_per_l2_byte, 0, 1e6, true},
    {"pj_per_dram_byte", "pJ/byte", &P::pj_per_dram_byte, 0, 1e6, true},
};

using H = OverlapHardware;
MachineField<OverlapHardware> const k_overlap_fields[] = {
    {"link_gbps", "1e9 byte/s", &H::link_gbps, 0.001, 1e6},
    {"link_latency_ns", "ns", &H::link_latency_ns, 0, 1e9},
    {"memory_request_ns", "ns", &H::memory_request_ns, 1, 1e6},
    {"memory_return_ns", "ns", &H::memory_return_ns, 0, 1e6},
    {"l2_hit_ns", "ns", &H::l2_hit_ns, 0, 1e6},
    {"sm_store_bytes_per_clock", "byte/clock", &H::sm_store_bytes_per_clock, 0.1, 1e6},
    {"l2_slices", "1", &H::l2_slices, 1, 65536},
    {"l2_ways", "1", &H::l2_ways, 1, 1024},
    {"l2_misses", "1", &H::l2_misses, 0, 65536},
    {"l2_merges", "1", &H::l2_merges, 0, 65536},
    {"l2_to_dram_entries", "1", &H::l2_to_dram_entries, 0, 65536},
    {"l2_to_dram_ns", "ns", &H::l2_to_dram_ns, 0, 1e6},
    {"channels", "1", &H::channels, 1, 1024},
    {"dram_clock_ghz", "GHz", &H::dram_clock_ghz, 0.01, 100},
    {"channel_interleave", "byte", &H::channel_interleave, 32, 65536},
    {"banks", "1", &H::banks, 1, 64},
    {"bank_groups", "1", &H::bank_groups, 1, 64},
    {"row_bytes", "byte", &H::row_bytes, 32, 1 << 20},
    {"bank_groups_lowest", "1", &H::bank_groups_lowest, 0, 1},
    {"queue_entries", "1", &H::queue_entries, 1, 4096},
    {"ccd", "clock", &H::ccd, 1, 1000},
    {"ccdl", "clock", &H::ccdl, 1, 1000},
    {"ccdwl", "clock", &H::ccdwl, 1, 1000},
    {"rrd", "clock", &H::rrd, 1, 1000},
    {"rcd", "clock", &H::rcd, 1, 1000},
    {"ras", "clock", &H::ras, 1, 1000},
    {"rp", "clock", &H::rp, 1, 1000},
    {"rc", "clock", &H::rc, 1, 1000},
    {"cl", "clock", &H::cl, 1, 1000},
    {"wl", "clock", &H::wl, 1, 1000},
    {"cdlr", "clock", &H::cdlr, 1, 1000},
    {"wr", "clock", &H::wr, 1, 1000},
    {"rtp", "clock", &H::rtp, 1, 1000},
    {"tracker_sets", "1", &H::tracker_sets, 1, 1 << 20},
    {"tracker_ways", "1", &H::tracker_ways, 1, 1 << 20},
    {"dma_read_ahead_kib", "KiB", &H::dma_read_ahead_kib, 0, 1 << 20},
    {"write_combining_kib", "KiB", &H::write_combining_kib, 0, 1 << 20, true},
    {"threshold_high", "1", &H::threshold_high, 1, 4096},
    {"threshold_medium", "1", &H::threshold_medium, 1, 4096},
    {"threshold_low", "1", &H::threshold_low, 1, 4096},
    {"occupancy_high", "1", &H::occupancy_high, 0, 1},
    {"occupancy_medium", "1", &H::occupancy_medium, 0, 1},
    {"occupancy_low", "1", &H::occupancy_low, 0, 1},
    {"starvation_cycles", "clock", &H::starvation_cycles, 0, 1e6},
};

constexpr std::string_view k_prefix = "overlap.";

template <class Owner>
void append(std::vector<MachineNumber>& numbers, std::span<MachineField<Owner> const> fields,
            std::string_view prefix) {
  for (auto const& field : fields) {
    auto const kind = std::holds_alternative<int Owner::*>(field.member)    ? NumberKind::whole
                      : std::holds_alternative<bool Owner::*>(field.member) ? NumberKind::flag
                                                                            : NumberKind::real;
    numbers.push_back({std::string(prefix) + field.name, field.unit, kind, field.least, field.most});
  }
}

/// Calls f with the member of that name, if there is one.
template <class Owner, class Object, class F>
bool with_member(std::span<MachineField<Owner> const> fields, Object& owner, std::string_view name, F&& f) {
  for (auto const& field : fields)
    if (name == field.name) return std::visit([&](auto member) { f(owner.*member); }, field.member), true;
  return false;
}

template <class Profile, class F>
bool with_number(Profile& machine, std::string_view name, F&& f) {
  if (name.substr(0, k_prefix.size()) != k_prefix) return with_member(machine_fields(), machine, name, f);
  return machine.overlap && with_member(overlap_fields(), *machine.overlap, name.substr(k_prefix.size()), f);
}

}  // namespace

std::span<MachineField<MachineProfile> const> machine_fields() { return k_fields; }
std::span<MachineField<OverlapHardware> const> overlap_fields() { return k_overlap_fields; }

std::vector<MachineNumber> machine_numbers() {
  std::vector<MachineNumber> numbers;
  append(numbers, machine_fields(), "");
  append(numbers, overlap_fields(), k_prefix);
  return numbers;
}

std::optional<double> machine_number(MachineProfile const& machine, std::string_view name) {
  std::optional<double> value;
  with_number(machine, name, [&](auto const& member) { value = static_cast<double>(member); });
  return value;
}

bool set_machine_number(MachineProfile& machine, std::string_view name, double value) {
  return with_number(machine, name,
                     [&](auto& member) { member = static_cast<std::decay_t<decltype(member)>>(value); });
}

}  // namespace tessera
