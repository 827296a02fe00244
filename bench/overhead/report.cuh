// SPDX-License-Identifier: Apache-2.0
// Names with values and units, as a table and as JSON.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "gpu/hopper.hpp"

namespace tessera::bench {

struct Value {
  std::string name;
  double value;
  std::string unit;
};

/// Writes [{"name": ..., "value": ..., "unit": ...}, ...]; false if the file cannot be written. Names hold no
/// quotes.
inline bool write_json(std::string const& path, std::vector<Value> const& values) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return false;
  std::fprintf(file, "[\n");
  for (std::size_t i = 0; i < values.size(); ++i)
    std::fprintf(file, "  {\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}%s\n", values[i].name.c_str(),
                 values[i].value, values[i].unit.c_str(), i + 1 < values.size() ? "," : "");
  std::fprintf(file, "]\n");
  return std::fclose(file) == 0;
}

inline double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1) + 0.5)];
}
inline double median(std::vector<double> const& values) { return quantile(values, 0.5); }

/// Measures, and writes what was measured to the file, if one is named. An exit status: 3 without a GPU to
/// run on, 1 for a file that cannot be written or an exception.
template <class Measure>
int measure_and_write(std::string const& json, Measure const& measure) {
  if (auto const why = gpu::why_no_hopper(); !why.empty()) {
    std::fputs(gpu::refusal_text(why).c_str(), stderr);
    return 3;
  }
  try {
    std::vector<Value> const values = measure();
    if (json.empty() || write_json(json, values)) return 0;
    std::fprintf(stderr, "cannot write %s\n", json.c_str());
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}

/// The same as a program's main(), with `--json <file>`. Exit status 2 for another command line.
template <class Measure>
int report_main(int argc, char** argv, char const* program, Measure const& measure) {
  std::string json;
  if (argc == 3 && std::strcmp(argv[1], "--json") == 0) json = argv[2];
  if (argc == 1 || !json.empty()) return measure_and_write(json, measure);
  std::fprintf(stderr, "usage: %s [--json <file>]\n", program);
  return 2;
}

}  // namespace tessera::bench
