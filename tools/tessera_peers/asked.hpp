// SPDX-License-Identifier: Apache-2.0
// What tessera-peers is asked for, word by word.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "kernels/gemm_collectives/problem.hpp"
#include "tools/companion_words.hpp"

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
    "reach|apart <cache, empty: the usual one, -: none> [<file.json>]";

/// E0908 where the words are not those of k_usage.
inline Expected<Asked> asked_by(std::vector<std::string> const& words) {
  auto const usage = [] { return wrong_words(k_usage, "tessera run gemm-all-reduce"); };
  if (words.size() < 10 || words.size() > 11) return usage();
  Asked asked;
  if (words[0] == "tune")
    asked.verb = Verb::tune;
  else if (words[0] == "bench")
    asked.verb = Verb::bench;
  else if (words[0] != "run")
    return usage();
  auto const collective = gemm_collectives::collective_named(words[1]);
  if (!collective) return usage();
  auto& problem = asked.problem;
  problem.collective = *collective;
  problem.type = words[5] == "fp16" ? gpu::ElementType::fp16 : gpu::ElementType::bf16;
  for (auto const& [word, number] :
       {std::pair{2, &problem.rows}, {3, &problem.columns}, {4, &problem.depth}, {6, &problem.ranks}})
    if (auto const& text = words[static_cast<std::size_t>(word)]; !read_number(text, *number))
      return wrong_words("\"" + text + "\" is no whole number", "tessera run gemm-all-reduce");
  asked.quick = words[7] == "quick";
  asked.apart = words[8] == "apart";
  asked.keeps = asked.verb != Verb::run && words[9] != "-";
  if (words[9] != "-") asked.cache = words[9];
  if (words.size() > 10) asked.file = words[10];
  return asked;
}

}  // namespace tessera::command
