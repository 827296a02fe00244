// SPDX-License-Identifier: Apache-2.0
// What programs beside the command line have around their work: answers, refusals, the GPU that they need.
#pragma once

#include <cstdio>
#include <exception>
#include <string>
#include <tessera/diagnostic.hpp>

#include "files/partial_files.hpp"
#include "src/gpu/hopper.hpp"
#include "tools/companion_words.hpp"

namespace tessera::command {

/// Exit codes, the command line's own.
constexpr int k_answer_is_no = 1, k_usage = 2, k_environment = 3, k_defect = 4;

inline int fail(Diagnostics const& reasons) {
  std::fprintf(stderr, "%s\n", to_text(reasons).c_str());
  auto const& code = reasons.front().code;
  if (code == "E0908") return k_usage;
  bool const lacks = code == "E0901" || code == "E0902" || code == "E0511" || code == "E0533";
  return lacks ? k_environment : k_answer_is_no;
}

/// `read` makes a run of the words, `run` an exit code of it, on a GPU that is there.
template <class Read, class Run>
int companion_main(char const* program, int count, char** words, Read const& read, Run const& run) {
  files::remove_partial_files_on_signals();
  try {
    auto const asked = read({words + 1, words + count});
    if (!asked) return fail(asked.error());
    if (auto const why = gpu::why_no_hopper(); !why.empty()) {
      std::fputs(gpu::refusal_text(why).c_str(), stderr);
      return k_environment;
    }
    Expected<int> const answer = run(*asked);
    return answer ? *answer : fail(answer.error());
  } catch (std::exception const& error) {
    std::fprintf(stderr, "error: a defect of %s: %s\n", program, error.what());
    return k_defect;
  }
}

}  // namespace tessera::command
