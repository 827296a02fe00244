// SPDX-License-Identifier: Apache-2.0
// Files of machines/, workloads/, tunings/ and docs/diagnostics/, built in, so that an installed tool needs
// no data folder.
#pragma once

#include <span>
#include <string_view>

namespace tessera {

struct ShippedFile {
  std::string_view name;  ///< without folder and extension: "h200", "llama-65b", "E0103"
  std::string_view text;
};

std::span<ShippedFile const> shipped_machines();
std::span<ShippedFile const> shipped_workloads();
std::span<ShippedFile const> shipped_tuning_files();
std::span<ShippedFile const> shipped_diagnostics();

}  // namespace tessera
