// SPDX-License-Identifier: Apache-2.0
// The machine profile that a study's document carries.
#pragma once

#include <string>

#include "tessera/measure/machine_json.hpp"

namespace tessera::report {

/// Without what a probe measured: a study reads the profile's own values.
inline std::string study_machine(MachineProfile machine) {
  machine.probe.reset();
  std::string text = print_machine(machine);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace tessera::report
