// SPDX-License-Identifier: Apache-2.0
#include "record.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <tessera/report/json_text.hpp>

#include "files/partial_files.hpp"
#include "files/whole_files.hpp"

namespace tessera::bench {

std::string values_as_json(std::vector<Value> const& values) {
  JsonWriter json;
  json.begin_array();
  for (auto const& one : values)
    json.raw(fmt::format("{{\"name\": {}, \"value\": {}, \"unit\": {}}}", json_quoted(one.name),
                         json_number(with_digits(one.value, 6)), json_quoted(one.unit)));
  return json.end_array().text() + '\n';
}

bool write_file(std::string const& path, std::string const& text) {
  files::remove_partial_files_on_signals();
  auto const written = files::write_whole({{path, text}});
  if (!written) std::fprintf(stderr, "%s\n", to_text(written.error()).c_str());
  return written.has_value();
}

double with_digits(double value, int digits) {
  return std::strtod(fmt::format("{:.{}g}", value, digits).c_str(), nullptr);
}

double with_decimals(double value, int decimals) {
  return std::strtod(fmt::format("{:.{}f}", value, decimals).c_str(), nullptr);
}

}  // namespace tessera::bench
