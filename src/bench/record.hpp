// SPDX-License-Identifier: Apache-2.0
// What benchmarks write into a record: values with names and units, and numbers with as many digits as a
// measurement has. Other members are written with JsonWriter (tessera/report/json_text.hpp).
#pragma once

#include <string>
#include <vector>

namespace tessera::bench {

struct Value {
  std::string name;
  double value = 0;
  std::string unit;
};

/// [{"name": ..., "value": ..., "unit": ...}, ...], a line each; values with six digits.
std::string values_as_json(std::vector<Value> const& values);

/// The file is whole, or as it was; a signal that ends the program comes before or after that. False, and the
/// reason on standard error, if it cannot be written.
bool write_file(std::string const& path, std::string const& text);

/// The nearest number with so many digits, or with so many behind the point.
double with_digits(double value, int digits);
double with_decimals(double value, int decimals);

}  // namespace tessera::bench
