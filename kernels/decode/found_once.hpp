// SPDX-License-Identifier: Apache-2.0
// What is found once in a process and kept until it ends, by several threads.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace tessera::decode {

template <class Key, class Value>
class FoundOnce {
 public:
  std::optional<Value> find(Key const& key) const {
    std::lock_guard const lock(mutex_);
    auto const found = all_.find(key);
    return found == all_.end() ? std::nullopt : std::optional(found->second);
  }
  /// What is known from then on: another thread may have found it before.
  Value keep(Key const& key, Value value) {
    std::lock_guard const lock(mutex_);
    return all_.try_emplace(key, std::move(value)).first->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<Key, Value> all_;
};

}  // namespace tessera::decode
