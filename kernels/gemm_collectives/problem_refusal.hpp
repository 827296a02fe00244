// SPDX-License-Identifier: Apache-2.0
// Refusals of problems, without CUDA: E0581, with the problem in words.
#pragma once

#include <string>
#include <tessera/diagnostic.hpp>
#include <utility>

namespace tessera::gemm_collectives {

template <class AnyProblem>
auto refused(AnyProblem const& problem, std::string message, std::string hint) {
  Diagnostic one;
  one.code = "E0581";
  one.message = std::move(message);
  one.notes.push_back(to_string(problem));
  one.suggestion = std::move(hint);
  return refuse(std::move(one));
}

}  // namespace tessera::gemm_collectives
