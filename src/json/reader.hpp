// SPDX-License-Identifier: Apache-2.0
// Reads JSON text into a tree that knows the line of every value, and reads members of it by name with
// type and range checks. Mistakes are collected; nothing throws.
//
//   auto document = Document::parse(text, file, k_codes);
//   if (!document) return tl::make_unexpected(document.error());
//   ObjectReader root(*document, document->root());
//   auto const name = root.string("name");
//   auto const splits = root.integer_or("splits", 1, 1, 1024);
//   for (auto const& item : root.array("stages")) { ObjectReader stage(*document, item); ...; stage.finish();
//   } root.finish();                                       // unknown members if (document->failed()) return
//   document->refusal();
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/diagnostic.hpp"

namespace tessera::json {

/// One JSON value. 24 bytes, so that a plan's long tables stay small.
struct Node {
  enum class Kind : std::uint8_t { null, boolean, integer, number, string, array, object };
  struct Content {
    std::string text;                ///< string
    std::vector<std::string> names;  ///< object, beside items
    std::vector<Node> items;         ///< array, object
  };

  Kind kind = Kind::null;
  int line = 0;
  union {
    std::int64_t integer = 0;  ///< integer, boolean (0 or 1)
    double number;             ///< number; an integer beyond 64 bits becomes one
  };
  std::unique_ptr<Content> content;

  bool is(Kind k) const { return kind == k; }
  double as_double() const { return kind == Kind::integer ? static_cast<double>(integer) : number; }
  std::string const& text() const;                ///< empty unless a string
  std::vector<Node> const& items() const;         ///< empty unless an array or object
  Node const* find(std::string_view name) const;  ///< member of an object, or null
};

/// "a string", "an object", ...
char const* to_text(Node::Kind kind);

/// The codes under which one kind of file reports the reader's findings.
struct Codes {
  char const* syntax;   ///< not JSON; also nesting, repeated members, numbers beyond doubles
  char const* missing;  ///< a required member is not there
  char const* value;    ///< wrong type, out of range, not one of the choices
  char const* unknown;  ///< a member that nobody reads
  /// An optional member that is null counts as missing. Other people's files write it so (config.json);
  /// in Tessera's own a null is a mistake.
  bool null_is_missing = false;
};

/// A parsed file and the mistakes found in it so far.
class Document {
 public:
  /// Nesting deeper than 64 levels, more than 4096 members in one object, and values that take more than
  /// 256 MiB in all (some 380 000 rows of a timeline) are refused.
  static Expected<Document> parse(std::string_view text, std::string file, Codes codes);

  Node const& root() const { return root_; }
  std::string const& file() const { return file_; }
  Codes const& codes() const { return codes_; }
  SourceLine at(Node const& node) const { return {file_, node.line}; }

  /// Adds a finding at a node's line. At most 20 are kept, so that a hostile file gives a readable answer.
  void report(Node const& where, std::string code, std::string message, std::vector<std::string> notes = {},
              std::string suggestion = {});
  bool failed() const { return !findings_.empty(); }
  tl::unexpected<Diagnostics> refusal() const { return tl::make_unexpected(findings_); }

 private:
  Node root_;
  std::string file_;
  Codes codes_{};
  Diagnostics findings_;
};

/// Reads one object's members. Each getter notes the name as known; finish() reports the others, except
/// names that begin with '_' or '$' (comments, schema references). A getter that reports returns the
/// fallback, 0, "" or an empty list, so that reading goes on and finds the next mistake. A null is of no type
/// that a getter takes (but see Codes::null_is_missing).
class ObjectReader {
 public:
  static constexpr std::int64_t k_no_limit = std::numeric_limits<std::int64_t>::max();

  /// `what` names the object in messages ("stage \"gemm1\""); empty: "the file" or the line speaks.
  ObjectReader(Document& document, Node const& node, std::string what = {});

  bool has(std::string_view name) const;
  Node const* find(std::string_view name);  ///< notes the name; null if missing
  Node const& node() const { return node_; }
  void rename(std::string what) { what_ = std::move(what); }

  std::string string(std::string_view name);
  std::string string_or(std::string_view name, std::string fallback);
  std::int64_t integer(std::string_view name, std::int64_t least, std::int64_t most = k_no_limit);
  std::int64_t integer_or(std::string_view name, std::int64_t fallback, std::int64_t least,
                          std::int64_t most = k_no_limit);
  double number(std::string_view name, double least, double most = std::numeric_limits<double>::max());
  double number_or(std::string_view name, double fallback, double least,
                   double most = std::numeric_limits<double>::max());
  bool boolean_or(std::string_view name, bool fallback);
  std::vector<Node> const& array(std::string_view name);     ///< required
  std::vector<Node> const& array_or(std::string_view name);  ///< empty if missing
  Node const* object(std::string_view name);                 ///< required; null after a report
  Node const* object_or(std::string_view name);              ///< null if missing

  /// One of a few words. `words` and `values` run in parallel.
  template <class T>
  T choice_or(std::string_view name, T fallback, std::vector<std::string> const& words,
              std::vector<T> const& values) {
    auto const index = word_index(name, words, false);
    return index < 0 ? fallback : values[static_cast<std::size_t>(index)];
  }
  template <class T>
  T choice(std::string_view name, std::vector<std::string> const& words, std::vector<T> const& values) {
    auto const index = word_index(name, words, true);
    return index < 0 ? values.front() : values[static_cast<std::size_t>(index)];
  }

  /// Reports members that no getter asked for. Call last.
  void finish();
  /// For other people's files, whose members nobody knows all: reports those that are a slip of a name that a
  /// getter asked for and that is missing, with this code. Call last.
  void report_slips(char const* code);

 private:
  Node const* get(std::string_view name, Node::Kind kind, bool required);
  int word_index(std::string_view name, std::vector<std::string> const& words, bool required);
  std::string in_what() const;

  Document& document_;
  Node const& node_;
  std::string what_;
  std::vector<std::string> known_;
};

/// An array's item as a checked integer; reports and returns `least` otherwise.
std::int64_t integer_item(Document& document, Node const& item, std::int64_t least, std::int64_t most);

}  // namespace tessera::json
