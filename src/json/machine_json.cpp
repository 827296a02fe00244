// SPDX-License-Identifier: Apache-2.0
// Machine profiles: one table says what the fields are called, in which unit and range; reading, checking
// and printing follow it.
#include "tessera/measure/machine_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <variant>

#include "diagnostic/nearest.hpp"
#include "json/json_text.hpp"
#include "json/probe_json.hpp"
#include "json/reader.hpp"
#include "tessera/shipped.hpp"

namespace tessera {
namespace {

using json::Document;
using json::ObjectReader;

constexpr char const* k_schema = "tessera.machine/1";
constexpr json::Codes k_codes{"E0601", "E0603", "E0604", "E0605"};
constexpr char const* k_unknown_machine = "E0602";
constexpr char const* k_contradiction = "E0606";
constexpr char const* k_other_version = "E0607";

template <class Owner>
struct Field {
  char const* name;
  char const* unit;
  std::variant<int Owner::*, double Owner::*, bool Owner::*> member;
  double least;
  double most;
  bool optional = false;  ///< left out where the machine has no such thing: the member keeps its default
};

using P = MachineProfile;
// Ranges are wide: they keep out mistakes of unit and arithmetic overflow, not unusual machines.
Field<MachineProfile> const k_fields[] = {
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
Field<OverlapHardware> const k_overlap_fields[] = {
    {"link_gbps", "1e9 byte/s", &H::link_gbps, 0.001, 1e6},
    {"link_latency_ns", "ns", &H::link_latency_ns, 0, 1e9},
    {"memory_request_ns", "ns", &H::memory_request_ns, 1, 1e6},
    {"memory_return_ns", "ns", &H::memory_return_ns, 0, 1e6},
    {"l2_hit_ns", "ns", &H::l2_hit_ns, 0, 1e6},
    {"sm_store_bytes_per_clock", "byte/clock", &H::sm_store_bytes_per_clock, 0.1, 1e6},
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
    {"threshold_high", "1", &H::threshold_high, 1, 4096},
    {"threshold_medium", "1", &H::threshold_medium, 1, 4096},
    {"threshold_low", "1", &H::threshold_low, 1, 4096},
    {"occupancy_high", "1", &H::occupancy_high, 0, 1},
    {"occupancy_medium", "1", &H::occupancy_medium, 0, 1},
    {"occupancy_low", "1", &H::occupancy_low, 0, 1},
    {"starvation_cycles", "clock", &H::starvation_cycles, 0, 1e6},
};

/// Under which name the source of an overlap value is kept: some are called as the machine's own.
std::string overlap_source(char const* name) { return std::string("overlap.") + name; }

/// "value", "unit" and "source" of one field. Returns the source.
template <class Owner>
std::string read_field(Document& document, json::Node const& node, Field<Owner> const& field,
                       Owner& machine) {
  ObjectReader reader(document, node, fmt::format("\"{}\"", field.name));
  auto const unit = reader.string("unit");
  if (!unit.empty() && unit != field.unit)
    document.report(node, k_codes.value,
                    fmt::format("\"{}\" is in \"{}\"; its unit is \"{}\"", field.name, unit, field.unit), {},
                    "convert the value and write the unit above");
  auto const source = reader.string("source");
  if (source.empty() && reader.has("source"))
    document.report(
        node, k_codes.value, fmt::format("\"{}\" has an empty source", field.name), {},
        "say where the value comes from: a document, a measurement, or an estimate and its reason");
  if (auto const* whole = std::get_if<int Owner::*>(&field.member))
    machine.** whole = static_cast<int>(reader.integer("value", static_cast<std::int64_t>(field.least),
                                                       static_cast<std::int64_t>(field.most)));
  else if (auto const* real = std::get_if<double Owner::*>(&field.member))
    machine.** real = reader.number("value", field.least, field.most);
  else if (!reader.has("value") || !reader.find("value")->is(json::Node::Kind::boolean))
    document.report(node, reader.has("value") ? k_codes.value : k_codes.missing,
                    fmt::format("\"{}\" needs a \"value\" of true or false", field.name));
  else
    machine.*std::get<bool Owner::*>(field.member) = reader.boolean_or("value", false);
  reader.finish();
  return source;
}

template <class Owner>
nlohmann::ordered_json print_field(Owner const& owner, Field<Owner> const& field,
                                   MachineProfile const& machine, std::string const& source_name) {
  nlohmann::ordered_json entry;
  std::visit([&](auto member) { entry["value"] = owner.*member; }, field.member);
  entry["unit"] = field.unit;
  auto const source = machine.sources.find(source_name);
  entry["source"] = source == machine.sources.end() || source->second.empty() ? "not given" : source->second;
  return entry;
}

void read_kernel(Document& document, json::Node const& node, MachineProfile& machine) {
  ObjectReader reader(document, node, "a kernel");
  auto const name = reader.string("name");
  KernelTiming timing;
  timing.slice_cycles = reader.number("slice_cycles", 1, 1e9);
  timing.tile_end_cycles = reader.number("tile_end_cycles", 0, 1e9);
  timing.next_tile_cycles = reader.number("next_tile_cycles", 0, 1e9);
  timing.waits_per_poll = static_cast<int>(reader.integer_or("waits_per_poll", 1, 1, 1024));
  timing.gelu_cycles = reader.number_or("gelu_cycles", 0, 0);
  timing.cluster_rows = static_cast<int>(reader.integer_or("cluster_rows", 1, 1, 16));
  timing.cluster_columns = static_cast<int>(reader.integer_or("cluster_columns", 1, 1, 16));
  timing.source = reader.string("source");
  reader.finish();
  if (!machine.kernels.emplace(name, std::move(timing)).second)
    document.report(node, k_codes.value, fmt::format("\"{}\" is listed twice", name.substr(0, 60)));
}

nlohmann::ordered_json print_kernel(std::string const& name, KernelTiming const& timing) {
  nlohmann::ordered_json entry = {{"name", name},
                                  {"slice_cycles", timing.slice_cycles},
                                  {"tile_end_cycles", timing.tile_end_cycles},
                                  {"next_tile_cycles", timing.next_tile_cycles}};
  if (timing.waits_per_poll != 1) entry["waits_per_poll"] = timing.waits_per_poll;
  if (timing.cluster_rows != 1) entry["cluster_rows"] = timing.cluster_rows;
  if (timing.cluster_columns != 1) entry["cluster_columns"] = timing.cluster_columns;
  if (timing.gelu_cycles != 0) entry["gelu_cycles"] = timing.gelu_cycles;
  entry["source"] = timing.source;
  return entry;
}

/// What no single range can say.
void check_together(Document& document, MachineProfile const& m) {
  auto const report = [&](std::string message, std::string suggestion) {
    document.report(document.root(), k_contradiction, std::move(message), {}, std::move(suggestion));
  };
  if (m.shared_bytes_per_block > m.shared_bytes_per_sm)
    report(fmt::format("one block may take {} bytes of shared memory, but an SM has {}",
                       m.shared_bytes_per_block, m.shared_bytes_per_sm),
           "shared_bytes_per_block is the largest opt-in allocation; it is at most shared_bytes_per_sm");
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
  if (!m.overlap) return;
  auto const& h = *m.overlap;
  if (!std::has_single_bit(static_cast<unsigned>(h.banks)) || h.bank_groups > h.banks ||
      !std::has_single_bit(static_cast<unsigned>(h.bank_groups)))
    report(fmt::format("{} banks in {} groups", h.banks, h.bank_groups),
           "banks and bank_groups are powers of two, and a group has at least one bank");
  if (h.row_bytes % h.channel_interleave != 0 ||
      !std::has_single_bit(static_cast<unsigned>(h.channel_interleave)))
    report(fmt::format("a row of {} bytes, {} bytes before the next channel's turn", h.row_bytes,
                       h.channel_interleave),
           "row_bytes is a multiple of channel_interleave, which is a power of two");
}

}  // namespace

Expected<MachineProfile> parse_machine(std::string_view text, std::string const& file) {
  auto document = Document::parse(text, file, k_codes);
  if (!document) return tl::make_unexpected(document.error());
  ObjectReader root(*document, document->root());
  auto const schema = root.string("schema");
  if (!schema.empty() && schema != k_schema)
    document->report(document->root(), k_other_version,
                     fmt::format("schema is \"{}\"; this is \"{}\"", schema, k_schema), {},
                     "a machine profile begins with \"schema\": \"tessera.machine/1\"");
  if (document->failed()) return document->refusal();
  MachineProfile machine;
  machine.name = root.string("name");
  machine.gpu = root.string("gpu");
  machine.architecture = root.string("architecture");
  machine.provisional = root.boolean_or("provisional", false);
  if (auto const* values = root.object("values")) {
    ObjectReader reader(*document, *values, "\"values\"");
    for (auto const& field : k_fields)
      if (auto const* node = field.optional ? reader.object_or(field.name) : reader.object(field.name))
        machine.sources[field.name] = read_field(*document, *node, field, machine);
    reader.finish();
  }
  if (auto const* values = root.object_or("overlap")) {
    ObjectReader reader(*document, *values, "\"overlap\"");
    auto& hardware = machine.overlap.emplace();
    for (auto const& field : k_overlap_fields)
      if (auto const* node = reader.object(field.name))
        machine.sources[overlap_source(field.name)] = read_field(*document, *node, field, hardware);
    reader.finish();
  }
  for (auto const& kernel : root.array_or("kernels")) read_kernel(*document, kernel, machine);
  if (auto const* probe = root.object_or("probe")) machine.probe = json::read_probe(*document, *probe);
  root.finish();
  if (!document->failed()) check_together(*document, machine);
  if (document->failed()) return document->refusal();
  return machine;
}

std::string print_machine(MachineProfile const& machine) {
  nlohmann::ordered_json root;
  root["schema"] = k_schema;
  root["name"] = machine.name;
  root["gpu"] = machine.gpu;
  root["architecture"] = machine.architecture;
  root["provisional"] = machine.provisional;
  auto& values = root["values"];
  MachineProfile const none;
  for (auto const& field : k_fields) {
    auto const is_default = [&](auto member) { return machine.*member == none.*member; };
    if (field.optional && std::visit(is_default, field.member)) continue;
    values[field.name] = print_field(machine, field, machine, field.name);
  }
  if (machine.overlap)
    for (auto const& field : k_overlap_fields)
      root["overlap"][field.name] = print_field(*machine.overlap, field, machine, overlap_source(field.name));
  for (auto const& [name, timing] : machine.kernels) root["kernels"].push_back(print_kernel(name, timing));
  if (!machine.probe) return json::pretty(root);
  root["probe"] = json::probe_value(*machine.probe);
  return json::pretty(root, json::k_probe_width);
}

Expected<MachineProfile> machine(std::string const& name) {
  for (auto const& file : shipped_machines())
    if (file.name == name) return parse_machine(file.text, fmt::format("machines/{}.json", name));
  Diagnostic d;
  d.code = k_unknown_machine;
  d.message = fmt::format("there is no machine \"{}\"", name);
  std::vector<std::string> names;
  for (auto const& file : shipped_machines()) names.emplace_back(file.name);
  d.notes = {fmt::format("machines: {}", list_of(names))};
  d.suggestion = did_you_mean(name, names);
  if (d.suggestion.empty())
    d.suggestion = "give one of the machines above, or a profile file (machines/machine.schema.json)";
  return refuse(std::move(d));
}

}  // namespace tessera
