// SPDX-License-Identifier: Apache-2.0
// The shipped profile of a GPU, by the name that its driver gives it.
#pragma once

#include <cctype>
#include <optional>
#include <sstream>
#include <string>
#include <tessera/measure/machine_json.hpp>
#include <utility>

namespace tessera::bench {

/// That whose name is a word of it: h100 for "NVIDIA H100 80GB HBM3".
inline std::optional<MachineProfile> named_machine_of_gpu(std::string const& gpu) {
  std::istringstream words(gpu);
  for (std::string word; words >> word;) {
    for (auto& letter : word) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    if (auto profile = machine(word)) return *profile;
  }
  return {};
}

/// The same; other Hopper GPUs have the H200's.
inline Expected<MachineProfile> machine_of_gpu(std::string const& gpu) {
  auto named = named_machine_of_gpu(gpu);
  return named ? Expected<MachineProfile>(std::move(*named)) : machine("h200");
}

}  // namespace tessera::bench
