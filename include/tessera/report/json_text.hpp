// SPDX-License-Identifier: Apache-2.0
// Writes JSON piece by piece: for traces and reports that are only ever written.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Text in quotes, escaped. Bytes that are no valid UTF-8 become U+FFFD.
std::string json_quoted(std::string_view text);

/// A number as JSON: shortest text that reads back equal; not-a-number and infinities become null.
std::string json_number(double value);

/// Commas and nesting for the caller. Objects and arrays are written on one line, except the outermost
/// two levels. Precondition: begin/end are balanced, key() stands before each value of an object.
class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text) { return raw(json_quoted(text)); }
  JsonWriter& value(char const* text) { return raw(json_quoted(text)); }
  JsonWriter& value(bool flag) { return raw(flag ? "true" : "false"); }
  JsonWriter& value(double number) { return raw(json_number(number)); }
  JsonWriter& value(std::integral auto number) { return raw(std::to_string(number)); }
  JsonWriter& raw(std::string_view json);  ///< a value that is JSON already

  template <class T>
  JsonWriter& member(std::string_view name, T const& content) {
    return key(name).value(content);
  }

  std::string const& text() const { return text_; }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();

  std::string text_;
  std::vector<bool> has_items_;
  bool after_key_ = false;
};

}  // namespace tessera
