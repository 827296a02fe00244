// SPDX-License-Identifier: Apache-2.0
#include "tessera/describe/parse_tile_expr.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "describe/magnitude.hpp"
#include "diagnostic/nearest.hpp"

namespace tessera {
namespace {

constexpr std::size_t k_longest_text = 2000;
constexpr int k_deepest_nesting = 40;

/// Recursive descent. After the first problem every function returns at once.
class Parser {
 public:
  Parser(std::string_view text, std::span<std::string const> names) : text_(text), names_(names) {
    if (text.size() > k_longest_text) fail(0, fmt::format("more than {} characters", k_longest_text));
  }

  bool failed() const { return !message_.empty(); }
  tl::unexpected<Diagnostics> refusal() const {
    Diagnostic problem;
    problem.code = "E0138";
    problem.message = fmt::format("tile expression, column {}: {}", column_ + 1, message_);
    if (text_.size() <= 200) problem.notes = {std::string(text_), std::string(column_, ' ') + "^"};
    problem.suggestion = hint_;
    return refuse(std::move(problem));
  }

  TileExpr whole_expr() {
    auto result = sum().expr;
    end();
    return result;
  }

  TileRange whole_range(std::int64_t extent) {
    if (accept_word("all")) {
      end();
      return {TileExpr::constant(0), TileExpr::constant(extent), false};
    }
    if (accept_word("clamp")) {
      expect('(');
      auto inner = range();
      inner.clamp = true;
      expect(')');
      end();
      return inner;
    }
    auto result = range();
    end();
    return result;
  }

 private:
  /// `division`: the text was one product whose last step was a division, all that floor() may hold.
  struct Part {
    TileExpr expr;
    bool division = false;
  };

  TileRange range() {
    auto begin = sum().expr;
    if (!accept(':')) {
      auto end_of_one = begin + TileExpr::constant(1);
      return {std::move(begin), std::move(end_of_one), false};
    }
    auto end_of_range = sum().expr;
    return {std::move(begin), std::move(end_of_range), false};
  }

  Part sum() {
    if (++depth_ > k_deepest_nesting) fail(at_, "nested too deeply");
    auto left = product();
    while (!failed()) {
      bool const plus = accept('+');
      if (!plus && !accept('-')) break;
      auto right = product().expr;
      if (failed()) break;
      left.division = false;
      left.expr = plus ? std::move(left.expr) + std::move(right) : std::move(left.expr) - std::move(right);
      bound(left.expr);
    }
    --depth_;
    return left;
  }

  Part product() {
    Part left{factor(), false};
    while (!failed()) {
      auto const start = at_;
      if (accept('*')) {
        auto right = factor();
        if (failed()) break;
        left = {multiplied(std::move(left.expr), std::move(right), start), false};
      } else if (accept('/')) {
        auto const by = divisor("division");
        if (failed()) break;
        left = {floor_div(std::move(left.expr), by), true};
      } else if (accept('%') || accept_word("mod")) {
        auto const by = divisor("modulo");
        if (failed()) break;
        left = {modulo(std::move(left.expr), by), false};
      } else {
        break;
      }
    }
    return left;
  }

  TileExpr multiplied(TileExpr a, TileExpr b, std::size_t where) {
    if (a.op == TileExpr::Op::constant) std::swap(a, b);
    if (b.op != TileExpr::Op::constant) {
      fail(where, "one side of a product must be a constant");
      return a;
    }
    if (magnitude(a) * magnitude(b) > k_largest_magnitude) {
      fail(where, "this can leave 64-bit arithmetic");
      return a;
    }
    return std::move(a) * b.value;
  }

  std::int64_t divisor(char const* what) {
    skip_space();
    auto const start = at_;
    bool const enclosed = accept('(');
    bool const negative = accept('-');
    auto const value = number();
    if (enclosed) expect(')');
    if (!failed() && (negative || value == 0))
      fail(start,
           fmt::format("{} by {}{}: only by a constant of 1 or more", what, negative ? "-" : "", value));
    return failed() ? 1 : value;
  }

