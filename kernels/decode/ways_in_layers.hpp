// SPDX-License-Identifier: Apache-2.0
// The ways of products, and the parts of attention, with which whole layers are fastest. Alone a product
// follows itself; in a layer it follows one whose blocks may leave no room for it, and what it has on its way
// delays what comes behind.
#pragma once

#include <functional>
#include <vector>

#include "kernels/decode/operator_launches.hpp"

namespace tessera::decode {

/// What ways were chosen for.
struct LayersTimed {
  Model const& model;
  ProductsOf among;
  int rows = 0, sms = 0;
  std::vector<int> splits;  ///< of attention, to choose from; what is usual first
};

/// Enqueues all layers by the ways that operators take, and with so many parts of attention.
using EnqueueLayers = std::function<Expected<void>(cudaStream_t, int splits)>;
/// `operators` take from now on those of their ways with which all layers are fastest: one product after the
/// other, twice over. Behind that the parts of attention with which they are, which this returns. Found once
/// in a process for each device, number of rows, usual parts and sizes of a model. `layers` null: only what
/// is known already is taken. Waits for the stream. E0511, or the error of `layers`.
Expected<int> take_fastest_in_layers(OperatorLaunches& operators, LayersTimed const& timed,
                                     EnqueueLayers const& layers, cudaStream_t stream);

}  // namespace tessera::decode
