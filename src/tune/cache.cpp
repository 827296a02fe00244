// SPDX-License-Identifier: Apache-2.0
#include "tessera/tune/cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace tessera {
namespace {

template <class Entry, class Key>
Entry const* entry_of(std::vector<Entry> const& entries, Key const& key) {
  auto const at =
      std::find_if(entries.begin(), entries.end(), [&](Entry const& one) { return one.key == key; });
  return at == entries.end() ? nullptr : &*at;
}

template <class Entry>
void merge(std::vector<Entry>& entries, std::vector<Entry> const& newer) {
  for (auto const& entry : newer) {
    auto const at =
        std::find_if(entries.begin(), entries.end(), [&](Entry const& old) { return old.key == entry.key; });
    if (at == entries.end())
      entries.push_back(entry);
    else
      *at = entry;
  }
}

bool same_machine(TuneKey const& a, TuneKey const& b) {
  return a.gpu == b.gpu && a.driver == b.driver && a.libraries == b.libraries;
}

}  // namespace

TuneEntry const* find(TuneCache const& cache, TuneKey const& key) { return entry_of(cache.entries, key); }
ProductEntry const* find(TuneCache const& cache, ProductKey const& key) {
  return entry_of(cache.products, key);
}

void merge(TuneCache& cache, TuneCache const& newer) {
  merge(cache.entries, newer.entries);
  merge(cache.products, newer.products);
}

std::vector<TuneEntry const*> nearest(TuneCache const& cache, TuneKey const& key) {
  std::vector<TuneEntry const*> order;
  for (auto const& entry : cache.entries)
    if (same_machine(entry.key, key) && same_but_rows(entry.key.workload, key.workload))
      order.push_back(&entry);
  auto const rows = rows_of(key.workload);
  auto const rank = [&](TuneEntry const* entry) {
    auto const of = rows_of(entry->key.workload);
    return std::tuple(entry->key.workload != key.workload, of < rows, of < rows ? -of : of);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](TuneEntry const* a, TuneEntry const* b) { return rank(a) < rank(b); });
  return order;
}

TuneEntry const* shipped_entry(TuneCache const& shipped, TuneKey const& key, Registry const& kernels) {
  TuneEntry const* best = nullptr;
  for (auto const& entry : shipped.entries) {
    auto const& of = entry.key;
    if (of.gpu != key.gpu || !same_but_rows(of.workload, key.workload)) continue;
    if (rows_of(of.workload) < rows_of(key.workload)) continue;
    if (best == nullptr || rows_of(of.workload) < rows_of(best->key.workload)) best = &entry;
  }
  if (best == nullptr || best->key.libraries == key.libraries) return best;
  auto const& stages = best->plan.pipeline.stages;
  bool const own = std::none_of(stages.begin(), stages.end(), [&](Stage const& stage) {
    auto const* const kernel = kernels.find(stage.kernel);
    return kernel == nullptr || kernel->library;
  });
  return own ? best : nullptr;
}

Diagnostics say_if_foreign(TuneCache const& cache, TuneKey const& key, std::string const& file) {
  Diagnostic found;
  found.code = "E0529";
  found.severity = Severity::warning;
  found.where.file = file;
  for (auto const& entry : cache.entries) {
    if (!same_but_rows(entry.key.workload, key.workload)) continue;
    if (same_machine(entry.key, key)) return {};
    if (found.message.empty())
      found.message = fmt::format("what was tuned for {} was measured elsewhere and is not used",
                                  entry.workload_name.empty() ? "this workload" : entry.workload_name);
    auto const differ = [&](char const* what, std::string const& tuned, std::string const& here) {
      auto note = fmt::format("{}: tuned on \"{}\", here \"{}\"", what, tuned, here);
      if (tuned != here && std::find(found.notes.begin(), found.notes.end(), note) == found.notes.end())
        found.notes.push_back(std::move(note));
    };
    differ("GPU", entry.key.gpu, key.gpu);
    differ("driver", entry.key.driver, key.driver);
    differ("libraries", entry.key.libraries, key.libraries);
  }
  if (found.notes.empty()) return {};
  found.suggestion = "tune again here: tessera tune";
  return {found};
}

}  // namespace tessera