  TileExpr factor() {
    if (failed()) return {};
    skip_space();
    auto const start = at_;
    if (accept('-')) {
      if (++depth_ > k_deepest_nesting) fail(start, "nested too deeply");
      auto inner = factor();
      --depth_;
      return failed() ? inner : std::move(inner) * -1;
    }
    if (accept('(')) {
      auto inner = sum().expr;
      expect(')');
      return inner;
    }
    if (at_ < text_.size() && is_digit(text_[at_])) return TileExpr::constant(number());
    auto const name = word();
    if (name.empty()) {
      fail(start, at_ < text_.size() ? fmt::format("unexpected \"{}\"", text_[at_] >= ' ' ? text_[at_] : '?')
                                     : std::string("the expression ends too early"));
      return {};
    }
    if (name == "floor") return floor_call(start);
    if (name == "mod") return modulo_call();
    if (name == "min" || name == "max") return extremum(name == "min");
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == name) return TileExpr::dimension(static_cast<int>(i));
    std::vector<std::string> known(names_.begin(), names_.end());
    fail(start, fmt::format("the consumer's grid has no dimension \"{}\"", name.substr(0, 40)));
    hint_ = known.empty() ? "" : "its dimensions are " + list_of(known);
    return {};
  }

  /// mod(a, 3), the same as a mod 3.
  TileExpr modulo_call() {
    expect('(');
    auto inner = sum().expr;
    expect(',');
    auto const by = divisor("modulo");
    expect(')');
    return failed() ? inner : modulo(std::move(inner), by);
  }

  TileExpr floor_call(std::size_t start) {
    expect('(');
    auto inner = sum();
    expect(')');
    if (!failed() && !inner.division) {
      fail(start, "floor() takes one division");
      hint_ = "write floor((x + 1)/2)";
    }
    return inner.expr;
  }

  TileExpr extremum(bool least) {
    expect('(');
    auto a = sum().expr;
    expect(',');
    auto b = sum().expr;
    expect(')');
    if (failed()) return a;
    return least ? minimum(std::move(a), std::move(b)) : maximum(std::move(a), std::move(b));
  }

  std::int64_t number() {
    skip_space();
    auto const start = at_;
    std::int64_t value = 0;
    while (at_ < text_.size() && is_digit(text_[at_])) {
      value = value * 10 + (text_[at_++] - '0');
      if (value > k_largest_constant) {
        fail(start, fmt::format("constants are at most {}", k_largest_constant));
        return 1;
      }
    }
    if (at_ == start) fail(start, "a number is expected here");
    return value;
  }

  std::string_view word() {
    skip_space();
    auto end_of_word = at_;
    while (end_of_word < text_.size() &&
           (is_letter(text_[end_of_word]) || (end_of_word > at_ && is_digit(text_[end_of_word]))))
      ++end_of_word;
    auto const result = text_.substr(at_, end_of_word - at_);
    at_ = end_of_word;
    return result;
  }

  bool accept_word(std::string_view wanted) {
    auto const before = at_;
    if (word() == wanted) return true;
    at_ = before;
    return false;
  }

  bool accept(char c) {
    skip_space();
    if (failed() || at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(at_, fmt::format("\"{}\" is expected here", c));
  }
  void end() {
    skip_space();
    if (at_ < text_.size()) fail(at_, "nothing more is expected here");
  }
  void bound(TileExpr const& expr) {
    if (magnitude(expr) > k_largest_magnitude) fail(at_, "this can leave 64-bit arithmetic");
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  void fail(std::size_t where, std::string message) {
    if (failed()) return;
    column_ = where;
    message_ = std::move(message);
  }

  std::string_view text_;
  std::span<std::string const> names_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::size_t column_ = 0;
  std::string message_;
  std::string hint_;
};

}  // namespace

Expected<TileExpr> parse_tile_expr(std::string_view text, std::span<std::string const> names) {
  Parser parser(text, names);
  auto result = parser.whole_expr();
  if (parser.failed()) return parser.refusal();
  return result;
}

Expected<TileRange> parse_tile_range(std::string_view text, std::span<std::string const> names,
                                     std::int64_t extent) {
  Parser parser(text, names);
  auto result = parser.whole_range(extent);
  if (parser.failed()) return parser.refusal();
  return result;
}

std::string to_text(TileRange const& range, std::span<std::string const> names, std::int64_t extent) {
  if (!range.clamp && range.begin == TileExpr::constant(0) && range.end == TileExpr::constant(extent))
    return "all";
  auto const inside = range.end == range.begin + TileExpr::constant(1)
                          ? to_text(range.begin, names)
                          : to_text(range.begin, names) + " : " + to_text(range.end, names);
  return range.clamp ? "clamp(" + inside + ")" : inside;
}

}  // namespace tessera
