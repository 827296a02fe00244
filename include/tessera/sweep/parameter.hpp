// SPDX-License-Identifier: Apache-2.0
// What a simulation may be asked about: the numbers and words of its machine, its kernel and its work, by
// name.
#pragma once

#include <string>
#include <vector>

#include "../diagnostic.hpp"
#include "../measure/machine_fields.hpp"

namespace tessera {

struct Parameter {
  enum class Kind : std::uint8_t { whole, real, flag, word };

  std::string name;
  std::string unit;
  Kind kind = Kind::real;
  double least = 0, most = 0;      ///< of whole and real ones
  std::vector<std::string> words;  ///< of flags and words; empty: any word
  bool read = true;                ///< false: the simulation does not look at it

  bool operator==(Parameter const&) const = default;
};

Parameter whole_parameter(std::string name, std::string unit, double least, double most);
Parameter word_parameter(std::string name, std::vector<std::string> words);

/// One for each number of machine profiles.
std::vector<Parameter> machine_parameters();

/// A parameter's value as text: numbers as value_text() prints them, flags as "true" and "false".
struct SweepSetting {
  std::string name;
  std::string value;

  bool operator==(SweepSetting const&) const = default;
};

/// The shortest text that reads back as this number; "50", not "50.0".
std::string number_text(double value);

/// A number that is all of the text, or none.
std::optional<double> number_of(std::string_view text);

/// E0920 with what was probably meant.
Expected<Parameter> parameter_by_name(std::vector<Parameter> const& parameters, std::string const& name);

/// The value in the one way in which it is written. E0921 if the parameter cannot have it.
Expected<std::string> value_text(Parameter const& parameter, std::string const& text);

/// The machine's value of that name as text; empty if it has none.
std::string machine_value(MachineProfile const& machine, std::string const& name);

/// Does nothing and says false for names that are not the machine's. Precondition: a value_text().
bool change_machine(MachineProfile& machine, SweepSetting const& setting);

}  // namespace tessera
