// SPDX-License-Identifier: Apache-2.0
// The ways of products, and the parts of attention, with which whole layers are fastest. Alone a product
// follows itself; in a layer it follows one whose blocks may leave no room for it, and what it has on its way
// delays what comes behind.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "kernels/decode/operator_launches.hpp"

namespace tessera::decode {

/// What layers are timed with. Two decoders have the same choice where all of it, their device and what each
/// product is by (ours, or the library's) are the same.
struct LayersTimed {
  Model const& model;
  ProductsOf among;
  int rows = 0, sms = 0, cached = 0;
  std::vector<AttentionParts> parts;  ///< to choose from: those with least work first
};

struct InLayers {
  std::map<LayerOperator, Way> ways;  ///< of OperatorLaunches::ways() of each product
  AttentionParts parts;               ///< of LayersTimed::parts
};

/// What was found before in this process.
std::optional<InLayers> known_in_layers(OperatorLaunches const& operators, LayersTimed const& timed);

/// Enqueues all layers by the ways that operators take, and with these parts of attention.
using EnqueueLayers = std::function<Expected<void>(cudaStream_t, AttentionParts const& parts)>;
/// Finds the ways with which all layers are fastest, one product after the other, twice over, and behind that
/// the parts: others than those that are taken first where they save half a percent of the layers.
/// `operators` take one after the other. What another thread has found meanwhile is what it comes to, so that
/// all decoders of a process have the same. Waits for the stream. E0511, or the error of `layers`.
Expected<InLayers> find_in_layers(OperatorLaunches& operators, LayersTimed const& timed,
                                  EnqueueLayers const& layers, cudaStream_t stream);

}  // namespace tessera::decode
