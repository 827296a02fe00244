// SPDX-License-Identifier: Apache-2.0
// Prompts as lists of token ids, on the command line or in files.
#pragma once

#include <string>
#include <vector>

#include "tessera/diagnostic.hpp"

namespace tessera::cli {

/// Each word is one prompt, "1,2,3", or a file with one a line, whose ids stand between commas or spaces; "-"
/// is standard input. E0917 with the file's line: what is no list of whole numbers, or none at all; ids that
/// are not below `vocabulary`, of `model`. E0901.
Expected<std::vector<std::vector<int>>> read_prompts(std::vector<std::string> const& words, int vocabulary,
                                                     std::string const& model);

/// The inverse: a prompt a line.
std::string print_prompts(std::vector<std::vector<int>> const& prompts);

}  // namespace tessera::cli
