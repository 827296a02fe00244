// SPDX-License-Identifier: Apache-2.0
// Text to tree. nlohmann's parser reports no positions, so it is fed through an iterator that counts lines.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>

#include "json/reader.hpp"

namespace tessera::json {
namespace {

constexpr int k_depth = 64;

/// What has been consumed so far; shared by the iterator's copies.
struct Cursor {
  int line = 1;
  bool after_newline = false;  // the last character consumed was a newline
};

class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = char const*;
  using reference = char const&;

  CountingIterator(char const* at, Cursor* cursor) : at_(at), cursor_(cursor) {}
  char const& operator*() const { return *at_; }
  CountingIterator& operator++() {
    cursor_->after_newline = *at_ == '\n';
    if (cursor_->after_newline) ++cursor_->line;
    ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    auto const before = *this;
    ++*this;
    return before;
  }
  bool operator==(CountingIterator const& other) const { return at_ == other.at_; }
  bool operator!=(CountingIterator const& other) const { return at_ != other.at_; }

 private:
  char const* at_;
  Cursor* cursor_;
};

/// Builds the tree; the first problem ends it.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(Cursor const& cursor, int depth, Node& root) : cursor_(cursor), depth_(depth), root_(root) {}

  std::string problem;
  int problem_line = 0;

  bool null() override { return add(make(Node::Kind::null, cursor_.line)); }
  bool boolean(bool value) override {
    auto node = make(Node::Kind::boolean, cursor_.line);
    node.integer = value ? 1 : 0;
    return add(std::move(node));
  }
  bool number_integer(std::int64_t value) override {
    auto node = make(Node::Kind::integer, number_line());
    node.integer = value;
    return add(std::move(node));
  }
  bool number_unsigned(std::uint64_t value) override {
    if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return number_integer(static_cast<std::int64_t>(value));
    return number_float(static_cast<double>(value), {});
  }
  bool number_float(double value, std::string const&) override {
    // 8.0 and 1e3 are whole, as in JSON's schemas; a double says so exactly up to here.
    constexpr double k_largest_whole = 0x1p53;
    if (std::abs(value) <= k_largest_whole && std::trunc(value) == value)
      return number_integer(static_cast<std::int64_t>(value));
    auto node = make(Node::Kind::number, number_line());
    node.number = value;
    return add(std::move(node));
  }
  bool string(std::string& value) override {
    auto node = make(Node::Kind::string, cursor_.line);
    node.content = std::make_unique<Node::Content>();
    node.content->text = std::move(value);
    return add(std::move(node));
  }
  bool binary(nlohmann::json::binary_t&) override { return fail("binary value"); }
  bool start_object(std::size_t) override { return open(Node::Kind::object); }
  bool start_array(std::size_t) override { return open(Node::Kind::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    auto& names = open_.back()->content->names;
    // Linear, as objects are small; a file of one huge object must not cost its square.
    if (names.size() >= k_most_members) return fail(fmt::format("more than {} members", k_most_members));
    for (auto const& other : names)
      if (other == name) return fail(fmt::format("member \"{}\" is given twice", name.substr(0, 60)));
    bytes_ += 2 * sizeof(std::string) + name.size();
    names.push_back(std::move(name));
    return true;
  }
  bool parse_error(std::size_t, std::string const&, nlohmann::detail::exception const& error) override {
    // "[json.exception.parse_error.101] parse error at line 2, column 3: syntax error while ..."
    std::string text = error.what();
    if (auto const bracket = text.find("] "); bracket != std::string::npos) text.erase(0, bracket + 2);
    if (text.rfind("parse error", 0) == 0)
      if (auto const colon = text.find(": "); colon != std::string::npos) text.erase(0, colon + 2);
    problem = "this is not JSON: " + text.substr(0, 200);
    problem_line = number_line();
    return false;
  }

 private:
  static constexpr std::size_t k_most_members = 4096;
  static constexpr std::size_t k_most_bytes = std::size_t{256} << 20;

  static Node make(Node::Kind kind, int line) {
    Node node;
    node.kind = kind;
    node.line = line;
    return node;
  }
  // A number ends at the character after it, which has been consumed by then.
  int number_line() const { return cursor_.line - (cursor_.after_newline ? 1 : 0); }

  bool fail(std::string text) {
    problem = std::move(text);
    problem_line = cursor_.line;
    return false;
  }
  bool add(Node node) {
    // Twice a node: the vector that it goes into grows by doubling.
    bytes_ += 2 * sizeof(Node) + (node.content ? sizeof(Node::Content) + node.content->text.size() : 0);
    if (bytes_ > k_most_bytes)
      return fail(fmt::format("its values would take more than {} MiB of memory", k_most_bytes >> 20));
    if (open_.empty())
      root_ = std::move(node);
    else
      open_.back()->content->items.push_back(std::move(node));
    return true;
  }
  bool open(Node::Kind kind) {
    if (static_cast<int>(open_.size()) >= depth_)
      return fail(fmt::format("nested deeper than {} levels", depth_));
    auto node = make(kind, cursor_.line);
    node.content = std::make_unique<Node::Content>();
    if (!add(std::move(node))) return false;
    // The parent's vector does not grow while this child is open, so the pointer stays good.
    open_.push_back(open_.empty() ? &root_ : &open_.back()->content->items.back());
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Cursor const& cursor_;
  int depth_;
  Node& root_;
  std::size_t bytes_ = 0;  // that the tree takes, roughly
  std::vector<Node*> open_;
};

}  // namespace

Expected<Document> Document::parse(std::string_view text, std::string file, Codes codes) {
  Document document;
  document.file_ = std::move(file);
  document.codes_ = codes;
  // The parser takes it for the end of the text.
  if (auto const nul = text.find('\0'); nul != std::string_view::npos) {
    auto const before = text.substr(0, nul);
    auto const line = 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n'));
    return refuse(
        {codes.syntax, Severity::error, {document.file_, line}, "this is not JSON: a NUL byte", {}, {}});
  }
  Cursor cursor;
  TreeBuilder builder(cursor, k_depth, document.root_);
  CountingIterator const begin(text.data(), &cursor);
  CountingIterator const end(text.data() + text.size(), &cursor);
  if (nlohmann::json::sax_parse(begin, end, &builder)) return document;
  return refuse(
      {codes.syntax, Severity::error, {document.file_, builder.problem_line}, builder.problem, {}, {}});
}

}  // namespace tessera::json
