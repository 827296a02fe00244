// SPDX-License-Identifier: Apache-2.0
// Sums of 1 KiB to 4 GiB: what choose() takes, every variant with the same blocks and loads, and CUB, in
// turns in one run. `tessera bench reduce` runs it.
//
//     reduction [--json <file>] [--quick] [--sweep]
//
// --sweep: instead, which blocks and loads are fastest for a size (what choose() is made from).
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>

#include "bench/common/program.hpp"
#include "gpu/device_buffer.hpp"
#include "kernels/reduction/probe/cub_sum.hpp"
#include "kernels/reduction/sum.hpp"
#include "read.hpp"
#include "turns.hpp"

namespace tessera::bench {
namespace {

using namespace tessera::reduction;
using gpu::ok;
using probe::cub_sum;
using probe::cub_version;
using probe::cub_workspace;

constexpr unsigned k_fetch = 24u << 20;  // less than half of the L2
constexpr std::size_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;

struct Options {
  std::string json;
  bool quick = false, sweep = false;
};

std::string shown(std::size_t bytes) {
  if (bytes >= GiB) return std::to_string(bytes / GiB) + " GiB";
  if (bytes >= MiB) return std::to_string(bytes / MiB) + " MiB";
  return std::to_string(bytes / KiB) + " KiB";
}

void must(Expected<void> const& done) {
  if (!done) throw std::runtime_error(done.error().front().code + ": " + done.error().front().message);
}

class Bench {
 public:
  explicit Bench(Options const& options)
      : options_(options), arena_((8 * GiB + 64 * MiB) / 4), sum_(make()), out_(64, gpu::k_poison) {
    cub_bytes_ = cub_workspace(1u << 30);
    ok(cudaMalloc(&cub_memory_, cub_bytes_));
  }

  std::vector<Value> measure() {
    if (options_.sweep) return sweep();
    std::printf("us a call; CUB %s. Times in graphs; calls: one after the other without a graph\n",
                cub_version().c_str());
    read_bandwidth();
    for (bool const cold : {true, false}) {
      std::printf("%s L2\n%8s | %8s %8s | %8s %8s | %8s %8s %8s %8s %8s %8s | %5s %5s | %8s %8s | %s\n",
                  cold ? "cold" : "warm", "bytes", "Tessera", "CUB", "PDL", "+ahead", "last", "barrier",
                  "cluster", "coop.", "two", "two PDL", "CUB/T", "GB/s", "calls: T", "CUB", "taken");
      for (std::size_t bytes = KiB; bytes <= 4 * GiB; bytes *= options_.quick ? 16 : 2) one_size(bytes, cold);
    }
    if (wrong_ > 0) throw std::runtime_error(std::to_string(wrong_) + " sums are wrong");
    return values_;
  }

 private:
  static Sum make() {
    auto made = Sum::make();
    if (!made) throw std::runtime_error(made.error().front().message);
    return std::move(*made);
  }

  /// Part `i` of the array for calls on so many bytes; parts are spread over DRAM's channels and pages.
  float const* part(std::size_t bytes, int i, bool cold) const {
    std::size_t const stride = std::max(bytes, MiB) + 4352;
    std::size_t const parts = std::min<std::size_t>(arena_.count * 4 / stride, 64);
    return arena_.x + (cold ? static_cast<std::size_t>(i) % parts : 0) * (stride / 4);
  }

  Turns turns_for(std::size_t bytes, bool cold) const {
    double const guess = 3 + static_cast<double>(bytes) / 4e6;
    Turns turns;
    turns.cold = cold;
    turns.calls = static_cast<int>(std::clamp(1200 / guess, 4.0, 32.0));
    turns.rounds = options_.quick || bytes > 256 * MiB ? 9 : 21;
    return turns;
  }

  Way ours(std::string const& name, std::size_t bytes, bool cold, Config const& config, Early const& early) {
    return {name, [=, this](int i, cudaStream_t stream) {
              must(sum_.launch(Element::fp32, part(bytes, i, cold), bytes / 4, out_.get() + i, stream, config,
                               early));
            }};
  }
  Way cub(std::size_t bytes, bool cold) {
    return {"CUB", [=, this](int i, cudaStream_t stream) {
              ok(cub_sum(cub_memory_, cub_bytes_, part(bytes, i, cold), static_cast<unsigned>(bytes / 4),
                         out_.get() + i, stream));
            }};
  }

