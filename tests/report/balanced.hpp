// SPDX-License-Identifier: Apache-2.0
// A page's tags are closed in order.
#pragma once

#include <gmock/gmock.h>

#include <regex>
#include <set>
#include <string>
#include <vector>

namespace tessera {

/// Opening and closing tags match, void and self-closed elements aside.
inline void expect_balanced(std::string const& page) {
  static std::set<std::string> const k_void{"meta", "!doctype", "br"};
  std::regex const tag("<(/?)([a-z!0-9]+)[^>]*?(/?)>");
  std::vector<std::string> open;
  auto const body = page.substr(0, page.find("<style>")) + page.substr(page.find("</style>") + 8);
  for (std::sregex_iterator it(body.begin(), body.end(), tag), end; it != end; ++it) {
    if ((*it)[3] == "/" || k_void.count((*it)[2])) continue;
    if ((*it)[1] != "/") {
      open.push_back((*it)[2]);
      continue;
    }
    ASSERT_FALSE(open.empty()) << (*it)[0];
    ASSERT_EQ(open.back(), (*it)[2]) << it->prefix().str().substr(0, 200);
    open.pop_back();
  }
  EXPECT_THAT(open, testing::IsEmpty());
}

}  // namespace tessera
