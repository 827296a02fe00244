// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/pass_runs.hpp"

#include <algorithm>

namespace tessera::decode {

std::vector<PassTable> pass_tables(std::vector<Positions> const& unread, int rows, int keys) {
  std::vector<PassTable> result;
  for (std::size_t s = 0; s < unread.size(); ++s)
    for (int at = unread[s].begin; at < unread[s].end;) {
      auto const left = unread[s].end - at;
      bool const has_room = !result.empty() && result.back().rows < rows &&
                            result.back().key_rows() + at + std::min(left, rows - result.back().rows) <= keys;
      if (!has_room) result.emplace_back();
      auto& pass = result.back();
      int const tokens = std::min(left, rows - pass.rows);
      pass.runs[pass.count++] = {static_cast<int>(s), pass.rows, at, tokens, pass.key_rows(), tokens == left};
      pass.rows += tokens;
      pass.behind = pass.behind || at > 0;
      at += tokens;
    }
  return result;
}

}  // namespace tessera::decode
