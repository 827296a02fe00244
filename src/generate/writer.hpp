// SPDX-License-Identifier: Apache-2.0
// Lines of a generated header.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera::generate {

class Writer {
 public:
  void line(std::string_view text);
  /// "// text", wrapped at 100 columns.
  void comment(std::string_view text);
  /// "// name       text", wrapped; the text starts in one column.
  void field(std::string_view name, std::string_view text);
  void static_assertion(std::string_view condition, std::string_view message);
  /// A type with a table() of these numbers.
  void table(std::string_view name, std::span<std::int32_t const> numbers);
  void open_namespace(std::string_view name);
  void close_namespace(std::string_view name);

  std::string const& text() const { return text_; }

 private:
  void wrapped(std::string const& first_head, std::string const& next_head, std::string_view text);

  std::string text_;
};

}  // namespace tessera::generate
