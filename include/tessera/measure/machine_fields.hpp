// SPDX-License-Identifier: Apache-2.0
// The numbers of a machine profile by name. Reading and printing profiles, their schema, sweeps and
// comparisons follow these tables: a new number is a member, a row, and a value in machines/*.json.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "../diagnostic.hpp"
#include "machine_profile.hpp"

namespace tessera {

/// One number (or yes and no) of MachineProfile or OverlapHardware.
template <class Owner>
struct MachineField {
  char const* name;  ///< in JSON
  char const* unit;
  std::variant<int Owner::*, double Owner::*, bool Owner::*> member;
  double least;
  double most;
  bool optional = false;  ///< left out where the machine has no such thing: the member keeps its default
};

/// In the order in which profiles are printed.
std::span<MachineField<MachineProfile> const> machine_fields();
std::span<MachineField<OverlapHardware> const> overlap_fields();

enum class NumberKind : std::uint8_t { whole, real, flag };

/// A row of either table, for those who do not care in which struct the number is.
struct MachineNumber {
  std::string name;  ///< "l2_mib"; those of OverlapHardware with "overlap." before their names
  std::string unit;
  NumberKind kind = NumberKind::real;
  double least = 0, most = 0;

  bool operator==(MachineNumber const&) const = default;
};

/// Both tables, one after the other.
std::vector<MachineNumber> machine_numbers();

/// The value by that name; a flag is 0 or 1. None if there is no such number, or the profile has no overlap
/// hardware.
std::optional<double> machine_number(MachineProfile const& machine, std::string_view name);

/// False where machine_number() is none. Precondition: in the number's range, and whole where it is whole.
bool set_machine_number(MachineProfile& machine, std::string_view name, double value);

/// E0606 for what no single range can say, such as an L2 slower than memory. No file and line.
Diagnostics contradictions(MachineProfile const& machine);

}  // namespace tessera
