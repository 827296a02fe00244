// SPDX-License-Identifier: Apache-2.0
// Answers about buffer reuse, for who asks the same of other stages: iterations of a loop do.
#pragma once

#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "check/reuse.hpp"

namespace tessera::check_detail {

class AskedBefore {
 public:
  /// The pipeline outlives this.
  explicit AskedBefore(Pipeline const& pipeline);

  /// Takes the answer to the same question. false: there is none.
  bool answer(BufferReuse& question) const;
  void remember(BufferReuse const& answered);

 private:
  using Key = std::tuple<int, int, int>;  // stages between, kinds of writer and reader

  Key key_of(BufferReuse const& question) const;
  bool same(BufferReuse const& a, BufferReuse const& b) const;

  Pipeline const& pipeline_;
  /// Of stages. Those of one kind are cut alike, and read alike of what is as far before.
  std::vector<int> kinds_;
  std::map<Key, std::vector<BufferReuse>> answers_;
  std::size_t remembered_ = 0;
};

}  // namespace tessera::check_detail
