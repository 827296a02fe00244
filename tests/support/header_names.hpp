// SPDX-License-Identifier: Apache-2.0
// The names of a generated header, by a lexer of the little C++ that such headers use: whether each is an
// identifier, declared once in its scope, and whether each a::b means what is declared there.
#pragma once

#include <array>
#include <cctype>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::support {

/// Identifiers, numbers, "::", "==" and single characters; no comments, strings, or lines of the
/// preprocessor.
inline std::vector<std::string> words_of_header(std::string_view text) {
  std::vector<std::string> words;
  auto const is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t i = 0; i < text.size();) {
    auto const two = text.substr(i, 2);
    if (two == "//" || text[i] == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i) i += text[i] == '\\';
      if (i >= text.size() || text[i] == '\n') words.emplace_back("\"");  // a string without an end
      ++i;
    } else if (is_word(text[i])) {
      auto const from = i;
      while (i < text.size() && is_word(text[i])) ++i;
      words.emplace_back(text.substr(from, i - from));
    } else {
      auto const length = two == "::" || two == "==" ? 2u : 1u;
      if (std::isspace(static_cast<unsigned char>(text[i])) == 0) words.emplace_back(text.substr(i, length));
      i += length;
    }
  }
  return words;
}

class HeaderNames {
 public:
  /// The first thing that is wrong with the header's names; empty: nothing.
  static std::string problem_of(std::string_view header) {
    HeaderNames names(words_of_header(header));
    names.read();
    return names.problem_;
  }

 private:
  struct Scope {
    Scope* outer = nullptr;
    std::map<std::string, std::unique_ptr<Scope>> names;  ///< null: nothing can be inside
    std::string own;                                      ///< a struct's name; its members have others
    bool is_namespace = false;
  };

  explicit HeaderNames(std::vector<std::string> words) : words_(std::move(words)) {}

  std::string const& at(std::size_t i) const {
    static std::string const none;
    return i < words_.size() ? words_[i] : none;
  }
  static bool is_name(std::string const& word) {
    return !word.empty() && (std::isalpha(static_cast<unsigned char>(word[0])) != 0 || word[0] == '_');
  }
  static bool is_keyword(std::string const& word) {
    static std::set<std::string> const keywords = {
        "alignas",     "alignof",   "and",       "and_eq",    "asm",      "auto",         "bitand",
        "bitor",       "bool",      "break",     "case",      "catch",    "char",         "char16_t",
        "char32_t",    "char8_t",   "class",     "compl",     "concept",  "const",        "const_cast",
        "consteval",   "constexpr", "constinit", "continue",  "co_await", "co_return",    "co_yield",
        "decltype",    "default",   "delete",    "do",        "double",   "dynamic_cast", "else",
        "enum",        "explicit",  "export",    "extern",    "false",    "float",        "for",
        "friend",      "goto",      "if",        "inline",    "int",      "long",         "mutable",
        "namespace",   "new",       "noexcept",  "not",       "not_eq",   "nullptr",      "operator",
        "or",          "or_eq",     "private",   "protected", "public",   "register",     "reinterpret_cast",
        "requires",    "return",    "short",     "signed",    "sizeof",   "static",       "static_assert",
        "static_cast", "struct",    "switch",    "template",  "this",     "thread_local", "throw",
        "true",        "try",       "typedef",   "typeid",    "typename", "union",        "unsigned",
        "using",       "virtual",   "void",      "volatile",  "wchar_t",  "while",        "xor",
        "xor_eq"};
    return keywords.count(word) > 0;
  }
  void fail(std::string const& what) {
    if (problem_.empty()) problem_ = what;
  }

  void check_reserved(std::string const& name) {
    if (name.find("__") != std::string::npos || name[0] == '_') fail("\"" + name + "\" is reserved");
  }

  Scope* declare(std::string const& name, bool with_scope, bool is_namespace = false) {
    check_reserved(name);
    if (!is_name(name) || is_keyword(name)) fail("\"" + name + "\" is no identifier");
    if (name == "tessera" || name == "TESSERA_HOST_DEVICE" || (scope_ == &global_ && name == "std"))
      fail("\"" + name + "\" is taken");
    if (name == scope_->own) fail("member \"" + name + "\" of a struct of that name");
    auto const known = scope_->names.find(name);
    if (known != scope_->names.end()) {
      if (is_namespace && known->second && known->second->is_namespace) return known->second.get();
      fail("\"" + name + "\" is declared twice");
    }
    auto& place = scope_->names[name];
    if (!with_scope) return nullptr;
    place = std::make_unique<Scope>();
    place->outer = scope_;
    place->is_namespace = is_namespace;
    if (!is_namespace) place->own = name;
    return place.get();
  }

  /// Whether a::b::c is declared, from word i on, `global` where it begins with "::".
  void look_up(std::size_t i, bool global) {
    Scope const* in = global ? &global_ : scope_;
    while (!global && in != nullptr && in->names.count(at(i)) == 0 && in->own != at(i)) in = in->outer;
    if (in != nullptr && in->own == at(i)) in = in->outer;
    for (bool first = true; first || at(i - 1) == "::"; i += 2, first = false) {
      auto const found = in == nullptr ? decltype(in->names.end()){} : in->names.find(at(i));
      if (in == nullptr || found == in->names.end()) return fail("no \"" + at(i) + "\" there");
      in = found->second.get();
      if (in == nullptr || at(i + 1) != "::") return;  // what an alias holds is not known here
    }
  }

  void read() {
    for (std::size_t i = 0; i < words_.size() && problem_.empty(); ++i) {
      auto const &word = at(i), &before = i == 0 ? at(words_.size()) : at(i - 1), &next = at(i + 1);
      if (word == "\"") fail("a string without an end");
      if (word == "{") {
        blocks_.push_back(std::make_unique<Scope>());
        blocks_.back()->outer = scope_;
        for (auto const& parameter : parameters_) blocks_.back()->names[parameter] = nullptr;
        parameters_.clear();
        scope_ = blocks_.back().get();
      } else if (word == "}") {
        if (scope_->outer == nullptr) return fail("too many }");
        scope_ = scope_->outer;
      }
      if (!is_name(word)) continue;
      check_reserved(word);
      if ((word == "namespace" || word == "struct") && at(i + 2) == "{") {
        scope_ = declare(next, true, word == "namespace");
        if (scope_ == nullptr) return;
        i += 2;
      } else if (next == "::" && word != "tessera" && before != "::") {
        look_up(i, false);
      } else if (next == "::" && word != "tessera" && !(i >= 2 && is_name(at(i - 2)))) {
        look_up(i, true);
      } else if (next == "=") {
        declare(word, false);
      } else if (next == "(" && (is_name(before) || before == ">") && before != "return" &&
                 before != "static_assert") {
        declare(word, false);
        parameters_.clear();
      } else if ((next == ")" || next == ",") && (before == "&" || before == "int")) {
        parameters_.insert(word);
      }
    }
    if (problem_.empty() && scope_ != &global_) fail("a { without its }");
  }

  std::vector<std::string> words_;
  Scope global_;
  Scope* scope_ = &global_;
  std::vector<std::unique_ptr<Scope>> blocks_;
  std::set<std::string> parameters_;
  std::string problem_;
};

}  // namespace tessera::support
