// SPDX-License-Identifier: Apache-2.0
// Elements of 16 bits that carry the iteration they were written in: whoever reads the word knows whether it
// is there, in one trip through the L2, where a semaphore takes three (release, poll, load). For data of few
// bytes, since it is twice as much.
#pragma once

#include <tessera/run/roles.cuh>
#include <tessera/sync/data_token.cuh>

namespace tessera::few_tokens {

/// What tells an iteration from the 32767 before it: never 0, which memory holds that was cleared. Serial
/// numbers wrap around at 2^32, a multiple of 32768.
TESSERA_HOST_DEVICE constexpr unsigned token_of_serial(unsigned serial) { return serial % 0x8000u + 0x8000u; }
static_assert(token_of_serial(0xffffffffu) != token_of_serial(0) && token_of_serial(0) != 0, "");
/// The element below, the token of the iteration's serial number above. One access each, relaxed,
/// device scope: the element needs no order with anything else.
__device__ inline unsigned token_word(unsigned short element, unsigned serial) {
  return element | token_of_serial(serial) << 16;
}
__device__ inline void store_word(unsigned* to, unsigned word) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "r"(word)
               : "memory");
}
/// Four words, each an access of its own by the memory model, as each has a token of its own.
__device__ inline uint4 load_words(unsigned const* from) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(__cvta_generic_to_global(from))
               : "memory");
  return v;
}
__device__ inline bool are_of(uint4 const& v, unsigned serial) {
  unsigned const token = token_of_serial(serial) << 16;
  unsigned const wrong = (v.x ^ token) | (v.y ^ token) | (v.z ^ token) | (v.w ^ token);
  return wrong >> 16 == 0;
}

/// The elements of four words, to shared memory.
__device__ inline void store_elements(unsigned to, uint4 const& words) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(to), "r"((words.x & 0xffffu) | words.y << 16),
               "r"((words.z & 0xffffu) | words.w << 16)
               : "memory");
}

/// Where an element of activations stands: lines of 128 bytes, [k-block][token], swizzled in patterns of 8
/// lines.
__device__ inline unsigned place_in_lines(int column, int token, int tokens) {
  int const line = column / 64 * tokens + token, in_line = column % 64;
  return static_cast<unsigned>(line * 128 + ((in_line / 8) ^ (line & 7)) * 16 + in_line % 8 * 2);
}

/// Looks until all words behind words[from(j)] are of `serial`, four at each; from(j) below 0: zeros, at
/// once. All lanes of a warp that loads. False: a stall.
template <int Loads, class Loader, class From>
__device__ bool load_when_there(Loader& loader, unsigned const* words, unsigned serial, uint4 (&value)[Loads],
                                From const& from) {
  int const lane = static_cast<int>(threadIdx.x % 32);
  int at[Loads];  // below 0: it is there
#pragma unroll
  for (int j = 0; j < Loads; ++j) {
    value[j] = {};
    at[j] = from(j);
  }
  auto patience = loader.watch().begin();
  for (;;) {
#pragma unroll
    for (int j = 0; j < Loads; ++j)
      if (at[j] >= 0) value[j] = load_words(words + at[j]);
    bool all = true;
#pragma unroll
    for (int j = 0; j < Loads; ++j) {
      if (at[j] >= 0 && are_of(value[j], serial)) at[j] = -1;
      all = all && at[j] < 0;
    }
    unsigned const late = __ballot_sync(~0u, !all);
    if (late == 0) return true;
    // The first lane that waits asks whether to go on.
    bool const go_on = lane != __ffs(static_cast<int>(late)) - 1 ||
                       loader.watch().go_on(patience, loader.place_of(data_token_of(loader.job->iteration)),
                                            value[0].x >> 16, token_of_serial(serial));
    if (!__all_sync(~0u, go_on)) {
      loader.stop();
      return false;
    }
  }
}

/// Looks until all of so many packets are of `token`; one that is null is not looked for. By a thread of
/// those that compute. False: a stall.
template <int Count, class Computer>
__device__ bool load_packets(Computer& computer, Packet<1> const* const (&from)[Count], unsigned token,
                             Packet<1> (&to)[Count]) {
  bool there[Count];
#pragma unroll
  for (int j = 0; j < Count; ++j) there[j] = from[j] == nullptr;
  auto patience = computer.watch().begin();
  for (;;) {
#pragma unroll
    for (int j = 0; j < Count; ++j)
      if (!there[j]) detail::load_item<Scope::device>(to[j], from[j]);
    bool all = true;
    unsigned seen = 0;
#pragma unroll
    for (int j = 0; j < Count; ++j) {
      if (!there[j]) seen = to[j].token;
      if (!there[j]) all = (there[j] = seen == token) && all;
    }
    if (all) return true;
    if (!computer.watch().go_on(patience, computer.place_of(data_token_of(computer.job->iteration)), seen,
                                token)) {
      computer.stop();
      return false;
    }
  }
}

/// Fills slots of `slot_depth` k-blocks of 64 elements, a line for each token, from words [tokens][depth];
/// slot_depth is even and at most most_word_depth(tokens). Chunk c, a slot's worth, is warp c %
/// k_late_warps's, which has eight loads on their way at once, of one chunk or of several.
template <class Loader>
__device__ void load_token_words(Loader& loader, unsigned const* words, int tokens, int depth, int slot_depth,
                                 int chunks, unsigned serial) {
  constexpr int loads = 8;  // each of 128 elements of a token
  int const lane = static_cast<int>(threadIdx.x % 32);
  int const halves = slot_depth / 2, of_chunk = halves * tokens, each = loads / of_chunk;
  int passed = 0;  // slots of this job
  // What is looked at in vain takes bandwidth.
  if (!loader.wait_for_own()) return;
  for (int c = loader.warp(); c < chunks; c += each * k_late_warps) {
    auto const chunk = [&](int j) { return c + j / of_chunk * k_late_warps; };
    auto const row = [&](int j) { return j % of_chunk / halves; };
    auto const column = [&](int j) { return j % halves * 128 + 4 * lane; };  // in the chunk
    uint4 value[loads];
    if (!load_when_there(loader, words, serial, value, [&](int j) {
          int const element = chunk(j) * slot_depth * 64 + column(j);
          if (j >= each * of_chunk || chunk(j) >= chunks || element >= depth) return -1;
          return row(j) * depth + element;
        }))
      return;
    RingSlot slot;
#pragma unroll
    for (int j = 0; j < loads; ++j) {
      if (j >= each * of_chunk || chunk(j) >= chunks) continue;
      if (j % of_chunk == 0) {
        loader.pass(chunk(j) - passed);
        if (!loader.take(slot)) return;
        passed = chunk(j) + 1;
      }
      store_elements(slot.address + place_in_lines(column(j), row(j), tokens), value[j]);
      if (j % of_chunk == of_chunk - 1) loader.fill(slot);
    }
  }
  loader.pass(chunks - passed);
}

}  // namespace tessera::few_tokens
