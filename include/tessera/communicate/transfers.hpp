// SPDX-License-Identifier: Apache-2.0
// What a rank launches to exchange data with its peers: sums of partial results across GPUs, and words that
// say how far a rank is. Needs the library tessera_communicate_gpu.
//
// Everything counts launches and is never reset: each operation of a group has control words of its own in
// every rank's memory, zeroed once, and every rank launches the same calls in the same order. So a captured
// graph can be replayed. Every wait has a deadline, after which the words are to be zeroed on all ranks.
#pragma once

#include <cstddef>
#include <tessera/communicate/shards.hpp>
#include <tessera/sync/wait.cuh>

struct CUstream_st;  // cudaStream_t points to one

namespace tessera {

enum class HalfType { bf16, fp16 };

/// What ranks tell each other, as StallRecord::stage names it.
enum class PeerWord : int {
  arrived,        ///< what the rank sends is there
  done,           ///< the rank has read what it was sent
  begun,          ///< the rank has begun, so it is done with all launches before
  partial_words,  ///< of all_reduce_words(): the partial sums themselves
};

/// Parts of what a rank sends to another in one launch, each with a word of its own.
constexpr int k_most_parts = 8;

/// An operation's words in one rank's memory. Others write `words` and `parts`; the rest is the rank's own.
struct PeerControl {
  unsigned words[3][k_most_ranks] = {};             ///< [PeerWord][of rank]: launches
  unsigned parts[k_most_parts][k_most_ranks] = {};  ///< the same, of parts that have arrived
  unsigned number = 0;                              ///< of this launch, from 1: what copy engines send
  unsigned arrivals = 0;
  unsigned long long tickets[5 + k_most_parts * k_most_ranks] =
      {};  ///< one for each kind of call: it counts its blocks
};

/// Of one operation, as each of its calls takes it.
struct PeerOperation {
  PeerControl* control[k_most_ranks] = {};  ///< of all ranks
  int rank = 0;
  int ranks = 1;
  DeadlineWatch<> watch;  ///< in this rank's memory
};

/// Partial sums of all ranks to their sum on all of them, in one hop: each rank sends all it has to all, as
/// packets that carry the launch's number, and adds in the order of ranks in fp32: the same bits everywhere.
struct WordsSum {
  void const* partial = nullptr;
  void* sum = nullptr;
  long long elements = 0;            ///< a multiple of 8; both 16-byte aligned
  void* packets[k_most_ranks] = {};  ///< packet_bytes() in each rank's memory, zeroed once
  HalfType type = HalfType::bf16;
};
std::size_t packet_bytes(long long elements, int ranks);
/// Parts that are waited for one by one: StallRecord::tile is k_most_ranks times the part plus the rank.
long long parts_of_words(long long elements);

/// A shard of partial sums that all ranks have sent to one rank, to its sum in the order of ranks in fp32.
struct ShardSum {
  void const* slots = nullptr;       ///< [rank][slot_elements], in this rank's memory
  long long slot_elements = 0;       ///< a multiple of 8
  long long elements = 0;            ///< of the shard, a multiple of 8
  void* results[k_most_ranks] = {};  ///< where the sum goes: this rank's memory, or that of all
  int copies = 1;
  HalfType type = HalfType::bf16;
};

// They return CUDA's error. `stream` is of the rank's device, which is current. May be captured.

/// Loads all kernels on the current device: behind one that spins they would never start.
int load_transfers();

/// `programmatic`: starts when the kernel before lets it, and waits for that one's end itself. What it writes
/// into a peer's memory is only read by the peer's own call.
int all_reduce_words(PeerOperation const& operation, WordsSum const& sum, bool programmatic,
                     CUstream_st* stream);

/// Tells the peers that all that is before it in the stream has arrived, waits for them, adds, and waits
/// until all peers are done, so that the slots may be written again and all `results` are there.
int sum_shard(PeerOperation const& operation, ShardSum const& sum, CUstream_st* stream);

/// Tells the peers that this rank has begun, waits until all have, and leaves this launch's number in
/// PeerControl::number.
int begin_together(PeerOperation const& operation, CUstream_st* stream);
/// Tells the peers that all that is before it in the stream is done, and waits for them.
int meet_done(PeerOperation const& operation, CUstream_st* stream);

/// Puts the number of this launch into a peer's word for a part of what this rank sends, by a copy engine,
/// behind what is before it in the stream: behind begin_together().
int send_arrived(PeerOperation const& operation, int peer, int part, CUstream_st* stream);

/// Waits until that word of this rank's says that the part of the peer's is there.
int await_arrived(PeerOperation const& operation, int peer, int part, CUstream_st* stream);

}  // namespace tessera
