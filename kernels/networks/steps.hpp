// SPDX-License-Identifier: Apache-2.0
// Who computes what of a network: launches of chains, plans of cuDNN, pooling. Arithmetic, without a GPU.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/networks/network.hpp"

namespace tessera::networks {

/// Layers [first, end), by a chain of convolutions; or one layer, by cuDNN, by a kernel for pooling, or by a
/// launch of its own (convolution::ConvOptions::by_layer), which loads its filters while the step before
/// runs.
struct Step {
  std::size_t first = 0, end = 1;
  bool chain = false;
  bool launch = false;

  bool operator==(Step const&) const = default;
};

/// Layers [first, end) as a chain: each reads what the one before it writes. Residuals that none of them
/// writes are given (convolution::k_given_residual). E0573 for layers that are no chain, E0567 for those that
/// chains are not for.
Expected<convolution::LayerChain> chain_of(Network const& network, int images, std::size_t first,
                                           std::size_t end);

/// Chains that are worth measuring: they begin and end beside a layer that changes the size of activations,
/// where what follows adds nothing older, or where layers are no chain any more. Among layers of one size a
/// chain of all of them has the fewest launches. Every chain between two of these places.
std::vector<Step> possible_chains(Network const& network, int images);

/// Convolutions that may be launches of their own, each as a step.
std::vector<Step> possible_launches(Network const& network, int images);

/// Each layer by itself, but for these steps. Precondition: they do not overlap, and are in order.
std::vector<Step> steps_with(Network const& network, std::vector<Step> const& chains);

/// Of all ways to take some of `steps` and each other layer by itself that which costs least. `cost` is asked
/// once for each; below zero: it cannot be taken. `begins`: what a launch of its own costs besides where the
/// step before is none.
std::vector<Step> cheapest_steps(Network const& network, std::vector<Step> const& steps,
                                 std::function<double(Step const&)> const& cost, double begins = 0);

/// Refuses (E0573) steps that are not all layers in order, or layers that are no such step.
Expected<void> check_steps(Network const& network, int images, std::vector<Step> const& steps);

/// "layers 0 to 13 one by one, layers 14 to 20 in a chain, layers 21 to 31 in launches of their own".
std::string to_string(std::vector<Step> const& steps);

}  // namespace tessera::networks
