// SPDX-License-Identifier: Apache-2.0
#include "measuring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <tessera/measure/statistics.hpp>

#include "kernels/gemm_collectives/alone.hpp"
#include "kernels/gemm_collectives/reference.hpp"
#include "kernels/gemm_collectives/refused.hpp"
#include "kernels/gemm_collectives/wire.hpp"
#include "src/gpu/select.hpp"

namespace tessera::command {

using namespace gemm_collectives;

namespace {

void put_times(WayMeasured& row, std::vector<double> const& us) {
  row.us = median(us);
  row.us_p10 = quantile(us, 0.1);
  row.us_p90 = quantile(us, 0.9);
}

WayMeasured wire_of(Problem const& problem, double gbps) {
  constexpr double k_us_per_gb = 1e-3;  // bytes over GB/s, in microseconds
  double const us = wire_bytes(problem) / gbps * k_us_per_gb;
  return {k_wire, fmt::format("{:.0f} GB/s", gbps), us, us, us, 0, false};
}

}  // namespace

Measuring::Measuring(Asked const& asked, std::shared_ptr<PeerGroup> group)
    : asked_(asked), group_(std::move(group)), sets_(group_, asked.problem, calls()) {
  for (int rank = 0; rank < group_->size(); ++rank) {
    gpu::Select const current(group_->device(rank));
    streams_.push_back(std::make_unique<gpu::Stream>());
  }
}

std::vector<cudaStream_t> Measuring::streams() const {
  std::vector<cudaStream_t> all;
  for (auto const& one : streams_) all.push_back(one->get());
  return all;
}

double Measuring::error_of(GemmCollective& product) const {
  auto const operands = sets_.of(0);
  poison_results(*group_, asked_.problem, operands);
  must(product.run(operands, streams()));
  must(product.finish());
  return worst_error(group_, asked_.problem, operands);
}

std::vector<WayMeasured> Measuring::apart() const {
  auto product = must(GemmCollective::make(group_, asked_.problem));
  WayMeasured row;
  row.way = "sequential";
  row.kernel = product.name();
  row.error = error_of(product);
  row.checked = true;
  std::vector<double> us;
  constexpr int k_calls = 20;
  for (int sample = 0; sample < rounds(); ++sample) {
    auto const begin = std::chrono::steady_clock::now();
    for (int call = 0; call < k_calls; ++call) must(product.run(sets_.of(call % sets_.count()), streams()));
    must(product.finish());
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() /
                 k_calls);
  }
  put_times(row, us);
  return {row};
}

std::vector<Tried> Measuring::tried() const {
  Gang gang(group_);
  return tune(group_, asked_.problem, {2, calls()}, gang, sets_);
}

Measured Measuring::in_turns(std::vector<Options> const& options) const {
  Gang gang(group_);
  Measured result;
  std::deque<GemmCollective> products;
  std::deque<GangTimed> timed;
  PieceKernel in_sequence;
  for (auto const& one : options) {
    auto& product = products.emplace_back(must(GemmCollective::make(group_, asked_.problem, one)));
    if (product.way() == Way::sequential) in_sequence = one.kernel;
    auto& row = result.rows.emplace_back();
    row.way = to_string(product.way());
    row.kernel = product.name();
    row.error = error_of(product);
    row.checked = true;
    timed.push_back({product.name(), [&product, this](std::vector<cudaStream_t> const& all, int set) {
                       return product.run(sets_.of(set), all);
                     }});
  }
  Alone alone(group_, asked_.problem, sets_, in_sequence, calls());
  for (auto& one : alone.timed()) {
    result.rows.emplace_back().way = one.name == "gemm"             ? "product alone"
                                     : one.name == "nccl"           ? "NCCL alone"
                                     : one.name == k_beside_nothing ? k_beside_none
                                                                    : k_beside;
    timed.push_back(one);
  }
  std::vector<GangTimed*> all;
  for (auto& one : timed) {
    gang.capture(one, calls(), sets_.count());
    all.push_back(&one);
  }
  gang.rounds(all, rounds(), calls());
  for (auto& product : products) must(product.finish());
  for (std::size_t i = 0; i < timed.size(); ++i) {
    put_times(result.rows[i], timed[i].us);
    Gang::release(timed[i]);
    if (i < options.size()) result.finalists.push_back({options[i], result.rows[i]});
  }
  result.rows.push_back(wire_of(asked_.problem, measured_link_gbps(group_, gang)));
  return result;
}

std::vector<Options> fastest_of_each_way(std::vector<Tried> const& tried) {
  std::vector<Options> best;
  for (auto const& one : tried)
    if (std::none_of(best.begin(), best.end(),
                     [&](Options const& known) { return known.way == one.options.way; }))
      best.push_back(one.options);
  return best;
}

}  // namespace tessera::command
