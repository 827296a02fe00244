// SPDX-License-Identifier: Apache-2.0
#include "tessera/tune/cache.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {
namespace {

void insert(std::vector<TunedSize>& sizes, TunedSize const& one) {
  auto const at = std::lower_bound(sizes.begin(), sizes.end(), one.tokens,
                                   [](TunedSize const& a, std::int64_t tokens) { return a.tokens < tokens; });
  if (at != sizes.end() && at->tokens == one.tokens)
    *at = one;
  else
    sizes.insert(at, one);
}

bool same_shape(TuneKey const& a, TuneKey const& b) {
  return a.model == b.model && a.hidden == b.hidden && a.form == b.form && a.type == b.type;
}

}  // namespace

TuneEntry const* find(TuneCache const& cache, TuneKey const& key) {
  for (auto const& entry : cache.entries)
    if (entry.key == key) return &entry;
  return nullptr;
}

void merge(TuneCache& cache, TuneCache const& newer) {
  for (auto const& entry : newer.entries) {
    auto const same = [&](TuneEntry const& old) { return old.key == entry.key; };
    auto at = std::find_if(cache.entries.begin(), cache.entries.end(), same);
    if (at == cache.entries.end()) at = cache.entries.insert(at, TuneEntry{entry.key, {}});
    for (auto const& size : entry.sizes) insert(at->sizes, size);
  }
}

std::vector<TunedSize const*> nearest(TuneEntry const& entry, std::int64_t tokens) {
  std::vector<TunedSize const*> order;
  for (auto const& size : entry.sizes)
    if (size.tokens >= tokens) order.push_back(&size);
  for (auto size = entry.sizes.rbegin(); size != entry.sizes.rend(); ++size)
    if (size->tokens < tokens) order.push_back(&*size);
  return order;
}

Diagnostics say_if_foreign(TuneCache const& cache, TuneKey const& key, std::string const& file) {
  if (find(cache, key) != nullptr) return {};
  Diagnostic found{"E0529", Severity::warning, {file, 0}, "", {}, ""};
  for (auto const& entry : cache.entries) {
    if (!same_shape(entry.key, key)) continue;
    auto const differ = [&](char const* what, std::string const& tuned, std::string const& here) {
      if (tuned != here)
        found.notes.push_back(fmt::format("{}: tuned on \"{}\", here \"{}\"", what, tuned, here));
    };
    differ("GPU", entry.key.gpu, key.gpu);
    differ("driver", entry.key.driver, key.driver);
    differ("library", entry.key.library, key.library);
  }
  if (found.notes.empty()) return {};
  found.message = fmt::format("what was tuned for this {} of {} x {} was measured elsewhere and is not used",
                              key.form, key.model, key.hidden);
  found.suggestion = "tune again here: tessera tune; until then cuBLASLt's first choice is taken";
  return {found};
}

}  // namespace tessera
