// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "arguments.hpp"
#include "kernels/mlp/candidates.hpp"
#include "kernels/mlp/measure/arena.hpp"
#include "kernels/mlp/mlp.hpp"

namespace tessera::command {
namespace {

constexpr double allowed_error = 2e-3;

}  // namespace

int check(Arguments const& arguments) {
  mlp::Shape most = arguments.shape;
  most.tokens = arguments.tokens.back();
  mlp::MlpOptions options;
  options.cache_file = arguments.cache;
  options.only = arguments.only;
  options.use_cache = arguments.only.empty();
  auto block = mlp::Mlp::make(most, options);
  if (!block) return fail(block.error());
  if (!block->notes().empty()) std::fprintf(stderr, "%s\n", to_text(block->notes()).c_str());
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  auto const arena = mlp::Arena::make(most, stream);
  if (!arena) return fail(arena.error());
  int wrong = 0;
  for (int const tokens : arguments.tokens) {
    mlp::Shape shape = most;
    shape.tokens = tokens;
    auto const name = block->choice(tokens);
    if (!name) return fail(name.error());
    auto const candidate = mlp::find_candidate(shape, *name);
    if (!candidate) return fail(candidate.error());
    if (auto const started = (*arena)->start(tokens); !started) return fail(started.error());
    double const error = (*arena)->verify(*candidate);
    bool const right = error <= allowed_error;
    wrong += right ? 0 : 1;
    std::printf("%-14s %5d tokens: relative error %.2e %s, %s\n", arguments.name.c_str(), tokens, error,
                right ? "right" : "WRONG", name->c_str());
  }
  return wrong == 0 ? ok : answer_is_no;
}

}  // namespace tessera::command