  /// Every way's first two results against the sum in double precision, in poisoned memory.
  void check(std::vector<Way> const& ways, std::size_t bytes, bool cold) {
    double reference[2];
    for (int i = 0; i < 2; ++i) reference[i] = arena_.reference(part(bytes, i, cold), bytes / 4);
    for (auto const& way : ways) {
      out_.fill(0xFF);
      for (int i = 0; i < 2; ++i) way.call(i, arena_.stream);
      ok(cudaStreamSynchronize(arena_.stream));
      auto const got = out_.download();
      for (int i = 0; i < 2; ++i)
        if (!(std::abs(got[static_cast<std::size_t>(i)] - reference[i]) <= 2e-6 * reference[i])) {
          ++wrong_;
          std::printf("WRONG: %s, %s: %.9g instead of %.9g\n", shown(bytes).c_str(), way.name.c_str(),
                      static_cast<double>(got[static_cast<std::size_t>(i)]), reference[i]);
        }
    }
  }

  void add(std::string const& name, double value, std::string const& unit) {
    values_.push_back({name, value, unit});
  }

  void read_bandwidth() {
    std::vector<Way> ways;
    std::vector<Reader> const all = readers();
    std::size_t const bytes = GiB;
    auto* const out = reinterpret_cast<unsigned*>(out_.get());
    for (auto const& reader : all)
      ways.push_back({reader.name, [=, this](int i, cudaStream_t stream) {
                        ok(read(reader, sum_.sms(), part(bytes, i, true), bytes / 4, out, stream));
                      }});
    auto const times = time_graphs(arena_, ways, turns_for(bytes, true));
    std::printf("reading 1 GiB, GB/s:");
    for (std::size_t w = 0; w < ways.size(); ++w) {
      double const gbps = static_cast<double>(bytes) / times[w].median * 1e-3;
      best_read_ = std::max(best_read_, gbps);
      std::printf(" %s %.0f;", ways[w].name.c_str(), gbps);
      add("read." + ways[w].name, gbps, "GB/s");
    }
    std::printf("\n");
    add("read.best", best_read_, "GB/s");
    auto const empty = time_graphs(
        arena_, {{"empty", [](int, cudaStream_t stream) { launch_empty(stream); }}}, {32, 21, false});
    add("empty kernel in a graph", empty.front().median, "us");
    std::printf("an empty kernel in a graph: %.2f us\n", empty.front().median);
  }

  void one_size(std::size_t bytes, bool cold) {
    Config const chosen = choose(Element::fp32, bytes / 4, sum_.sms());
    std::vector<Way> ways = {
        ours("Tessera", bytes, cold, chosen, {}), cub(bytes, cold),
        ours("Tessera, programmatic", bytes, cold, chosen, {true, 0}),
        ours("Tessera, programmatic, fetching ahead", bytes, cold, chosen, {true, k_fetch})};
    if (chosen.variant != Variant::one_block)
      for (int v = static_cast<int>(Variant::last_block); v < variants; ++v) {
        auto const variant = static_cast<Variant>(v);
        ways.push_back(ours(to_string(variant), bytes, cold, with_variant(chosen, variant, sum_.sms()), {}));
      }
    check(ways, bytes, cold);
    auto const turns = turns_for(bytes, cold);
    auto const times = time_graphs(arena_, ways, turns);
    std::vector<Timing> calls;
    if (bytes <= 64 * MiB) {
      auto plain = turns;
      plain.calls = 64;
      calls = time_calls(arena_, {ways[0], ways[1]}, plain);
    }
    std::string const prefix = std::to_string(bytes) + (cold ? ".cold." : ".warm.");
    for (std::size_t w = 0; w < ways.size(); ++w) {
      add(prefix + "graph." + ways[w].name, times[w].median, "us");
      add(prefix + "graph." + ways[w].name + ".p05", times[w].p05, "us");
      add(prefix + "graph." + ways[w].name + ".p95", times[w].p95, "us");
    }
    if (!calls.empty()) {
      add(prefix + "calls.Tessera", calls[0].median, "us");
      add(prefix + "calls.CUB", calls[1].median, "us");
    }
    std::printf("%8s | %8.2f %8.2f | %8.2f %8.2f |", shown(bytes).c_str(), times[0].median, times[1].median,
                times[2].median, times[3].median);
    for (std::size_t w = 4; w < 10; ++w)
      w < ways.size() ? std::printf(" %8.2f", times[w].median) : std::printf(" %8s", "");
    std::printf(" | %5.2f %5.0f |", times[1].median / times[0].median,
                static_cast<double>(bytes) / times[0].median * 1e-3);
    calls.empty() ? std::printf(" %8s %8s", "", "")
                  : std::printf(" %8.2f %8.2f", calls[0].median, calls[1].median);
    std::printf(" | %s\n", to_string(chosen).c_str());
    std::fflush(stdout);
  }

