// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/launch_times.hpp"

#include <algorithm>
#include <tessera/simulate/role_machine.hpp>

#include "kernels/decode/operator_times.hpp"
#include "kernels/skinny_gemm_sm90/sizes.hpp"

namespace tessera::decode {
namespace {

struct Launches {
  Model const& model;
  int batch, cached;
  MachineProfile const& machine;
  LaunchCosts const& costs;
  double bytes_per_us;

  static constexpr double k_rounded = 2, k_added = 8, k_gated = 1;  ///< bytes of a result

  double megabytes(double elements, double bytes_of_each) const {
    return batch * elements * bytes_of_each / 1e6;
  }

  /// bf16 times bf16; `to`: bytes of a result, with its reading where it is added to. By the library:
  double library(double columns, double depth, double to) const {
    constexpr double k_tile = 64;     // columns; half of the SMs without a tile are too few
    constexpr double k_first = 1536;  // of the depth: in one piece
    bool const few = columns / k_tile < machine.sms / 2.0 && depth > k_first;
    double const split = few ? std::min(costs.depth_us * (depth - k_first) / 1024, costs.most_depth_us) : 0;
    return costs.product_us + split + bytes_of(columns, depth, to) / (costs.product_bandwidth * bytes_per_us);
  }
  /// And by our kernel for few rows: the memory is busy, or each SM with its weights and rows of the input.
  double ours(int columns, int depth, double to) const {
    return costs.ours_us + costs.ours_us_per_row * batch + (to == k_added ? costs.ours_added_us : 0) +
           (model.gelu ? costs.ours_gpt_us : 0) +
           std::max(bytes_of(columns, depth, to) / (costs.ours_bandwidth * bytes_per_us),
                    bytes_of_sm(columns, depth) / costs.ours_sm_bytes_per_us);
  }
  /// That the busiest SM loads, by the cut with which these are fewest.
  double bytes_of_sm(int columns, int depth) const {
    skinny_gemm::Problem const product{batch, columns, depth};
    double least = 0;
    for (auto const& cut : skinny_gemm::configs(product, machine.sms)) {
      int const waves = (skinny_gemm::blocks_of(product, cut) + machine.sms - 1) / machine.sms;
      double const bytes = waves * (cut.columns + batch) * (2.0 * depth / cut.split);
      if (least == 0 || bytes < least) least = bytes;
    }
    return least;
  }
  double bytes_of(double columns, double depth, double to) const {
    return 2 * columns * depth + batch * (2 * depth + to * columns);
  }
  /// Ours leaves the norm behind what is added.
  bool by_ours(int columns, int depth, double to) const {
    double const behind = to == k_added ? norm() + costs.between_us : 0;
    return skinny_gemm::supports({batch, columns, depth}) &&
           ours(columns, depth, to) <= library(columns, depth, to) + behind;
  }
  double product(int columns, int depth, double to) const {
    return by_ours(columns, depth, to) ? ours(columns, depth, to) : library(columns, depth, to);
  }
  int mlp_columns() const { return model.mlp_rows() * model.intermediate; }
  double of_mlp() const { return model.gelu ? k_rounded : k_gated; }
  /// Does our kernel make what goes to `down`, with SwiGLU or GeLU?
  bool is_activated() const {
    return skinny_gemm::supports({batch, mlp_columns(), model.hidden}) &&
           ours(mlp_columns(), model.hidden, of_mlp()) <=
               library(mlp_columns(), model.hidden, k_rounded) + activation() + costs.between_us;
  }
  bool is_down_ours() const { return by_ours(model.hidden, model.intermediate, k_added); }
  /// Do the products around a norm do it? That of the first layer is a launch all the same.
  bool is_in_products(LayerOperator norm) const {
    return norm == LayerOperator::norm
               ? is_down_ours() && by_ours(model.qkv_features(), model.hidden, k_rounded)
               : by_ours(model.hidden, model.attended(), k_added) && is_activated();
  }
  double norm() const { return costs.short_us + costs.norm_us_per_mb * megabytes(model.hidden, 6); }
  double attention() const {
    int const seen = model.read_of(cached);
    auto const splits = launched_splits(model, batch, seen, machine.sms);
    auto work = launched_work(model, batch, seen + 1, machine.sms, splits.apart);
    if (splits.in_cluster > 0)
      work = std::min(work, launched_work(model, batch, seen + 1, machine.sms, splits.in_cluster));
    bool const extras = model.has_qkv_shifts() || model.norms_heads;
    return costs.attention_us + (extras ? costs.extras_us : 0) + work / (bytes_per_us / machine.sms);
  }
  double activation() const {
    return costs.short_us +
           costs.activation_us_per_mb * megabytes(model.intermediate, 2.0 * (model.mlp_rows() + 1));
  }
  double of(LayerOperator which) const {
    auto const& m = model;
    switch (which) {
      case LayerOperator::norm:
      case LayerOperator::mlp_norm: return is_in_products(which) ? 0 : norm();
      case LayerOperator::qkv: return product(m.qkv_features(), m.hidden, k_rounded);
      case LayerOperator::attention: return attention();
      case LayerOperator::out: return product(m.hidden, m.attended(), k_added);
      case LayerOperator::gate_up:
        return is_activated() ? ours(mlp_columns(), m.hidden, of_mlp())
                              : library(mlp_columns(), m.hidden, k_rounded);
      case LayerOperator::activation: return is_activated() ? 0 : activation();
      case LayerOperator::down: break;
    }
    return product(m.hidden, m.intermediate, k_added);
  }
  /// Logits are written by the product, and read once more.
  double head(bool behind_launches) const {
    constexpr double k_logit = 4;
    double const logits = double(batch) * model.vocabulary;
    double const weights = 2.0 * model.vocabulary * model.hidden;
    double const by_library =
        costs.product_us + costs.head_us + weights / (costs.head_bandwidth * bytes_per_us);
    double const by_ours = costs.ours_us + costs.ours_us_per_row * batch + costs.head_us +
                           weights / (costs.ours_head_bandwidth * bytes_per_us);
    skinny_gemm::Problem const product{batch, model.vocabulary, model.hidden, skinny_gemm::Result::fp32};
    bool const is_ours = skinny_gemm::supports(product) && by_ours <= by_library;
    return (is_ours && behind_launches && is_down_ours() ? 0 : norm()) + costs.short_us +
           (is_ours ? by_ours : by_library) + 2 * k_logit * logits / bytes_per_us +
           costs.us_per_mlogits * logits / 1e6;
  }
};

}  // namespace

LaunchedToken predict_launches(Model const& model, int batch, int cached, MachineProfile const& machine,
                               LaunchCosts const& costs) {
  Launches const launches{model, batch, cached, machine, costs, 1e3 * role_machine(machine).dram_gbps};
  LaunchedToken result;
  for (auto const which : k_layer_operators) {
    double const us = launches.of(which);
    result.operators.push_back({operator_name(which), us});
    result.layers_us += model.layers * (us + (us > 0 ? costs.between_us : 0));
  }
  if (launches.is_in_products(LayerOperator::norm)) result.layers_us += launches.norm() + costs.between_us;
  result.head_us = launches.head(true), result.lone_head_us = launches.head(false);
  return result;
}

}  // namespace tessera::decode
