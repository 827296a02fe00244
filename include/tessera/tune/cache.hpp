// SPDX-License-Identifier: Apache-2.0
// What tuning found, as a value: the plan that computes a workload fastest on one machine.
#pragma once

#include <string>
#include <vector>

#include "tessera/describe/kernel.hpp"
#include "tessera/describe/workload_key.hpp"
#include "tessera/diagnostic.hpp"
#include "tessera/plan/plan.hpp"
#include "tessera/tune/products.hpp"

namespace tessera {

/// What a measurement is valid for; all of it must be the same for it to be used.
struct TuneKey {
  std::string gpu;        ///< "NVIDIA H200"
  std::string driver;     ///< "580.159.04"
  std::string libraries;  ///< "tessera 0.1.0, cublasLt 130100"
  WorkloadKey workload;

  bool operator==(TuneKey const&) const = default;
};

/// The winner, and what it was measured against. Microseconds for the whole workload; hot: back to back,
/// cool: with pauses.
struct TuneEntry {
  TuneKey key;
  std::string workload_name;  ///< for people
  Plan plan;
  double hot_us = 0, cool_us = 0;
  std::string baseline;  ///< describe() of the fastest baseline; the plan's own where nothing beat it
  double baseline_hot_us = 0, baseline_cool_us = 0;
  std::string load = "any";  ///< for what it was chosen: to_text(Load)
  std::string date;          ///< "2026-11-21"
};

struct TuneCache {
  std::vector<TuneEntry> entries;        ///< no key twice
  std::vector<ProductEntry> products{};  ///< on several GPUs; no key twice
};

TuneEntry const* find(TuneCache const& cache, TuneKey const& key);
ProductEntry const* find(TuneCache const& cache, ProductKey const& key);

/// Adds what `newer` has; its entries replace those of the same key.
void merge(TuneCache& cache, TuneCache const& newer);

/// The entries to try for a workload, measured here and equal but for its rows, the best guess first: the
/// workload itself; else the next larger ones, because tiles are cut for whole sizes; then the smaller ones
/// from the largest down. All of them, so that one whose plan cannot be made for these sizes (resize()) is
/// passed over. Pointers into the cache.
std::vector<TuneEntry const*> nearest(TuneCache const& cache, TuneKey const& key);

/// Of tunings that came with the library the entry for a workload, or for the next larger number of rows, on
/// the same GPU with any driver. Null where there is none; and where its plan has a kernel of a library in
/// another version than here, which numbers its algorithms in another way.
TuneEntry const* shipped_entry(TuneCache const& shipped, TuneKey const& key, Registry const& kernels);

/// A warning (E0529) that says in what the entries of this workload, or of other rows of it, differ from the
/// key, if there are any and none was measured here; else nothing.
Diagnostics say_if_foreign(TuneCache const& cache, TuneKey const& key, std::string const& file);

}  // namespace tessera
