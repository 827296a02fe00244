// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <iterator>
#include <map>

#include "report/arrows.hpp"
#include "report/slots.hpp"
#include "report/tracks.hpp"
#include "tessera/report/json_text.hpp"
#include "tessera/report/report.hpp"

namespace tessera {
namespace {

constexpr std::size_t k_most_arrows = 1000;

/// Microseconds with three decimals. Perfetto keeps whole nanoseconds; rounding every instant alike keeps
/// slices nested, which rounding a start and a duration would not.
std::string ts(std::int64_t ps) {
  auto const ns = (ps + 500) / 1000;
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}
std::string duration(std::int64_t from, std::int64_t to) {
  auto const ns = (to + 500) / 1000 - (from + 500) / 1000;
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

class Trace {
 public:
  explicit Trace(Timeline const& timeline) : timeline_(timeline) {}

  void track_names(std::vector<report::Slot> const& slots) {
    for (int gpu = 0; gpu < timeline_.gpus; ++gpu) metadata(gpu, 0, "process_name", process_name(gpu));
    for (auto const& slot : slots) {
      name_thread(slot.gpu, track(slot.sm, slot.slot), report::slot_name(timeline_, slot));
    }
    for (std::size_t t = 0; t < timeline_.tracks.size(); ++t)
      name_thread(timeline_.tracks[t].gpu, beside(t), report::track_name(timeline_, timeline_.tracks[t]));
  }

  void span(TrackSpan const& span) {
    auto const track = static_cast<std::size_t>(span.track);
    event(fmt::format(
        R"("ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"cat":"transfer","args":{{"transfers":{},"bytes":{}}})",
        timeline_.tracks[track].gpu, beside(track), ts(span.from), duration(span.from, span.to),
        json_quoted(report::span_name(timeline_, span)), span.transfers, span.bytes));
  }

  /// Rates, bin by bin: bytes per nanosecond are GB/s.
  void rates(ByteCounter const& counter) {
    auto const classes = counter.classes.size();
    for (std::size_t first = 0; first < counter.bytes.size(); first += classes) {
      std::string values;
      for (std::size_t c = 0; c < classes; ++c)
        values += fmt::format(
            "{}{}:{:.1f}", c > 0 ? "," : "", json_quoted(counter.classes[c]),
            1000.0 * static_cast<double>(counter.bytes[first + c]) / static_cast<double>(counter.bin));
      event(fmt::format(R"("ph":"C","pid":{},"ts":{},"name":{},"args":{{{}}})", counter.gpu,
                        ts(static_cast<std::int64_t>(first / classes) * counter.bin),
                        json_quoted(counter.name + " GB/s"), values));
    }
  }

  void block(TileRecord const& tile) {
    auto const& span = timeline_.stages[static_cast<std::size_t>(tile.stage)];
    auto const name = fmt::format("{}({})", span.name, report::coordinates(span, tile));
    auto const waited = report::wait_begin(tile);
    slice(tile, name, span.name, tile.started, tile.posted,
          fmt::format(R"(,"args":{{"stage":{},"tile":{},"split":{},"waiting_us":{}{}}})",
                      json_quoted(span.name), tile.tile, tile.split, ts(tile.waiting), causes(tile)));
    slice(tile, "start", "start", tile.started, waited, "");
    slice(tile, "wait", "wait", waited, tile.ready, "");
    slice(tile, "load + compute", "load", tile.ready, tile.loaded, "");
    auto const blocked = report::store_wait_begin(tile);
    slice(tile, "store", "store", tile.loaded, blocked, "");
    slice(tile, "wait for stores", "wait", blocked, tile.stored, "");
    slice(tile, "post", "post", tile.stored, tile.posted, "");
  }

  /// From inside the posting block's slice to where the wait ends.
  void arrow(std::size_t id, report::Arrow const& arrow) {
    auto const& from = *arrow.post;
    auto const& to = *arrow.wait;
    event(fmt::format(R"("ph":"s","id":{},"pid":{},"tid":{},"ts":{},"name":"post","cat":"semaphore")", id,
                      from.gpu, track(from.sm, from.slot), ts(from.stored)));
    event(
        fmt::format(R"("ph":"f","bp":"e","id":{},"pid":{},"tid":{},"ts":{},"name":"post","cat":"semaphore")",
                    id, to.gpu, track(to.sm, to.slot), ts(to.ready)));
  }

  /// Blocks on the GPU and blocks that wait, at each change.
  void counters() {
    struct Change {
      std::int64_t resident = 0;
      std::int64_t waiting = 0;
    };
    std::map<std::pair<int, std::int64_t>, Change> changes;
    auto const at = [&](int gpu, std::int64_t ps) -> Change& { return changes[{gpu, (ps + 500) / 1000}]; };
    for (auto const& tile : timeline_.tiles) {
      ++at(tile.gpu, tile.started).resident;
      --at(tile.gpu, tile.posted).resident;
      ++at(tile.gpu, report::wait_begin(tile)).waiting;
      --at(tile.gpu, tile.ready).waiting;
    }
    Change now;
    int gpu = -1;
    for (auto const& [when, change] : changes) {
      if (when.first != gpu) now = {};
      gpu = when.first;
      now.resident += change.resident;
      now.waiting += change.waiting;
      event(fmt::format(R"("ph":"C","pid":{},"ts":{},"name":"blocks","args":{{"working":{},"waiting":{}}})",
                        gpu, ts(when.second * 1000), now.resident - now.waiting, now.waiting));
    }
  }

  std::string text() const {
    return fmt::format(
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"pipeline\":{},\"machine\":{},\"mechanism\":{},"
        "\"source\":\"{}\"}},\n\"traceEvents\":[{}\n]}}\n",
        json_quoted(timeline_.pipeline), json_quoted(timeline_.machine), json_quoted(timeline_.mechanism),
        timeline_.measured ? "measured" : "simulated", events_);
  }

 private:
  std::string process_name(int gpu) const {
    auto const name = fmt::format("{} on {}, {}", timeline_.pipeline, timeline_.machine, timeline_.mechanism);
    return timeline_.gpus > 1 ? fmt::format("GPU {}: {}", gpu, name) : name;
  }
  // Thread 0 is the process itself in some viewers, so tracks begin at 1.
  int track(int sm, int slot) const { return sm * std::max(timeline_.slots_per_sm, 1) + slot + 1; }
  int beside(std::size_t index) const { return track(timeline_.sms, static_cast<int>(index)); }

  static std::string causes(TileRecord const& tile) {
    if (tile.causes == WaitCauses{}) return "";
    return fmt::format(R"(,"operands_us":{},"matrix_unit_us":{},"stores_us":{})", ts(tile.causes.operands),
                       ts(tile.causes.matrix_unit), ts(tile.causes.stores));
  }
  void name_thread(int gpu, int thread, std::string const& name) {
    metadata(gpu, thread, "thread_name", name);
    event(fmt::format(R"("ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}})",
                      gpu, thread, thread));
  }

  void event(std::string_view body) {
    events_ += events_.empty() ? "\n{" : ",\n{";
    events_ += body;
    events_ += '}';
  }
  void metadata(int gpu, int thread, char const* kind, std::string const& name) {
    event(fmt::format(R"("ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":{}}})", gpu, thread, kind,
                      json_quoted(name)));
  }
  void slice(TileRecord const& tile, std::string_view name, std::string_view category, std::int64_t from,
             std::int64_t to, std::string_view arguments) {
    bool const is_block = !arguments.empty();
    if (!is_block && (to + 500) / 1000 <= (from + 500) / 1000) return;
    event(fmt::format(R"("ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"cat":{}{})", tile.gpu,
                      track(tile.sm, tile.slot), ts(from), duration(from, to), json_quoted(name),
                      json_quoted(category), arguments));
  }

  Timeline const& timeline_;
  std::string events_;
};

}  // namespace

std::string perfetto_trace(Timeline const& timeline, Plan const* plan) {
  Trace trace(timeline);
  auto const slots = report::slots_of(timeline);
  trace.track_names(slots);
  for (auto const& slot : slots)
    for (auto const* tile : slot.tiles) trace.block(*tile);
  if (plan) {
    std::size_t id = 1;
    for (auto const& arrow : report::longest_waits(timeline, *plan, k_most_arrows)) trace.arrow(id++, arrow);
  }
  for (auto const& span : timeline.spans) trace.span(span);
  trace.counters();
  for (auto const& counter : timeline.counters) trace.rates(counter);
  return trace.text();
}

}  // namespace tessera