  std::vector<Value> sweep() {
    for (bool const cold : {true, false})
      for (std::size_t bytes = KiB; bytes <= 4 * GiB; bytes *= 2) {
        std::vector<Way> ways = {cub(bytes, cold)};
        auto const try_one = [&](Config const& config) {
          ways.push_back(ours(to_string(config), bytes, cold, config, {}));
        };
        for (auto const& shape : shapes()) {
          Config config{Variant::one_block, shape.loads, shape.threads, shape.unroll, 1, 1};
          if (bytes <= 128 * KiB && shape.loads == Loads::vector) try_one(config);
          if (shape.threads < 128 || bytes < 8 * KiB) continue;
          config.variant = Variant::data_token;
          std::vector<int> blocks;
          auto const full = static_cast<int>(
              std::min<std::size_t>((bytes / 16 + static_cast<std::size_t>(shape.threads) - 1) /
                                        static_cast<std::size_t>(shape.threads),
                                    4096));
          bool const bulk = shape.loads == Loads::bulk;
          for (int const b : {full, full / 2, full / 4, sum_.sms(), 2 * sum_.sms(), 4 * sum_.sms(),
                              8 * sum_.sms(), 12 * sum_.sms(), 16 * sum_.sms(), 30 * sum_.sms()})
            if (b >= 2 && b <= std::min(full, most_blocks) && (b >= 16 || bytes <= 64 * KiB) &&
                (!bulk || b <= sum_.sms()) && (bytes < 256 * MiB || b >= sum_.sms()))
              blocks.push_back(b);
          std::sort(blocks.begin(), blocks.end());
          blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
          for (int const b : blocks) {
            config.blocks = b;
            try_one(config);
          }
          for (int const c : {2, 4, 8})
            for (int const b : {c, 2 * c, 64, 128, 2 * sum_.sms() / 8 * 8})
              if (b <= full && b >= c && bytes <= 16 * MiB && !bulk && (b <= 2 * c || c == 8)) {
                Config clusters = config;
                clusters.variant = Variant::clusters;
                clusters.blocks = b;
                clusters.cluster = c;
                try_one(clusters);
              }
        }
        auto turns = turns_for(bytes, cold);
        turns.rounds = 5;
        turns.calls = std::min(turns.calls, bytes >= 64 * MiB ? 8 : 32);
        auto const times = time_graphs(arena_, ways, turns);
        std::vector<std::size_t> order(ways.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::sort(order.begin(), order.end(),
                  [&](std::size_t a, std::size_t b) { return times[a].median < times[b].median; });
        std::printf("%8s %s CUB %.2f of %zu;", shown(bytes).c_str(), cold ? "cold" : "warm", times[0].median,
                    ways.size());
        for (std::size_t i = 0; i < order.size(); ++i) {
          if (i < 9) std::printf(" %.2f %s;", times[order[i]].median, ways[order[i]].name.c_str());
          add(std::to_string(bytes) + (cold ? ".cold." : ".warm.") + ways[order[i]].name,
              times[order[i]].median, "us");
        }
        std::printf("\n");
        std::fflush(stdout);
      }
    return values_;
  }

  Options options_;
  Arena arena_;
  Sum sum_;
  gpu::DeviceBuffer<float> out_;
  void* cub_memory_ = nullptr;
  std::size_t cub_bytes_ = 0;
  double best_read_ = 0;
  int wrong_ = 0;
  std::vector<Value> values_;
};

}  // namespace
}  // namespace tessera::bench

int main(int count, char** words) {
  using namespace tessera::bench;
  Options options;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(words[i], "--json") == 0 && i + 1 < count)
      options.json = words[++i];
    else if (std::strcmp(words[i], "--quick") == 0)
      options.quick = true;
    else if (std::strcmp(words[i], "--sweep") == 0)
      options.sweep = true;
    else
      return std::fprintf(stderr, "usage: reduction [--json <file>] [--quick] [--sweep]\n"), 2;
  }
  return measure_and_write(options.json, [&] { return Bench(options).measure(); });
}
