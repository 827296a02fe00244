// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/launch_times.hpp"

#include <algorithm>
#include <tessera/simulate/role_machine.hpp>

#include "kernels/decode/operator_times.hpp"

namespace tessera::decode {
namespace {

struct Launches {
  Model const& model;
  int batch, cached;
  MachineProfile const& machine;
  LaunchCosts const& costs;
  double bytes_per_us;

  double megabytes(double elements, double bytes_of_each) const {
    return batch * elements * bytes_of_each / 1e6;
  }

  /// bf16 times bf16; `to`: bytes of a result, with its reading where it is added to.
  double product(double columns, double depth, double to) const {
    double const bytes = 2 * columns * depth + batch * (2 * depth + to * columns);
    constexpr double k_tile = 64;     // columns; half of the SMs without a tile are too few
    constexpr double k_first = 1536;  // of the depth: in one piece
    bool const few = columns / k_tile < machine.sms / 2.0 && depth > k_first;
    double const split = few ? std::min(costs.depth_us * (depth - k_first) / 1024, costs.most_depth_us) : 0;
    return costs.product_us + split + bytes / (costs.product_bandwidth * bytes_per_us);
  }
  double norm() const { return costs.short_us + costs.norm_us_per_mb * megabytes(model.hidden, 6); }
  double attention() const {
    int const positions = model.read_of(cached) + 1;
    auto const work = launched_work(model, batch, positions, machine.sms,
                                    launched_splits(model, batch, model.read_of(cached), machine.sms));
    return costs.attention_us + work / (bytes_per_us / machine.sms);
  }
  double activation() const {
    return costs.short_us +
           costs.activation_us_per_mb * megabytes(model.intermediate, 2.0 * (model.mlp_rows() + 1));
  }
  double of(LayerOperator which) const {
    auto const& m = model;
    constexpr double k_rounded = 2, k_added = 8;
    switch (which) {
      case LayerOperator::norm:
      case LayerOperator::mlp_norm: return norm();
      case LayerOperator::qkv: return product(m.qkv_features(), m.hidden, k_rounded);
      case LayerOperator::attention: return attention();
      case LayerOperator::out: return product(m.hidden, m.attended(), k_added);
      case LayerOperator::gate_up: return product(m.mlp_rows() * m.intermediate, m.hidden, k_rounded);
      case LayerOperator::activation: return activation();
      case LayerOperator::down: break;
    }
    return product(m.hidden, m.intermediate, k_added);
  }
  /// Logits are written by the product, and read once more.
  double head() const {
    constexpr double k_logit = 4;
    double const logits = double(batch) * model.vocabulary;
    double const weights = 2.0 * model.vocabulary * model.hidden;
    return norm() + costs.product_us + costs.short_us + costs.head_us +
           weights / (costs.head_bandwidth * bytes_per_us) + 2 * k_logit * logits / bytes_per_us +
           costs.us_per_mlogits * logits / 1e6;
  }
};

}  // namespace

LaunchedToken predict_launches(Model const& model, int batch, int cached, MachineProfile const& machine,
                               LaunchCosts const& costs) {
  Launches const launches{model, batch, cached, machine, costs, 1e3 * role_machine(machine).dram_gbps};
  LaunchedToken result;
  for (auto const which : k_layer_operators) {
    result.operators.push_back({operator_name(which), launches.of(which)});
    result.layers_us += model.layers * (result.operators.back().us + costs.between_us);
  }
  result.head_us = launches.head();
  return result;
}

}  // namespace tessera::decode
