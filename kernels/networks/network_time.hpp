// SPDX-License-Identifier: Apache-2.0
// How long a network takes on an H200, and who computes a layer fastest, without a GPU: chains by
// convolution::chain_us(), launches of layers by convolution::layer_us(), other layers by what cuDNN's
// plans took when they were measured alone.
#pragma once

#include <optional>

#include "kernels/networks/steps.hpp"

namespace tessera::networks {

/// A convolution by cuDNN's fastest plan alone, microseconds. Between 1, 4 and 16 images in a straight line,
/// beyond 16 in that of 4 and 16. Nothing: no layer like it was measured (results/h200/networks.json).
std::optional<double> cudnn_us(ImageSize const& input, convolution::Layer const& layer, int images);

/// A step alone, again and again; a launch behind others of its kind, cut as cut_layers() does. Nothing where
/// cudnn_us() is, and for chains that cannot be cut.
std::optional<double> step_us(Network const& network, int images, Step const& step);

/// The whole: all steps, with activations and weights that come from memory, and images that are padded.
std::optional<double> network_us(Network const& network, int images, std::vector<Step> const& steps);

/// The steps that take least, launches of layers and cuDNN; cuDNN alone unless that saves `least_gain` of the
/// time: in the mean the cut of a launch is so much slower than the fastest. Persistent chains were slower
/// than launches wherever both were measured: they are in none. Nothing where a layer was not measured.
std::optional<std::vector<Step>> predicted_steps(Network const& network, int images,
                                                 double least_gain = 0.02);

/// What is taken where nothing is measured: predicted_steps(), or cuDNN alone where they are not known.
std::vector<Step> usual_steps(Network const& network, int images);

/// "56 56 64 3 1 1 64 0 1", the columns of cudnn_times.inc: what cudnn_us() takes for alike.
std::string kind_of(ImageSize const& input, convolution::Layer const& layer);

}  // namespace tessera::networks
