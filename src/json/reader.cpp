// SPDX-License-Identifier: Apache-2.0
#include "json/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "diagnostic/nearest.hpp"

namespace tessera::json {
namespace {

constexpr std::size_t k_most_findings = 20;

std::string shown(std::string const& text) {
  constexpr std::size_t k_longest = 60;
  return text.size() <= k_longest ? text : text.substr(0, k_longest) + "...";
}

/// Six digits, or as many as tell it from others: 1.0000001 is not 1.
std::string number_text(double value) {
  auto const brief = fmt::format("{:g}", value);
  double read = 0;
  std::from_chars(brief.data(), brief.data() + brief.size(), read);
  return read == value ? brief : fmt::format("{}", value);
}

std::string value_text(Node const& node) {
  switch (node.kind) {
    case Node::Kind::integer: return std::to_string(node.integer);
    case Node::Kind::number: return number_text(node.number);
    case Node::Kind::string: return '"' + shown(node.text()) + '"';
    case Node::Kind::boolean: return node.integer != 0 ? "true" : "false";
    default: return to_text(node.kind);
  }
}

std::vector<Node> const k_no_items;
std::string const k_no_text;

}  // namespace

std::string const& Node::text() const { return kind == Kind::string ? content->text : k_no_text; }

std::vector<Node> const& Node::items() const {
  return kind == Kind::array || kind == Kind::object ? content->items : k_no_items;
}

Node const* Node::find(std::string_view name) const {
  if (kind != Kind::object) return nullptr;
  for (std::size_t i = 0; i < content->names.size(); ++i)
    if (content->names[i] == name) return &content->items[i];
  return nullptr;
}

char const* to_text(Node::Kind kind) {
  switch (kind) {
    case Node::Kind::null: return "null";
    case Node::Kind::boolean: return "true or false";
    case Node::Kind::integer: return "a whole number";
    case Node::Kind::number: return "a number";
    case Node::Kind::string: return "a string";
    case Node::Kind::array: return "an array";
    case Node::Kind::object: return "an object";
  }
  return "";
}

void Document::report(Node const& where, std::string code, std::string message,
                      std::vector<std::string> notes, std::string suggestion) {
  if (findings_.size() < k_most_findings)
    findings_.push_back({std::move(code), Severity::error, at(where), std::move(message), std::move(notes),
                         std::move(suggestion)});
}

ObjectReader::ObjectReader(Document& document, Node const& node, std::string what)
    : document_(document), node_(node), what_(std::move(what)) {
  if (!node.is(Node::Kind::object))
    document_.report(
        node, document_.codes().value,
        fmt::format("{} must be an object, not {}", what_.empty() ? "this" : what_, value_text(node)));
}

std::string ObjectReader::in_what() const { return what_.empty() ? "" : " in " + what_; }

bool ObjectReader::has(std::string_view name) const { return node_.find(name) != nullptr; }

Node const* ObjectReader::find(std::string_view name) {
  known_.emplace_back(name);
  return node_.find(name);
}

Node const* ObjectReader::get(std::string_view name, Node::Kind kind, bool required) {
  auto const* member = find(name);
  if (member == nullptr) {
    if (required && node_.is(Node::Kind::object))
      document_.report(node_, document_.codes().missing, fmt::format("\"{}\" is missing{}", name, in_what()));
    return nullptr;
  }
  if (!required && document_.codes().null_is_missing && member->is(Node::Kind::null)) return nullptr;
  bool const fits = member->is(kind) || (kind == Node::Kind::number && member->is(Node::Kind::integer));
  if (fits) return member;
  // Digits beyond 64 bits have become a number with a fraction's type.
  bool const too_long =
      kind == Node::Kind::integer && member->is(Node::Kind::number) && std::abs(member->number) >= 0x1p63;
  document_.report(*member, document_.codes().value,
                   fmt::format("\"{}\"{} must be {}{}, not {}", name, in_what(), to_text(kind),
                               too_long ? " of 64 bits" : "", value_text(*member)));
  return nullptr;
}

std::string ObjectReader::string(std::string_view name) {
  auto const* member = get(name, Node::Kind::string, true);
  return member != nullptr ? member->text() : std::string();
}

std::string ObjectReader::string_or(std::string_view name, std::string fallback) {
  auto const* member = get(name, Node::Kind::string, false);
  return member != nullptr ? member->text() : fallback;
}

std::int64_t ObjectReader::integer(std::string_view name, std::int64_t least, std::int64_t most) {
  return get(name, Node::Kind::integer, true) != nullptr ? integer_or(name, least, least, most) : least;
}

std::int64_t ObjectReader::integer_or(std::string_view name, std::int64_t fallback, std::int64_t least,
                                      std::int64_t most) {
  auto const* member = get(name, Node::Kind::integer, false);
  if (member == nullptr) return fallback;
  if (member->integer >= least && member->integer <= most) return member->integer;
  auto const bounds =
      most == k_no_limit ? fmt::format("at least {}", least) : fmt::format("between {} and {}", least, most);
  document_.report(*member, document_.codes().value,
                   fmt::format("\"{}\"{} must be {}, not {}", name, in_what(), bounds, member->integer));
  return fallback;
}

double ObjectReader::number(std::string_view name, double least, double most) {
  return get(name, Node::Kind::number, true) != nullptr ? number_or(name, least, least, most) : least;
}

double ObjectReader::number_or(std::string_view name, double fallback, double least, double most) {
  auto const* member = get(name, Node::Kind::number, false);
  if (member == nullptr) return fallback;
  auto const value = member->as_double();
  if (std::isfinite(value) && value >= least && value <= most) return value;
  auto const bounds = most == std::numeric_limits<double>::max()
                          ? fmt::format("at least {:g}", least)
                          : fmt::format("between {:g} and {:g}", least, most);
  document_.report(*member, document_.codes().value,
                   fmt::format("\"{}\"{} must be {}, not {}", name, in_what(), bounds, number_text(value)));
  return fallback;
}

bool ObjectReader::boolean_or(std::string_view name, bool fallback) {
  auto const* member = get(name, Node::Kind::boolean, false);
  return member != nullptr ? member->integer != 0 : fallback;
}

std::vector<Node> const& ObjectReader::array(std::string_view name) {
  auto const* member = get(name, Node::Kind::array, true);
  return member != nullptr ? member->items() : k_no_items;
}

std::vector<Node> const& ObjectReader::array_or(std::string_view name) {
  auto const* member = get(name, Node::Kind::array, false);
  return member != nullptr ? member->items() : k_no_items;
}

Node const* ObjectReader::object(std::string_view name) { return get(name, Node::Kind::object, true); }

Node const* ObjectReader::object_or(std::string_view name) { return get(name, Node::Kind::object, false); }

int ObjectReader::word_index(std::string_view name, std::vector<std::string> const& words, bool required) {
  auto const* member = get(name, Node::Kind::string, required);
  if (member == nullptr) return -1;
  auto const found = std::find(words.begin(), words.end(), member->text());
  if (found != words.end()) return static_cast<int>(found - words.begin());
  document_.report(*member, document_.codes().value,
                   fmt::format("\"{}\"{} is not a known word: {}", name, in_what(), value_text(*member)),
                   {"known: " + list_of(words)}, did_you_mean(member->text(), words));
  return -1;
}

void ObjectReader::finish() {
  if (!node_.is(Node::Kind::object)) return;
  for (std::size_t i = 0; i < node_.content->names.size(); ++i) {
    auto const& name = node_.content->names[i];
    if (!name.empty() && (name[0] == '_' || name[0] == '$')) continue;
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    document_.report(node_.content->items[i], document_.codes().unknown,
                     fmt::format("unknown member \"{}\"{}", shown(name), in_what()), {},
                     did_you_mean(name, known_));
  }
}

void ObjectReader::report_slips(char const* code) {
  if (!node_.is(Node::Kind::object)) return;
  std::vector<std::string> missing;
  for (auto const& name : known_)
    if (!has(name)) missing.push_back(name);
  for (std::size_t i = 0; i < node_.content->names.size(); ++i) {
    auto const& name = node_.content->names[i];
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    if (auto const meant = slip_of(name, missing); !meant.empty())
      document_.report(
          node_.content->items[i], code,
          fmt::format("\"{}\" is read by nobody, and \"{}\" is missing{}", shown(name), meant, in_what()), {},
          fmt::format("did you mean \"{0}\"? If not, say \"{0}\", too", meant));
  }
}

std::int64_t integer_item(Document& document, Node const& item, std::int64_t least, std::int64_t most) {
  if (item.is(Node::Kind::integer) && item.integer >= least && item.integer <= most) return item.integer;
  document.report(
      item, document.codes().value,
      fmt::format("an item must be a whole number between {} and {}, not {}", least, most, value_text(item)));
  return least;
}

}  // namespace tessera::json
