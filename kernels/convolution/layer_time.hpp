// SPDX-License-Identifier: Apache-2.0
// How long a layer takes as a launch of its own behind another one, without a GPU.
#pragma once

#include "kernels/convolution/stage.hpp"

namespace tessera::convolution {

/// Of an SM, cycles at 1.755 GHz. Fitted to the cuts in results/h100/convolution_layers.json but for those of
/// layers that read 28x28 pixels, which were not looked at: tests/convolution/layer_time_test.cpp makes the
/// fit again and says how far it is off. docs/design/notes-convolution.md has what is not in it.
struct LayerCosts {
  double boundary = 860;           ///< complete -> the next launch goes on, and its first pixels are there
  double round = 1846;             ///< blocks that are there at once, whatever is in them
  double turn = 667;               ///< of a round behind another one
  double late = 341;               ///< a launch whose blocks find no room beside those of the one before
  double late_cluster = 2333;      ///< the same, of clusters, which need SMs that lie together
  double slot = 307.5;             ///< of filters, by warps
  double wide_step = 39;           ///< 16 channels of a tap, by warpgroups
  double wide_column = 0.301;      ///< of one, a column of each warpgroup
  double wide_beside = 0.311;      ///< the same, of another block on the SM
  double matrices = 5.01;          ///< four matrices from shared memory to registers, by warps
  double beside = 0.559;           ///< part of them that another block on the SM pays
  double block_beside = 1485;      ///< another block on the SM
  double patch_wait = 1050;        ///< pixels asked for -> there, where a ring holds less than all
  double bytes_per_cycle = 57.8;   ///< from the L2
  double column = 44.2;            ///< 128 sums that are turned and stored, those of no pixel too
  double pixel = 11.3;             ///< 128 results
  double residual = 19.9;          ///< 128 results that something is added to
  double exchange = 1613;          ///< through distributed shared memory
  double sent = 0.114;             ///< a byte of sums, through the cluster
  double met = 0.0521;             ///< through the block's own memory
  double activation_bytes = 3406;  ///< a cycle, of the whole GPU: input, output and residual
};

/// `adds`: a residual. Precondition: it fits (memory_of()).
double layer_cycles(ConvStage const& stage, bool adds, int sms, LayerCosts const& costs = {});

/// The same in microseconds.
double layer_us(ConvStage const& stage, bool adds, int sms, LayerCosts const& costs = {});

/// Behind something else than such a launch it cannot start early, and takes so much longer: results/h100/
/// networks_layers.json, VGG-19, whose chains of launches begin behind each pooling.
constexpr double k_layer_begins_us = 1.15;

}  // namespace tessera::convolution
