// SPDX-License-Identifier: Apache-2.0
// Values by key, of which no more are kept than one wants: room is made by giving up what was not asked for
// for the longest time.
#pragma once

#include <cstddef>
#include <map>
#include <utility>

namespace tessera::kernels {

/// Values stay where they are until they are given up.
template <class Key, class Value>
class Recent {
 public:
  /// 0: as many as come.
  void keep(std::size_t most) { most_ = most; }

  /// Null if there is none. What is found is the last to be given up.
  Value* find(Key const& key) {
    auto const found = all_.find(key);
    if (found == all_.end()) return nullptr;
    found->second.asked = ++asked_;
    return &found->second.value;
  }

  /// What has to be given up before another one may be added; null where there is room.
  Value* in_the_way() {
    auto const found = oldest();
    return found == all_.end() ? nullptr : &found->second.value;
  }
  void give_up() { all_.erase(oldest()); }

  /// Of a key that there is not; make room first.
  Value& add(Key const& key, Value value) {
    return all_.emplace(key, Entry{++asked_, std::move(value)}).first->second.value;
  }

  std::size_t size() const { return all_.size(); }
  void clear() { all_.clear(); }
  template <class Function>
  void for_each(Function const& function) {
    for (auto& [key, entry] : all_) function(entry.value);
  }

 private:
  struct Entry {
    unsigned long long asked = 0;
    Value value;
  };
  /// end() where there is room.
  typename std::map<Key, Entry>::iterator oldest() {
    if (most_ == 0 || all_.size() < most_) return all_.end();
    auto found = all_.begin();
    for (auto one = all_.begin(); one != all_.end(); ++one)
      if (one->second.asked < found->second.asked) found = one;
    return found;
  }

  std::size_t most_ = 0;
  unsigned long long asked_ = 0;
  std::map<Key, Entry> all_;
};

}  // namespace tessera::kernels
