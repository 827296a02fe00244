// SPDX-License-Identifier: Apache-2.0
// What tessera-peers is asked for, word by word.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/gemm_collectives/problem.hpp"

namespace tessera::command {

enum class Verb { tune, run, bench };

struct Asked {
  Verb verb = Verb::run;
  gemm_collectives::Problem problem;
  bool quick = false, apart = false;
  std::string cache;   ///< empty: the usual file
  bool keeps = false;  ///< the fastest way goes into the cache
  std::string file;    ///< of the measurements; empty: none

  char const* type() const { return problem.type == gpu::ElementType::bf16 ? "bf16" : "fp16"; }
};

constexpr char const* k_usage =
    "usage: tessera-peers tune|run|bench <collective> <rows> <columns> <depth> <type> <GPUs> full|quick "
    "reach|apart <cache, empty: the usual one, -: none> [<file.json>]\n";

/// Nothing where the words are not those of k_usage.
inline std::optional<Asked> asked_by(std::vector<std::string> const& words) {
  if (words.size() < 10 || words.size() > 11) return std::nullopt;
  Asked asked;
  if (words[0] == "tune")
    asked.verb = Verb::tune;
  else if (words[0] == "bench")
    asked.verb = Verb::bench;
  else if (words[0] != "run")
    return std::nullopt;
  auto const collective = gemm_collectives::collective_named(words[1]);
  if (!collective) return std::nullopt;
  asked.problem = {*collective,
                   std::stoi(words[2]),
                   std::stoi(words[3]),
                   std::stoi(words[4]),
                   words[5] == "fp16" ? gpu::ElementType::fp16 : gpu::ElementType::bf16,
                   std::stoi(words[6])};
  asked.quick = words[7] == "quick";
  asked.apart = words[8] == "apart";
  asked.keeps = asked.verb != Verb::run && words[9] != "-";
  if (words[9] != "-") asked.cache = words[9];
  if (words.size() > 10) asked.file = words[10];
  return asked;
}

}  // namespace tessera::command
