// SPDX-License-Identifier: Apache-2.0
// tessera-network: the part of `tessera run resnet-50` that needs a GPU.
#include <cstdio>
#include <exception>

#include "arguments.hpp"
#include "files/partial_files.hpp"
#include "src/gpu/hopper.hpp"

namespace {

constexpr int answer_is_no = 1, usage = 2, environment = 3, defect = 4;

int fail(tessera::Diagnostics const& reasons) {
  std::fprintf(stderr, "%s\n", tessera::to_text(reasons).c_str());
  auto const& code = reasons.front().code;
  if (code == "E0908") return usage;
  return code == "E0901" || code == "E0902" || code == "E0511" ? environment : answer_is_no;
}

}  // namespace

int main(int count, char** words) {
  tessera::files::remove_partial_files_on_signals();
  try {
    auto const run = tessera::command::read_network_run({words + 1, words + count});
    if (!run) return fail(run.error());
    if (auto const why = tessera::gpu::why_no_hopper(); !why.empty()) {
      std::fputs(tessera::gpu::refusal_text(why).c_str(), stderr);
      return environment;
    }
    auto const right = tessera::command::run_network(*run);
    if (!right) return fail(right.error());
    return *right ? 0 : answer_is_no;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "error: a defect of tessera-network: %s\n", error.what());
    return defect;
  }
}
