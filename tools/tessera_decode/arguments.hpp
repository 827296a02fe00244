// SPDX-License-Identifier: Apache-2.0
// What tessera-decode is asked to do. `tessera run --decode` writes this command line, and has checked what
// stands in it; a person uses that tool instead.
#pragma once

#include <cstdint>
#include <string>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "kernels/decode/layer_plan.hpp"
#include "kernels/decode/sampling.hpp"

namespace tessera::command {

struct DecodeRun {
  std::string config, name;  ///< config.json, and what the model is called
  std::string weights;       ///< a folder; empty: random ones
  std::string prompts;       ///< a file with a prompt a line: 1,2,3
  int new_tokens = 1, capacity = 1;
  int page_size = 0;  ///< positions of a page of the cache; 0: it has none
  int gpus = 1;       ///< one GPU's share of so many, of random weights
  std::uint64_t seed = 1;
  decode::StepBy steps = decode::StepBy::fastest;
  decode::Sampling sampling;
  std::vector<int> stop_tokens;
  std::string output;            ///< a file to write
  std::string timeline, logits;  ///< more of them, unless empty
  std::string commit, command;   ///< for the record
  bool silent = false;

  /// Positions of a sequence that the cache holds: whole pages.
  int held() const { return page_size > 0 ? (capacity + page_size - 1) / page_size * page_size : capacity; }
};

/// E0908.
Expected<DecodeRun> read_decode_run(std::vector<std::string> const& words);

/// Runs it, and writes what was found. E0566, E0520, E0901, E0902, and as Decoder::make().
Expected<void> run_decode(DecodeRun const& run);

}  // namespace tessera::command
