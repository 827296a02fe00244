// SPDX-License-Identifier: Apache-2.0
// run --decode: a model's tokens. Everything that can be known without a GPU is refused here; the tokens are
// tessera-decode's.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu_files.hpp"
#include "session.hpp"

namespace tessera::cli {

struct DecodeArguments {
  bool decode = false;
  std::vector<std::string> prompts;
  std::optional<int> new_tokens;
  std::optional<std::string> weights;
  std::optional<int> capacity, page_size;
  std::optional<std::string> steps;  ///< decode::StepBy
  std::optional<std::uint64_t> seed;
  std::optional<double> temperature, top_p;
  std::optional<int> top_k;
  std::vector<int> stop_ids;
  std::string output, logits, commit;
  bool predict = false;
};

void add_decode_options(CLI::App& command, DecodeArguments& arguments);

/// E0906 for each of these that is given where no tokens are generated. `way_out` stands before leaving it
/// out.
Diagnostics unused_decode_options(DecodeArguments const& arguments, std::string const& way_out);

/// `machine`: the profile whose memory counts; empty: the H200's.
int run_decode(Session const& session, GpuArguments const& gpu, DecodeArguments const& arguments,
               std::string const& machine);

}  // namespace tessera::cli
