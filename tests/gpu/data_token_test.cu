// SPDX-License-Identifier: Apache-2.0
// Data tokens on the GPU: a million hand-overs without a wrong word, weakened ones that do fail, launches and
// graph replays on memory that nobody resets, and a missing item that is reported.
#include <gtest/gtest.h>

#include <chrono>

#include "gpu/device_buffer.hpp"
#include "gpu/launch.hpp"
#include "tessera/sync.cuh"
#include "tessera/sync/data_token.cuh"
#include "tiles.cuh"

namespace tessera::gpu {
namespace {

constexpr int k_pairs = 64;
constexpr int k_threads = 256;
constexpr unsigned k_rounds = 16384;  // times 64 pairs: 1'048'576 hand-overs
constexpr unsigned long long k_patience = 2'000'000'000;

/// What is left out.
enum class Weak {
  nothing,
  vector_access,  ///< 16 bytes by `.v4.u32`, which the model calls four accesses
  token_first,    ///< the token in a store of its own, before its payload
  one_for_all,    ///< thread 0 polls its item, the others read theirs behind a barrier without a look
};

__device__ unsigned expected_word(int pair, unsigned round, int thread, int i) {
  return mix((round * 0x9E3779B9u) ^ static_cast<unsigned>((pair << 20) + (thread << 4) + i));
}
__device__ void fill(Packet<1>& item, int pair, unsigned round, int thread) {
  item.payload[0] = expected_word(pair, round, thread, 0);
}
__device__ void fill(Packet<3>& item, int pair, unsigned round, int thread) {
  for (int i = 0; i < 3; ++i) item.payload[i] = expected_word(pair, round, thread, i);
}
__device__ void fill(MarkedWords& item, int pair, unsigned round, int thread) {
  for (int i = 0; i < 4; ++i) item.word[i] = expected_word(pair, round, thread, i) & ~k_token_bits;
}
template <int W>
__device__ unsigned words_that_differ(Packet<W> const& read, Packet<W> const& wanted) {
  unsigned wrong = 0;
  for (int i = 0; i < W; ++i) wrong += read.payload[i] != wanted.payload[i];
  return wrong;
}
__device__ unsigned words_that_differ(MarkedWords const& read, MarkedWords const& wanted) {
  unsigned wrong = 0;
  for (int i = 0; i < 4; ++i) wrong += (read.word[i] & ~k_token_bits) != wanted.word[i];
  return wrong;
}

template <Weak W, class Item>
__device__ void send(Item* to, Item item, unsigned round) {
  if constexpr (W == Weak::nothing || W == Weak::one_for_all) {
    put(to, item, round);
  } else if constexpr (W == Weak::vector_access) {
    item.token = token_of(round);
    asm volatile("st.relaxed.gpu.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(item.payload[0]),
                 "r"(item.payload[1]), "r"(item.payload[2]), "r"(item.token)
                 : "memory");
  } else {
    asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(&to->token), "r"(token_of(round)) : "memory");
    for (unsigned const& word : item.payload)
      asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(&to->payload[&word - item.payload]), "r"(word)
                   : "memory");
  }
}

template <Weak W, class Item>
__device__ bool receive(Item* from, Item& item, unsigned round, DeadlineWatch<> const& watch) {
  if constexpr (W == Weak::nothing || W == Weak::token_first) {
    Item items[1];
    bool const ok = take(from, 1, round, items, watch, WaitPlace{});
    item = items[0];
    return ok;
  } else if constexpr (W == Weak::one_for_all) {
    Item items[1];
    bool ok = true;
    if (threadIdx.x == 0) ok = take(from, 1, round, items, watch, WaitPlace{});
    ok = __syncthreads_and(ok) != 0;
    if (threadIdx.x != 0) detail::load_item<Scope::device>(items[0], from);
    item = items[0];
    return ok;
  } else {
    unsigned long long const begin = GlobalTimer::now();
    do {
      asm volatile("ld.relaxed.gpu.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(item.payload[0]), "=r"(item.payload[1]), "=r"(item.payload[2]), "=r"(item.token)
                   : "l"(from)
                   : "memory");
      if (GlobalTimer::now() - begin > watch.nanoseconds) return false;
    } while (!carries(item, round));
    return true;
  }
}

struct Counts {
  unsigned long long wrong_words;
  unsigned long long gave_up;
};

