// SPDX-License-Identifier: Apache-2.0
#include "support/one_change.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

namespace tessera::fuzz {
namespace {

using Json = nlohmann::ordered_json;
using Random = std::minstd_rand;

std::size_t below(std::size_t count, Random& random) { return random() % count; }

void collect(Json& at, std::vector<Json*>& all) {
  all.push_back(&at);
  if (at.is_structured())
    for (auto& child : at) collect(child, all);
}

Json any_value(Random& random) {
  static Json const values[] = {nullptr,
                                true,
                                false,
                                0,
                                -1,
                                1,
                                2,
                                0.5,
                                1e308,
                                -1e-308,
                                std::numeric_limits<std::int32_t>::max(),
                                std::numeric_limits<std::int64_t>::max(),
                                std::numeric_limits<std::int64_t>::min(),
                                std::numeric_limits<std::uint64_t>::max(),
                                "",
                                "a",
                                "\"\\\n\x01",
                                Json::array(),
                                Json::object()};
  return values[below(std::size(values), random)];
}

void change_number(Json& number, Random& random) {
  if (number.is_number_float()) {
    double const factors[] = {0, -1, 0.5, 2, 1000, 1e-9, 1e30};
    number = number.get<double>() * factors[below(std::size(factors), random)];
    return;
  }
  // Unsigned, so that it wraps.
  auto const value = number.get<std::uint64_t>();
  std::uint64_t const others[] = {value + 1, value - 1,           value * 2, value / 2,
                                  0 - value, value + 1000 * 1000, 0};
  number = static_cast<std::int64_t>(others[below(std::size(others), random)]);
}

void change_text(Json& text, std::vector<Json*> const& all, Random& random) {
  auto& value = text.get_ref<std::string&>();
  switch (below(4, random)) {
    case 0:
      value.insert(below(value.size() + 1, random), 1, static_cast<char>(0x20 + below(95, random)));
      break;
    case 1:
      if (!value.empty()) value.erase(below(value.size(), random), 1);
      break;
    case 2: value += value; break;
    default:  // a word that the document uses elsewhere
      for (int tries = 0; tries < 10; ++tries)
        if (auto const* other = all[below(all.size(), random)]; other->is_string()) {
          value = other->get<std::string>();
          break;
        }
  }
}

void change_array(Json& array, Random& random) {
  if (array.empty()) {
    array.push_back(any_value(random));
    return;
  }
  auto const at = static_cast<std::ptrdiff_t>(below(array.size(), random));
  auto const other = below(array.size(), random);
  switch (below(3, random)) {
    case 0: array.erase(array.begin() + at); break;
    case 1: array.insert(array.begin() + at, Json(array[other])); break;
    default: std::swap(array[static_cast<std::size_t>(at)], array[other]);
  }
}

void change_object(Json& object, std::vector<Json*> const& all, Random& random) {
  if (object.empty()) {
    object["a"] = any_value(random);
    return;
  }
  auto const at = std::next(object.begin(), static_cast<std::ptrdiff_t>(below(object.size(), random)));
  auto const key = at.key();
  Json const value = at.value();
  switch (below(3, random)) {
    case 0: object.erase(key); break;
    case 1:
      object.erase(key);
      object[key + "x"] = value;
      break;
    default:  // a key that another object has
      for (int tries = 0; tries < 10; ++tries)
        if (auto const* other = all[below(all.size(), random)]; other->is_object() && !other->empty()) {
          object[std::next(other->begin(), static_cast<std::ptrdiff_t>(below(other->size(), random))).key()] =
              value;
          break;
        }
  }
}

}  // namespace

std::string with_one_change(std::string const& text, std::minstd_rand& random) {
  auto document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) return "";
  std::vector<Json*> all;
  collect(document, all);
  auto& chosen = *all[below(all.size(), random)];
  auto const how = below(8, random);
  if (how == 0)
    chosen = any_value(random);
  else if (how == 1)
    chosen = Json(*all[below(all.size(), random)]);
  else if (chosen.is_number())
    change_number(chosen, random);
  else if (chosen.is_string())
    change_text(chosen, all, random);
  else if (chosen.is_array())
    change_array(chosen, random);
  else if (chosen.is_object())
    change_object(chosen, all, random);
  else if (chosen.is_boolean())
    chosen = !chosen.get<bool>();
  else
    chosen = any_value(random);
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tessera::fuzz
