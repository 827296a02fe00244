// SPDX-License-Identifier: Apache-2.0
// What an edge inside a persistent launch costs by each way to hand data over, from what the probe measured,
// and which way is cheapest.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "../measure/machine_profile.hpp"

namespace tessera {

enum class Exchange : std::uint8_t {
  semaphore,  ///< store, fence, post; poll, load
  words,      ///< 16 bits of data and the iteration in each word: the reader polls the data
  cluster     ///< stores into the shared memory of other blocks of the cluster, counted where they land
};

/// An edge as one of its consumer's tiles sees it.
struct ExchangedEdge {
  double bytes = 0;   ///< of data that a tile reads; 0: not known
  int senders = 1;    ///< blocks that write them
  int consumers = 1;  ///< blocks that read what one block writes

  bool operator==(ExchangedEdge const&) const = default;
};

/// What a launch loads for later while data are handed over, on each SM.
struct LoadAhead {
  double in_flight_bytes = 0;  ///< on their way at once; 0: memory is at rest
  /// What it loads before it has no room for more; then memory is at rest until the data are there.
  double room_bytes = std::numeric_limits<double>::infinity();

  bool operator==(LoadAhead const&) const = default;
};

/// ns from the senders' registers to those of a whole consuming block. Interpolated between figures of the
/// machine's probe (docs/exchanges.md says how); none where it has none for this way, where the bytes are not
/// known, or where a cluster would need more blocks than were measured.
std::optional<double> exchange_ns(MachineProfile const& machine, Exchange way, ExchangedEdge const& edge,
                                  LoadAhead const& ahead = {});

/// What an edge's operations and its launch can do beside semaphores.
struct ExchangeOffer {
  bool words = false;      ///< the writer stores such words, and every reader takes them
  int cluster_blocks = 0;  ///< of the cluster in which all of the edge's blocks are; 0: they are in none

  bool operator==(ExchangeOffer const&) const = default;
};

struct ExchangePrice {
  Exchange way = Exchange::semaphore;
  double ns = 0;

  bool operator==(ExchangePrice const&) const = default;
};

struct ExchangeChoice {
  Exchange way = Exchange::semaphore;
  std::vector<ExchangePrice> prices;  ///< of what is offered and was measured, semaphores first
  /// "words 2.58 us, semaphores 4.41 us (8448 bytes of 132 blocks to 131; ...)", or why it is semaphores.
  std::string reason;

  bool operator==(ExchangeChoice const&) const = default;
};

/// The cheapest way for data with these readers, all of which must use the same: the sum of their prices
/// counts. A way without a price is not taken; semaphores where nothing else is left, or is as cheap.
ExchangeChoice choose_exchange(MachineProfile const& machine, std::vector<ExchangedEdge> const& readers,
                               LoadAhead const& ahead, ExchangeOffer const& offer);

}  // namespace tessera