/// Block i < pairs sends to block i + pairs and gets an answer: its thread t to the other's thread t + 33.
template <Weak W, class Item>
__global__ void ping_pong(Item* there, Item* back, DeadlineWatch<> watch, Counts* counts) {
  int const pair = static_cast<int>(blockIdx.x) % k_pairs;
  int const thread = static_cast<int>(threadIdx.x);
  int const other = (thread + 33) % k_threads;
  bool const first = blockIdx.x < k_pairs;
  Item* const mine = (first ? there : back) + pair * k_threads;
  Item* const others = (first ? back : there) + pair * k_threads;
  unsigned long long wrong = 0;
  for (unsigned round = 0; round < k_rounds; ++round) {
    for (int turn = 0; turn < 2; ++turn) {
      if ((turn == 0) == first) {
        Item item;
        fill(item, pair + (first ? 0 : 100), round, thread);
        // Warps of a block are rarely done at the same time.
        if constexpr (W == Weak::one_for_all)
          if (thread >= k_threads / 2) {
            unsigned long long const begin = GlobalTimer::now();
            while (GlobalTimer::now() - begin < 1500) {
            }
          }
        send<W>(mine + thread, item, round);
      } else {
        Item read, wanted;
        bool const ok = receive<W>(others + other, read, round, watch);
        fill(wanted, pair + (first ? 100 : 0), round, other);
        wrong += words_that_differ(read, wanted);
        if (__syncthreads_or(!ok)) {
          if (thread == 0) atomicAdd(&counts->gave_up, 1ULL);
          return;
        }
      }
    }
  }
  if (wrong != 0) atomicAdd(&counts->wrong_words, wrong);
}

template <Weak W, class Item>
Counts run() {
  DeviceBuffer<Item> there(k_pairs * k_threads, 0), back(k_pairs * k_threads, 0);
  DeviceBuffer<StallRecord> stall(1, 0);
  DeviceBuffer<Counts> counts(1, 0);
  constexpr int k_shared = 120 * 1024;  // each block alone on its SM
  ok(cudaFuncSetAttribute(ping_pong<W, Item>, cudaFuncAttributeMaxDynamicSharedMemorySize, k_shared));
  ping_pong<W, Item><<<2 * k_pairs, k_threads, k_shared>>>(there.get(), back.get(), {stall.get(), k_patience},
                                                           counts.get());
  ok(cudaGetLastError());
  ok(cudaDeviceSynchronize());
  auto const result = counts.download()[0];
  testing::Test::RecordProperty("hand_overs", std::to_string(2ULL * k_pairs * k_rounds));
  testing::Test::RecordProperty("wrong_words", std::to_string(result.wrong_words));
  std::printf("  %llu hand-overs of %d items of %d bytes, %llu wrong words\n", 2ULL * k_pairs * k_rounds,
              k_threads, static_cast<int>(sizeof(Item)), result.wrong_words);
  EXPECT_EQ(result.gave_up, 0u);
  return result;
}

TEST(GpuDataToken, PacketsOfEightBytesPass) { EXPECT_EQ((run<Weak::nothing, Packet<1>>().wrong_words), 0u); }
TEST(GpuDataToken, PacketsOfSixteenBytesPass) {
  EXPECT_EQ((run<Weak::nothing, Packet<3>>().wrong_words), 0u);
}
TEST(GpuDataToken, MarkedElementsPass) { EXPECT_EQ((run<Weak::nothing, MarkedWords>().wrong_words), 0u); }
TEST(GpuDataToken, TokenBeforeItsPayloadFails) {
  EXPECT_GT((run<Weak::token_first, Packet<3>>().wrong_words), 0u);
}
TEST(GpuDataToken, OneTokenForAllItemsFails) {
  EXPECT_GT((run<Weak::one_for_all, Packet<3>>().wrong_words), 0u);
}
// The same machine code as the packet's own access on this GPU: counted, and not held to failing.
TEST(GpuDataToken, VectorAccessIsCounted) { run<Weak::vector_access, Packet<3>>(); }

constexpr int k_blocks = 48;
constexpr int k_block_threads = 64;
constexpr int k_words = k_blocks * k_block_threads;

