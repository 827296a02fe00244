// SPDX-License-Identifier: Apache-2.0
#include "generate/writer.hpp"

#include <fmt/format.h>

#include "generate/names.hpp"

namespace tessera::generate {
namespace {

constexpr std::size_t k_columns = 100;

}  // namespace

void Writer::line(std::string_view text) {
  text_ += text;
  text_ += '\n';
}

void Writer::comment(std::string_view text) { wrapped("// ", "// ", text); }

void Writer::field(std::string_view name, std::string_view text) {
  wrapped(fmt::format("// {:<11}", name), fmt::format("// {:<11}", ""), text);
}

void Writer::wrapped(std::string const& first_head, std::string const& next_head, std::string_view text) {
  auto const clean = as_comment(text);
  std::string_view rest = clean;
  bool first = true;
  do {
    auto const& head = first ? first_head : next_head;
    std::size_t const room = k_columns - head.size();
    std::size_t length = rest.size();
    if (length > room) {
      length = rest.rfind(' ', room);
      if (length == std::string_view::npos || length == 0) length = std::min(rest.find(' '), rest.size());
    }
    auto shown = head + as_comment(rest.substr(0, length));
    while (!shown.empty() && shown.back() == ' ') shown.pop_back();
    line(shown);
    rest.remove_prefix(std::min(length + 1, rest.size()));
    first = false;
  } while (!rest.empty());
}

void Writer::static_assertion(std::string_view condition, std::string_view message) {
  line(fmt::format("static_assert({},\n              \"{}\");", condition, message));
}

void Writer::table(std::string_view name, std::span<std::int32_t const> numbers) {
  line(fmt::format("struct {} {{", name));
  line(
      fmt::format("  TESSERA_HOST_DEVICE static constexpr tessera::IntTable<{}> table() {{", numbers.size()));
  line("    return {{");
  std::string row;
  for (auto const number : numbers) {
    auto const entry = fmt::format("{},", number);
    if (row.size() + entry.size() + 7 > k_columns) {
      line("       " + row);
      row.clear();
    }
    row += " " + entry;
  }
  line("       " + row);
  line("    }};");
  line("  }");
  line("};");
}

void Writer::open_namespace(std::string_view name) {
  line("");
  line(fmt::format("namespace {} {{", name));
}

void Writer::close_namespace(std::string_view name) { line(fmt::format("}}  // namespace {}", name)); }

}  // namespace tessera::generate
