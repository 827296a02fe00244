// SPDX-License-Identifier: Apache-2.0
#include "json/json_text.hpp"

#include <cstddef>
#include <nlohmann/json.hpp>

namespace tessera::json {
namespace {

using Json = nlohmann::ordered_json;

std::string scalar(Json const& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// `value` on one line, or "" as soon as it needs more than `room` characters.
bool one_line(Json const& value, std::size_t room, std::string& out) {
  if (!value.is_structured() || value.empty()) {
    out += scalar(value);
    return out.size() <= room;
  }
  out += value.is_object() ? '{' : '[';
  bool first = true;
  for (auto const& [name, item] : value.items()) {
    if (!first) out += ", ";
    first = false;
    if (value.is_object()) out += scalar(name) + ": ";
    if (!one_line(item, room, out) || out.size() > room) return false;
  }
  out += value.is_object() ? '}' : ']';
  return out.size() <= room;
}

void print(Json const& value, std::size_t indent, std::size_t column, std::size_t width, std::string& out) {
  std::string line;
  if (one_line(value, width > column ? width - column : 1, line) || !value.is_structured()) {
    out += line;
    return;
  }
  bool const object = value.is_object();
  std::string const pad(indent + 2, ' ');
  out += object ? "{\n" : "[\n";
  // A long table of numbers is wrapped like prose.
  bool const wrapped = !object && !value.front().is_structured();
  std::size_t used = 0;
  bool first = true;
  for (auto const& [name, item] : value.items()) {
    std::string text;
    if (object) text += scalar(name) + ": ";
    print(item, indent + 2, indent + 2 + text.size(), width, text);
    if (first) {
      out += pad;
      used = pad.size();
    } else if (wrapped && used + text.size() + 3 <= width) {
      out += ", ";
      used += 2;
    } else {
      out += ",\n" + pad;
      used = pad.size();
    }
    first = false;
    out += text;
    used += text.size();
  }
  out += '\n' + std::string(indent, ' ') + (object ? '}' : ']');
}

}  // namespace

std::string pretty(Json const& value, std::size_t width) {
  std::string out;
  print(value, 0, 0, width, out);
  return out + '\n';
}

}  // namespace tessera::json
