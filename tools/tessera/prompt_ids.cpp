// SPDX-License-Identifier: Apache-2.0
#include "prompt_ids.hpp"

#include <fmt/format.h>

#include <charconv>

#include "files.hpp"
#include "session.hpp"

namespace tessera::cli {
namespace {

constexpr char const* k_option = "--prompt-ids";
constexpr char const* k_digits = "0123456789";

tl::unexpected<Diagnostics> refused(SourceLine const& where, std::string message, std::string way_out) {
  auto found = complaint("E0917", std::move(message), std::move(way_out));
  found.front().where = where;
  return tl::make_unexpected(std::move(found));
}

/// A file's name where a list could stand has something else in it than digits and commas. A sign before a
/// number makes no name of it: -1 is a mistaken id, and the file of that name is ./-1.
bool is_list(std::string const& word) {
  for (auto at = word.find('-'); at != std::string::npos; at = word.find('-', at + 1))
    if (at > 0 && word[at - 1] != ',' && word[at - 1] != ' ') return false;
  return word.find_first_not_of(std::string(k_digits) + ", -") == std::string::npos &&
         word.find_first_of(k_digits) != std::string::npos;
}

struct Reader {
  int vocabulary;
  std::string const& model;

  Expected<std::vector<int>> prompt(std::string const& line, SourceLine const& where) const {
    constexpr char const* k_blanks = " \t\r";
    std::vector<int> ids;
    bool comma = false;  // behind an id, so that another must follow
    for (std::size_t at = line.find_first_not_of(k_blanks); at != std::string::npos || comma;
         at = line.find_first_not_of(k_blanks, at)) {
      if (at == std::string::npos || line[at] == ',') {
        if (comma || ids.empty())
          return refused(where,
                         fmt::format("{}: there is no id {} a comma", k_option,
                                     at == std::string::npos ? "behind" : "before"),
                         fmt::format("one comma, or blanks, between two ids: {} 1,2,3", k_option));
        comma = true;
        ++at;
        continue;
      }
      comma = false;
      auto const end = std::min(line.find_first_of(", \t\r", at), line.size());
      auto const word = line.substr(at, end - at);
      at = end;
      int id = 0;
      auto const [stopped, error] = std::from_chars(word.data(), word.data() + word.size(), id);
      if (word[0] == '-' || error == std::errc::invalid_argument || stopped != word.data() + word.size())
        return refused(
            where, fmt::format("{}: \"{}\" is not a token's id", k_option, word.substr(0, 60)),
            fmt::format("ids are whole numbers: {} 1,2,3; of text your tokenizer makes them", k_option));
      if (error != std::errc() || id >= vocabulary)
        return refused(where,
                       fmt::format("{}: token {} (number {} of the prompt) is not one of {}'s {}", k_option,
                                   word.substr(0, 60), ids.size() + 1, model, vocabulary),
                       fmt::format("ids are 0 to {}; is the tokenizer another model's?", vocabulary - 1));
      ids.push_back(id);
    }
    return ids;
  }
};

}  // namespace

Expected<std::vector<std::vector<int>>> read_prompts(std::vector<std::string> const& words, int vocabulary,
                                                     std::string const& model) {
  Reader const reader{vocabulary, model};
  std::vector<std::vector<int>> prompts;
  for (auto const& word : words) {
    if (is_list(word)) {
      auto ids = reader.prompt(word, {});
      if (!ids) return tl::make_unexpected(ids.error());
      prompts.push_back(std::move(*ids));
      continue;
    }
    auto text = read_file(word);
    if (!text) {
      auto& way_out = text.error().front().suggestion;
      if (way_out.empty())
        way_out = fmt::format("ids are numbers: {} 1,2,3; or name a file with a prompt a line", k_option);
      return tl::make_unexpected(text.error());
    }
    SourceLine where{word == "-" ? "standard input" : word, 0};
    auto const before = prompts.size();
    for (std::size_t at = 0; at < text->size();) {
      auto const end = std::min(text->find('\n', at), text->size());
      ++where.line;
      auto ids = reader.prompt(text->substr(at, end - at), where);
      if (!ids) return tl::make_unexpected(ids.error());
      if (!ids->empty()) prompts.push_back(std::move(*ids));
      at = end + 1;
    }
    where.line = 0;
    if (prompts.size() == before)
      return refused(where, "there is no prompt in the file",
                     "write ids between commas or spaces, a prompt a line");
  }
  return prompts;
}

std::string print_prompts(std::vector<std::vector<int>> const& prompts) {
  std::string text;
  for (auto const& prompt : prompts) {
    for (std::size_t i = 0; i < prompt.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(prompt[i]);
    text += '\n';
  }
  return text;
}

}  // namespace tessera::cli
