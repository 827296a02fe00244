// SPDX-License-Identifier: Apache-2.0
// The type of weights that a Hugging Face config.json names.
#pragma once

#include <string>
#include <vector>

#include "json/reader.hpp"

namespace tessera::json {

/// A word of transformers, or of torch, as torch has it: "bfloat16" of "torch.bfloat16" and of "bf16".
std::string plain_type(std::string word);

/// What a reader can do with, and what else a user can do.
struct TypesTaken {
  std::vector<std::string> types;  ///< as torch has them
  std::string way_out;             ///< of other types and quantized weights
  std::string which;               ///< of two names that differ
};

/// The type of a config's weights; float16 where it says none. A model inside of another has its outer's.
/// E0212: what is no word. E0214: a type that is not taken, two that differ, quantized weights.
std::string weights_type(Document& document, TypesTaken const& taken);

/// Where the user has said which type is meant, whatever the config says: only E0212.
void check_type_words(Document& document);

}  // namespace tessera::json