/// Producer and consumer of a chain that is ordered by tokens alone: the second kernel starts under PDL while
/// the first still runs. Launch `missing` of block 3 leaves an item out.
__global__ void produce(Packet<1>* data, unsigned* numbers, unsigned missing) {
  pdl_trigger();
  LaunchNumber const number{numbers + blockIdx.x};
  unsigned const epoch = number.read();
  int const at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (!(epoch == missing && blockIdx.x == 3 && threadIdx.x == 5))
    put(data + at, {{mix(static_cast<unsigned>(at) ^ epoch * 0x9E3779B9u)}, 0}, epoch);
  __syncthreads();
  if (threadIdx.x == 0) number.finish(epoch);
}
__global__ void consume(Packet<1> const* data, unsigned* numbers, unsigned* sums, DeadlineWatch<> watch) {
  LaunchNumber const number{numbers + gridDim.x + blockIdx.x};
  unsigned const epoch = number.read();
  int const at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  Packet<1> read[1];
  bool const ok = take(data + (at + 7 * k_block_threads + 11) % k_words, 1, epoch, read, watch,
                       WaitPlace{1, static_cast<long long>(blockIdx.x), 0});
  if (__syncthreads_and(ok)) {
    sums[at] = mix(sums[at] ^ read[0].payload[0]);
    if (threadIdx.x == 0) number.finish(epoch);
  }
  // Completion stays transitive.
  pdl_wait();
}

struct Chain {
  DeviceBuffer<Packet<1>> data{k_words, 0};
  DeviceBuffer<unsigned> numbers{2 * k_blocks, 0};
  DeviceBuffer<unsigned> sums{k_words, 0};
  DeviceBuffer<StallRecord> stall{1, 0};
  cudaStream_t stream = nullptr;
  Chain() {
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    load(produce);
    load(consume);
  }
  ~Chain() { cudaStreamDestroy(stream); }
  void launch(unsigned missing = ~0u, unsigned long long patience = k_patience) {
    produce<<<k_blocks, k_block_threads, 0, stream>>>(data.get(), numbers.get(), missing);
    Shape shape{k_blocks, k_block_threads};
    shape.programmatic = true;
    gpu::launch(shape, stream, consume, data.get(), numbers.get(), sums.get(),
                DeadlineWatch<>{stall.get(), patience});
  }
};

TEST(GpuDataToken, HundredThousandReplaysAreBitIdentical) {
  constexpr unsigned k_launches = 100000;
  constexpr unsigned k_per_graph = 20;
  Chain chain;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  ok(cudaStreamBeginCapture(chain.stream, cudaStreamCaptureModeThreadLocal));
  for (unsigned i = 0; i < k_per_graph; ++i) chain.launch();
  ok(cudaStreamEndCapture(chain.stream, &graph));
  ok(cudaGraphInstantiate(&executable, graph, 0));
  for (unsigned i = 0; i < k_launches; i += k_per_graph) ok(cudaGraphLaunch(executable, chain.stream));
  std::vector<unsigned> expected(k_words, 0);
  for (int at = 0; at < k_words; ++at) {
    auto const from = static_cast<unsigned>((at + 7 * k_block_threads + 11) % k_words);
    for (unsigned epoch = 0; epoch < k_launches; ++epoch)
      expected[static_cast<std::size_t>(at)] =
          mix(expected[static_cast<std::size_t>(at)] ^ mix(from ^ epoch * 0x9E3779B9u));
  }
  ok(cudaStreamSynchronize(chain.stream));
  EXPECT_EQ(chain.stall.download()[0].state, 0u);
  EXPECT_EQ(chain.sums.download(), expected);
  ok(cudaGraphExecDestroy(executable));
  ok(cudaGraphDestroy(graph));
}

TEST(GpuDataToken, AMissingItemIsNamedInTime) {
  Chain chain;
  for (int i = 0; i < 4; ++i) chain.launch(2, 200'000'000);
  auto const begin = std::chrono::steady_clock::now();
  ok(cudaStreamSynchronize(chain.stream));
  std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), 60) << "no hang; how soon is the host's business";
  auto const record = chain.stall.download()[0];
  EXPECT_EQ(record.state, 2u);
  EXPECT_EQ(record.stage, 1);
  EXPECT_EQ(record.semaphore, k_data_token);
  EXPECT_EQ(record.seen, 2u);
  EXPECT_EQ(record.expected, 3u);
  // Word (3, 5) is read 7 blocks and 11 words before it.
  EXPECT_EQ(record.tile,
            ((3 * k_block_threads + 5 - 7 * k_block_threads - 11 + k_words) % k_words) / k_block_threads);
  // The GPU goes on.
  Chain next;
  next.launch();
  ok(cudaStreamSynchronize(next.stream));
  EXPECT_EQ(next.stall.download()[0].state, 0u);
}

}  // namespace
}  // namespace tessera::gpu
