// SPDX-License-Identifier: Apache-2.0
#include "tessera/ranks/pack.hpp"

#include <cstdint>

namespace tessera {
namespace {

void put(std::string& to, std::size_t number) {
  for (int i = 0; i < 4; ++i) to.push_back(static_cast<char>(number >> (8 * i) & 0xff));
}
std::size_t get(std::string_view from) {
  std::size_t number = 0;
  for (std::size_t i = 0; i < 4; ++i)
    number |= static_cast<std::size_t>(static_cast<unsigned char>(from[i])) << (8 * i);
  return number;
}

}  // namespace

std::string pack(std::vector<std::string> const& words) {
  std::string result;
  for (auto const& word : words) {
    put(result, word.size());
    result += word;
  }
  return result;
}

std::optional<std::vector<std::string>> unpack(std::string_view bytes) {
  std::vector<std::string> words;
  while (!bytes.empty()) {
    if (bytes.size() < 4 || get(bytes) > bytes.size() - 4) return std::nullopt;
    words.emplace_back(bytes.substr(4, get(bytes)));
    bytes.remove_prefix(4 + get(bytes));
  }
  return words;
}

std::string pack(Diagnostics const& diagnostics) {
  std::vector<std::string> all;
  for (auto const& one : diagnostics) {
    std::vector<std::string> words = {one.code, one.message, one.suggestion};
    words.insert(words.end(), one.notes.begin(), one.notes.end());
    all.push_back(pack(words));
  }
  return pack(all);
}

Diagnostics unpack_diagnostics(std::string_view bytes) {
  Diagnostics result;
  auto const all = unpack(bytes);
  if (!all) return result;
  for (auto const& one : *all) {
    auto const words = unpack(one);
    if (!words || words->size() < 3) continue;
    auto& found = result.emplace_back();
    found.code = (*words)[0];
    found.message = (*words)[1];
    found.suggestion = (*words)[2];
    found.notes.assign(words->begin() + 3, words->end());
  }
  return result;
}

}  // namespace tessera
