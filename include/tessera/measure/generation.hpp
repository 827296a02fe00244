// SPDX-License-Identifier: Apache-2.0
// What generating tokens gave and took: a measured run of a decoder as a plain value, printed and read as
// "tessera.generation/1".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "../diagnostic.hpp"
#include "probe.hpp"

namespace tessera {

struct GeneratedSequence {
  std::vector<int> tokens;  ///< the prompt's, and behind them the new ones
  int prompt = 0;           ///< how many are the prompt's

  bool operator==(GeneratedSequence const&) const = default;
};

/// Where an operator's time in a layer is, by stamps of one step: means over layers and tiles, microseconds,
/// which add up to its part of a layer.
struct OperatorTimes {
  std::string name;
  double waits = 0;  ///< from the last store of the operator before to the mean tile's first input
  double reads = 0;  ///< until all is multiplied
  double ends = 0;   ///< until it is stored
  double apart = 0;  ///< the last tile behind the mean one

  double all() const { return waits + reads + ends + apart; }
  bool operator==(OperatorTimes const&) const = default;
};

/// What an operator takes by itself where steps are a launch for each: microseconds of a layer.
struct OperatorAlone {
  std::string name;
  double us = 0;

  bool operator==(OperatorAlone const&) const = default;
};

struct Generation {
  ProbeIdentity identity;
  std::string command;
  std::string model;
  std::string weights;  ///< where they are from, and what was rounded
  int layers = 1;
  int capacity = 1;
  std::vector<GeneratedSequence> sequences;
  double prompt_us = 0;         ///< until all sequences had their first new token
  std::vector<double> step_us;  ///< of the steps behind it, each the mean of those that were timed together
  std::vector<int> steps;       ///< how many that were, beside step_us
  double step_bytes = 0;        ///< that a step in the middle reads
  double floor_us = 0;          ///< of reading as many and nothing else; 0: not measured
  std::vector<OperatorTimes> operators;  ///< of persistent launches
  std::vector<OperatorAlone> alone;      ///< of steps by launches

  bool operator==(Generation const&) const = default;
};

/// E0601, E0603 to E0605 as for machine profiles.
Expected<Generation> parse_generation(std::string_view json, std::string const& file);
std::string print_generation(Generation const& generation);

}  // namespace tessera
