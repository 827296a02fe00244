// SPDX-License-Identifier: Apache-2.0
// What tuning found, as a value: which candidate computes a block of a model fastest, by the number of
// tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/diagnostic.hpp"

namespace tessera {

/// What a measurement is valid for; all of it must be the same for it to be used.
struct TuneKey {
  std::string gpu;      ///< "NVIDIA H200"
  std::string driver;   ///< "580.159.04"
  std::string library;  ///< versions of Tessera and of cuBLASLt
  std::string form;     ///< "gelu" or "swiglu"
  std::string type;     ///< "bf16" or "fp16"
  std::int64_t model = 0;
  std::int64_t hidden = 0;

  bool operator==(TuneKey const&) const = default;
};

/// The winner for one number of tokens, and what it was measured against. Microseconds for one block; hot:
/// back to back, cool: with pauses.
struct TunedSize {
  std::int64_t tokens = 0;
  std::string candidate;
  double hot_us = 0, cool_us = 0;
  std::string baseline;  ///< the fastest baseline; the same as `candidate` where nothing beat it
  double baseline_hot_us = 0, baseline_cool_us = 0;
  std::string date;  ///< "2026-11-21"

  bool operator==(TunedSize const&) const = default;
};

struct TuneEntry {
  TuneKey key;
  std::vector<TunedSize> sizes;  ///< by tokens, ascending, each once

  bool operator==(TuneEntry const&) const = default;
};

struct TuneCache {
  std::vector<TuneEntry> entries;  ///< no key twice

  bool operator==(TuneCache const&) const = default;
};

TuneEntry const* find(TuneCache const& cache, TuneKey const& key);

/// Adds what `newer` has; its sizes replace those of the same key and number of tokens.
void merge(TuneCache& cache, TuneCache const& newer);

/// The tuned sizes to try for so many tokens, the best guess first: the size itself; else the next larger
/// ones, because tiles are cut for whole sizes; then the smaller ones from the largest down. All of them, so
/// that one whose kernels cannot do this size is passed over.
std::vector<TunedSize const*> nearest(TuneEntry const& entry, std::int64_t tokens);

/// A warning (E0529) that says in what the entries of this shape differ from the key, if there are any and
/// none is the key's; else nothing.
Diagnostics say_if_foreign(TuneCache const& cache, TuneKey const& key, std::string const& file);

}  // namespace tessera
