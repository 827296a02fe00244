// SPDX-License-Identifier: Apache-2.0
#include "way_price.hpp"

#include <algorithm>
#include <vector>

#include "waves.hpp"

namespace tessera::gemm_collectives {
namespace {

constexpr double k_element = 2;       // bytes
constexpr double k_us_per_gb = 1e-3;  // bytes over GB/s, in microseconds

class Schedule {
 public:
  Schedule(Problem const& problem, WayFigures const& figures, ProductPrice const& product_us)
      : problem_(problem), figures_(figures), product_us_(product_us) {}

  std::optional<double> in_sequence() const {
    auto const collective =
        figures_.library != nullptr ? figures_.library->us(problem_) : std::optional<double>{};
    if (!collective) return std::nullopt;
    return product(problem_.rows) + figures_.launch_us + *collective;
  }

  double words() const {
    double const bytes = k_element * problem_.rows * problem_.columns;
    // Four words for each three, to every peer; what comes is read again.
    constexpr double k_packet = 4.0 / 3;
    int const peers = problem_.ranks - 1;
    return product(problem_.rows) + figures_.early_launch_us + figures_.hop_us +
           link(k_packet * bytes * peers) + memory(k_packet * bytes * problem_.ranks);
  }

  /// The product, which reads no faster than one alone; packets leave as it ends.
  double fused() const {
    double const bytes = k_element * problem_.rows * problem_.columns;
    constexpr double k_packet = 4.0 / 3;
    return product(problem_.rows) + figures_.hop_us + link(k_packet * bytes * (problem_.ranks - 1));
  }

  /// A product that stores across the link ends when its stores have left, a copy runs beside the next one.
  double shards(bool copies) const {
    double sms = 0, engine = 0;
    for (int step = 0; step < problem_.ranks; ++step) {
      sms += product(shard_rows());
      if (step + 1 == problem_.ranks) break;
      if (copies)
        engine = std::max(engine, sms) + figures_.copy_us + link(shard_bytes());
      else
        sms += link(shard_bytes());
    }
    double sum = memory((problem_.ranks + 1) * shard_bytes());
    // A sum for all goes across the link to each of them.
    if (shares()) sum = std::max(sum, link((problem_.ranks - 1) * shard_bytes()));
    return std::max(sms, engine) + figures_.launch_us + figures_.hop_us + sum + figures_.hop_us;
  }

  double adds(int parts, PartKernel kernel) const {
    double const bytes = shard_bytes() / parts;
    double const part_us = part_of_shard(parts, kernel);
    double sms = 0, engine = 0;
    std::vector<double> come;
    for (int part = 0; part < parts; ++part) {
      sms += part_us;
      engine = std::max(engine, sms) + figures_.copy_us + link(bytes);
      come.push_back(engine + figures_.hop_us);
    }
    for (int part = 0; part < parts; ++part) {
      auto const there = come[static_cast<std::size_t>(part)];
      if (there > sms) sms = there + figures_.launch_us;
      sms += part_us + memory(bytes);
      if (shares()) engine = std::max(engine, sms) + figures_.copy_us + link(bytes);
    }
    return shares() ? std::max(sms, engine) + figures_.hop_us : sms;
  }

  double gathers() const {
    double const bytes = k_element * shard_rows() * problem_.local_depth();
    double sms = product(shard_rows());
    for (int step = 1; step < problem_.ranks; ++step)
      sms = std::max(sms, step * (figures_.copy_us + link(bytes)) + figures_.hop_us) + product(shard_rows());
    return sms;
  }

 private:
  bool shares() const { return problem_.collective == Collective::all_reduce; }
  int shard_rows() const { return most_shard_rows(problem_.rows, problem_.ranks); }
  double shard_bytes() const { return k_element * shard_rows() * problem_.local_columns(); }
  double link(double bytes) const { return bytes / figures_.link_gbps * k_us_per_gb; }
  double memory(double bytes) const { return bytes / figures_.dram_gbps * k_us_per_gb; }
  double product(int rows) const {
    return product_us_(rows, problem_.local_columns(), problem_.local_depth());
  }

  /// One of the products that a shard is cut into, by whole tiles.
  double part_of_shard(int parts, PartKernel kernel) const {
    if (kernel == PartKernel::own) return product((shard_rows() + parts - 1) / parts);
    int const tiles = rounded_up(rounded_up(shard_rows(), k_tile_rows), parts);
    int const rows = std::min(tiles * k_tile_rows, shard_rows());
    auto const waves = [&](int of) { return waves_of_product(of, problem_.local_columns(), figures_.sms); };
    return product(shard_rows()) * waves(rows) / waves(shard_rows());
  }

  Problem const& problem_;
  WayFigures const& figures_;
  ProductPrice const& product_us_;
};

}  // namespace

WayFigures h200_figures() {
  WayFigures figures;
  figures.link_gbps = 390;          // results/h200x2/peers.json: peer.bandwidth.copy, both directions at once
  figures.hop_us = 1.529;           // results/h200x2/peers.json: peer.hop.store
  figures.copy_us = 2.7;            // copies of 16 to 256 KiB between two of four H200, another machine
  figures.dram_gbps = 4479;         // machines/h200.json
  figures.launch_us = 1.795;        // machines/h200.json: stream_gap_ns
  figures.early_launch_us = 0.535;  // machines/h200.json: pdl_gap_ns
  figures.library = &nccl_times();
  return figures;
}

std::optional<double> price_of(Problem const& problem, Way way, int parts, WayFigures const& figures,
                               ProductPrice const& product_us, PartKernel part_kernel) {
  Schedule const schedule(problem, figures, product_us);
  if (way == Way::sequential) return schedule.in_sequence();
  if (problem.collective == Collective::all_gather) return schedule.gathers();
  if (way == Way::words) return schedule.words();
  if (way == Way::fused) return schedule.fused();
  if (way == Way::add) return schedule.adds(std::max(parts, 1), part_kernel);
  return schedule.shards(way == Way::copy);
}

}  // namespace tessera::gemm_collectives
