// SPDX-License-Identifier: Apache-2.0
// Words that proofs and refusals share.
#pragma once

#include <cstdint>
#include <string>

#include "progress_waits.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::progress {

Diagnostic refusal(char const* code, SourceLine where, std::string message, std::string suggestion);

/// "1 block", "12 blocks".
std::string count_of(std::int64_t count, char const* what);

/// "gemm1(3, 2) split 1".
std::string block_name(Plan const& plan, Block block);

}  // namespace tessera::progress
