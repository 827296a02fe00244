// SPDX-License-Identifier: Apache-2.0
// A model's block as the programs that launch kernels are told of it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "load.hpp"

namespace tessera::cli {

/// The model, --block, --tokens, --tp and --dtype.
void add_gpu_options(CLI::App& command, WorkloadOptions& options);

/// The numbers of tokens that are taken where none are given.
char const* usual_tokens();

/// "<verb> --name llama-65b --tokens 1,16 --model 8192 ...". Unset tokens are the usual ones, an unset type
/// is bf16. E0906 for what has no kernels.
Expected<std::vector<std::string>> gpu_words(std::string const& verb, WorkloadOptions options);

}  // namespace tessera::cli
