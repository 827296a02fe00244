// SPDX-License-Identifier: Apache-2.0
// Filters and biases of a network on the host, of random numbers or from files; a batch norm is folded into
// the convolution before it. Arithmetic, without a GPU.
#pragma once

#include <cstdint>
#include <tessera/weights/weight_files.hpp>
#include <vector>

#include "kernels/networks/network.hpp"

namespace tessera::networks {

/// Of a convolution, as bits of the network's type, [channel out][row][column][channel in]: channels in are
/// padded with zeros to padded().
struct LayerWeights {
  std::vector<std::uint16_t> filter, bias;
};
/// One for each layer; empty for pooling.
struct NetworkWeights {
  std::vector<LayerWeights> layers;
};

/// A batch norm as it is at inference: y = (x - mean) / sqrt(variance + epsilon) * scale + shift.
struct BatchNorm {
  std::vector<float> scale, shift, mean, variance;  ///< of each channel out
  double epsilon = 1e-5;                            ///< torchvision's
};
struct FoldedLayer {
  std::vector<double> filter, bias;
};
/// filter' = filter * scale / sqrt(variance + epsilon), bias' = (bias - mean) * that + shift, in double.
/// `filter`: channels out first; `bias`: may be empty, for zeros.
FoldedLayer fold_batch_norm(std::vector<float> const& filter, std::vector<float> const& bias,
                            BatchNorm const& norm);

/// From [out][in][row][column], which files have, to [out][row][column][in], with zeros up to padded().
std::vector<double> channels_last(std::vector<double> const& filter, int out, int in, int kernel);

/// The nearest number's bits, ties to even; infinite beyond the largest.
std::uint16_t bits_of(double value, ElementType type);
float value_of(std::uint16_t bits, ElementType type);

/// Names and shapes of the tensors that files must have: torchvision's.
WantedTensors tensors_of(Network const& network);
/// E0572 as check_tensors(), E0901; E0573 for a batch norm whose variance is below zero, and for numbers that
/// the type does not hold once a batch norm is folded in.
Expected<NetworkWeights> read_weights(Network const& network, WeightFiles const& files);

/// Normal numbers, the same for the same seed. What layers write stays as large as what they read; the last
/// layer before a residual is added writes less, so that sums do not grow. Precondition: check_network().
NetworkWeights random_weights(Network const& network, unsigned seed);

}  // namespace tessera::networks
