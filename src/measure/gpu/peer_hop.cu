// SPDX-License-Identifier: Apache-2.0
// From one GPU to another over the link: a flag, a flag behind data, and data that are their own flag. Two
// blocks, each on a GPU of its own, answer each other; half a round trip is a hop.
#include <algorithm>
#include <utility>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/device_clock.cuh"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/repeat.hpp"
#include "measure/gpu/methods/team.hpp"
#include "tessera/sync/data_token.cuh"
#include "tessera/sync/group.cuh"

namespace tessera::probe {
namespace {

constexpr unsigned long long k_deadline_ns = 1'000'000'000;
constexpr int k_flag_stride = 32;  // words: flags do not share a line of 128 bytes
constexpr int k_most_rounds = 4096;
constexpr int k_warm_up = 32;  // rounds: the second launch comes a few microseconds after the first
constexpr int k_payload = 12;  // bytes of payload in a packet of 16

enum class Post {
  store,         ///< release store of the round's number
  add,           ///< release add of one
  token,         ///< no flag: each packet of 16 bytes carries the round's number
  relaxed,       ///< relaxed store, relaxed polls: orders nothing
  relaxed_store  ///< relaxed store, acquire polls: orders nothing
};

/// One side of the exchange. Data and flag lie at the receiver, or (pulled) at the sender.
struct Side {
  unsigned const* awaited = nullptr;
  unsigned* posted = nullptr;
  uint4* inbox = nullptr;
  uint4* outbox = nullptr;
  int vectors = 0;  ///< of 16 bytes
  int rounds = 0;
  bool starts = false;
  unsigned* posts = nullptr;           ///< cycles of sending, one of each round; only of the side that starts
  unsigned* round_trips = nullptr;     ///< cycles, one of each round; only of the side that starts
  unsigned long long* span = nullptr;  ///< ns and cycles of all rounds behind the warm-up
  unsigned* wrong = nullptr;           ///< vectors that did not hold what the round's sender wrote
  DeadlineWatch<> watch = {};
};

__device__ inline unsigned word_of(unsigned round, unsigned index) { return round * 0x9E3779B9u + index; }

template <Post How>
__device__ void send(Side const& side, unsigned round) {
  for (unsigned i = threadIdx.x; i < static_cast<unsigned>(side.vectors); i += blockDim.x) {
    unsigned const word = word_of(round, i);
    if constexpr (How == Post::token)
      put<Scope::system>(reinterpret_cast<Packet<3>*>(side.outbox) + i, {{word, ~word, word ^ i}, 0}, round);
    else
      side.outbox[i] = make_uint4(word, ~word, word ^ i, round);
  }
  if constexpr (How != Post::token) {
    __syncthreads();
    if (threadIdx.x == 0) {
      if constexpr (How == Post::store) store_release<Scope::system>(side.posted, round);
      if constexpr (How == Post::add) add_release<Scope::system>(side.posted, 1);
      if constexpr (How == Post::relaxed || How == Post::relaxed_store)
        asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(side.posted), "r"(round) : "memory");
    }
  }
}

__device__ inline bool wait_relaxed(unsigned const* flag, unsigned round, DeadlineWatch<> const& watch,
                                    WaitPlace const& place) {
  auto patience = watch.begin();
  for (;;) {
    unsigned seen;
    asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    if (reached(seen, round)) return true;
    if (!watch.go_on(patience, place, seen, round)) return false;
  }
}

/// False if the deadline has passed. All threads of the block have the data afterwards.
template <Post How>
__device__ bool receive(Side const& side, unsigned round, unsigned& wrong) {
  bool ok = true;
  if constexpr (How != Post::token) {
    WaitPlace const place{side.starts ? 0 : 1, round, 0};
    if (threadIdx.x == 0)
      ok = How == Post::relaxed ? wait_relaxed(side.awaited, round, side.watch, place)
                                : wait_until<Scope::system>(side.awaited, round, side.watch, place);
    if (!group_all<Group::block>(ok)) return false;
    for (unsigned i = threadIdx.x; i < static_cast<unsigned>(side.vectors); i += blockDim.x) {
      unsigned const word = word_of(round, i);
      uint4 const seen = side.inbox[i];
      wrong += seen.x != word || seen.y != ~word || seen.z != (word ^ i) || seen.w != round;
    }
    return true;
  } else {
    for (unsigned i = threadIdx.x; i < static_cast<unsigned>(side.vectors) && ok; i += blockDim.x) {
      unsigned const word = word_of(round, i);
      Packet<3> seen[1];
      ok = take<Scope::system>(reinterpret_cast<Packet<3> const*>(side.inbox) + i, 1, round, seen, side.watch,
                               {side.starts ? 0 : 1, round, 0});
      wrong += seen[0].payload[0] != word || seen[0].payload[1] != ~word || seen[0].payload[2] != (word ^ i);
    }
    return group_all<Group::block>(ok);
  }
}

template <Post How>
__global__ void __launch_bounds__(1024) ping_pong(Side side) {
  __shared__ unsigned stamps[k_most_rounds], posts[k_most_rounds];
  unsigned wrong = 0;
  unsigned long long begin_ns = 0;
  long long begin = 0;
  for (int i = 0; i < side.rounds; ++i) {
    // Rounds count from one: zeroed flags are those of no round.
    auto const round = static_cast<unsigned>(i + 1);
    long long const before = cycles();
    if (i == k_warm_up) {
      begin_ns = global_ns();
      begin = before;
    }
    if (side.starts) send<How>(side, round);
    if (threadIdx.x == 0 && side.starts) posts[i] = static_cast<unsigned>(cycles() - before);
    if (!receive<How>(side, round, wrong)) return;
    if (!side.starts) send<How>(side, round);
    if (threadIdx.x == 0 && side.starts) stamps[i] = static_cast<unsigned>(cycles() - before);
  }
  if (wrong > 0) atomicAdd(side.wrong, wrong);
  if (threadIdx.x != 0 || !side.starts) return;
  side.span[0] = global_ns() - begin_ns;
  side.span[1] = static_cast<unsigned long long>(cycles() - begin);
  for (int i = 0; i < side.rounds; ++i) {
    side.round_trips[i] = stamps[i];
    side.posts[i] = posts[i];
  }
}

/// Everything that two ranks of a team need to play.
class Game {
 public:
  Game(Team const& team, std::size_t vectors)
      : team_(team),
        flags_(team, 2 * k_flag_stride),
        data_(team, std::max<std::size_t>(vectors, 1)),
        trips_(team, k_most_rounds),
        posts_(team, k_most_rounds),
        span_(team, 2),
        wrong_(team, 1),
        stalls_(team, 1) {
    team.preload(ping_pong<Post::store>);
    team.preload(ping_pong<Post::add>);
    team.preload(ping_pong<Post::token>);
    team.preload(ping_pong<Post::relaxed>);
    team.preload(ping_pong<Post::relaxed_store>);
  }

  struct Play {
    Post how = Post::store;
    bool pull = false;
    int first = 0, second = 1;  ///< ranks
    int vectors = 0;
    int threads = 32;
    int rounds = 0;
  };

  /// One launch on each of the two GPUs; returns the host's ns from the first launch to the end of both.
  double play(Play const& p) {
    flags_.clear();
    data_.clear();
    wrong_.clear();
    stalls_.clear();
    team_.wait();
    double const begin = host_now_ns();
    launch(p, p.first, p.second, true);
    launch(p, p.second, p.first, false);
    team_.select(0);
    team_.wait();
    double const took = host_now_ns() - begin;
    for (int rank : {p.first, p.second}) {
      right_ = right_ && wrong_.download(rank)[0] == 0 && stalls_.download(rank)[0].state == 0;
    }
    return took;
  }

  /// Half the round trips of the last game, ns.
  std::vector<double> hops(Play const& p) const { return behind_warm_up(p, trips_, 0.5); }

  /// What sending cost the first, ns: its stores and the release, not their way.
  std::vector<double> posts(Play const& p) const { return behind_warm_up(p, posts_, 1); }

  /// Since the last call: every vector held what it should, and no wait met its deadline.
  bool right() { return std::exchange(right_, true); }

 private:
  std::vector<double> behind_warm_up(Play const& p, TeamBuffer<unsigned> const& stamps, double part) const {
    auto const span = span_.download(p.first);
    auto const cycles = stamps.download(p.first);
    double const ns_per_cycle = static_cast<double>(span[0]) / static_cast<double>(std::max(1ULL, span[1]));
    std::vector<double> result;
    for (int i = k_warm_up; i < p.rounds; ++i)
      result.push_back(cycles[static_cast<std::size_t>(i)] * ns_per_cycle * part);
    return result;
  }

  void launch(Play const& p, int rank, int other, bool starts) {
    Side side;
    // Flag 0 is the starter's post, flag 1 the answer; pushed flags and data lie at the receiver.
    side.awaited = flags_.at(p.pull ? other : rank) + (starts ? k_flag_stride : 0);
    side.posted = flags_.at(p.pull ? rank : other) + (starts ? 0 : k_flag_stride);
    side.inbox = data_.at(p.pull ? other : rank);
    side.outbox = data_.at(p.pull ? rank : other);
    side.vectors = p.vectors;
    side.rounds = p.rounds;
    side.starts = starts;
    side.round_trips = trips_.at(rank);
    side.posts = posts_.at(rank);
    side.span = span_.at(rank);
    side.wrong = wrong_.at(rank);
    side.watch = {stalls_.at(rank), k_deadline_ns};
    team_.select(rank);
    auto const kernel = p.how == Post::store     ? ping_pong<Post::store>
                        : p.how == Post::add     ? ping_pong<Post::add>
                        : p.how == Post::token   ? ping_pong<Post::token>
                        : p.how == Post::relaxed ? ping_pong<Post::relaxed>
                                                 : ping_pong<Post::relaxed_store>;
    kernel<<<1, p.threads, 0, team_.stream(rank)>>>(side);
    launched();
  }

  Team const& team_;
  TeamBuffer<unsigned> flags_;
  TeamBuffer<uint4> data_;
  TeamBuffer<unsigned> trips_, posts_;
  TeamBuffer<unsigned long long> span_;
  TeamBuffer<unsigned> wrong_;
  TeamBuffer<StallRecord> stalls_;
  bool right_ = true;
};

struct Variant {
  char const* id;
  char const* what;
  char const* valid;
  Post how;
  bool pull;
};
constexpr Variant k_variants[] = {
    {"peer.hop.store", "release store into the peer's memory, who polls its own",
     "system scope; data stored into the peer's memory before the flag, and read there", Post::store, false},
    {"peer.hop.add", "release add in the peer's memory, who polls its own",
     "system scope; data stored into the peer's memory before the flag, and read there", Post::add, false},
    {"peer.hop.pull", "release store in own memory, which the peer polls over the link",
     "system scope; data stored in own memory, and read over the link", Post::store, true},
    {"peer.hop.data_token", "packets of 16 bytes that carry their token, into the peer's memory",
     "no flag and no fence: 12 of 16 bytes are data; orders nothing else", Post::token, false},
    {"peer.hop.relaxed", "relaxed store into the peer's memory, who polls its own relaxedly",
     "the link alone: orders no data, so it is not to be used as a semaphore", Post::relaxed, false},
    {"peer.hop.relaxed_store", "relaxed store into the peer's memory, who polls its own by acquire loads",
     "the release left out: orders no data, so it is not to be used as a semaphore", Post::relaxed_store,
     false},
};
struct Size {
  int bytes, threads;
};
constexpr Size k_sizes[] = {{0, 32}, {128, 32}, {4096, 256}, {32768, 1024}};

int vectors_for(Variant const& variant, int bytes) {
  int const each = variant.how == Post::token ? k_payload : 16;
  return (std::max(bytes, variant.how == Post::token ? 1 : 0) + each - 1) / each;
}

}  // namespace

void measure_peer_hop(Context const& context, Probe& probe) {
  auto const devices = reachable_gpus();
  if (devices.size() < 2) return;
  Team const team(devices);
  Game game(team, static_cast<std::size_t>(32768 / k_payload + 1));
  int const rounds = context.quick ? 500 : 2000, launches = context.quick ? 2 : 5;
  auto const many = [&](Game::Play const& p) {
    std::vector<double> hops;
    for (int i = 0; i < launches; ++i) {
      game.play(p);
      auto const more = game.hops(p);
      hops.insert(hops.end(), more.begin(), more.end());
    }
    return hops;
  };
  for (auto const& variant : k_variants) {
    std::size_t const first = probe.figures.size();
    game.right();
    bool const orders = variant.how != Post::relaxed && variant.how != Post::relaxed_store;
    for (auto const& size : k_sizes) {
      if (!orders && size.bytes > 0) continue;
      Game::Play const p{variant.how,  variant.pull, 0, 1, vectors_for(variant, size.bytes),
                         size.threads, rounds};
      probe.figures.push_back(figure_of({variant.id,
                                         variant.what,
                                         "ns",
                                         "ping-pong",
                                         {{"bytes", size.bytes}, {"threads", size.threads}, {"gpus", 2}},
                                         variant.valid},
                                        many(p)));
    }
    // The flag of 0 bytes is the same instruction as that behind data: checked with them.
    bool const right = game.right() && orders;
    for (std::size_t i = first; i < probe.figures.size(); ++i) probe.figures[i].verified = right;
  }

  for (auto const& size : k_sizes) {
    Game::Play const p{Post::store,  false, 0, 1, vectors_for(k_variants[0], size.bytes),
                       size.threads, rounds};
    game.play(p);
    probe.figures.push_back(
        figure_of({"peer.post",
                   "what the poster pays: its stores into the peer's memory and the release",
                   "ns",
                   "stamps",
                   {{"bytes", size.bytes}, {"threads", size.threads}, {"gpus", 2}},
                   "until the flag's store is issued: the release waits until the data has "
                   "arrived"},
                  game.posts(p)));
    probe.figures.back().verified = game.right();
  }

  // The same hop by the host's clock.
  game.right();
  auto const cost =
      repeat_difference_of(500, context.quick ? 2000 : 4000, context.quick ? 5 : 15, [&](int repeats) {
        Game::Play p;
        p.rounds = repeats;
        return game.play(p);
      });
  probe.figures.push_back(figure_of({"peer.hop.store.by_host",
                                     "the hop by release store, by the host's clock",
                                     "ns",
                                     "repeat difference",
                                     {{"bytes", 0}, {"threads", 32}, {"gpus", 2}},
                                     "a second method for peer.hop.store of 0 bytes"},
                                    cost, 0.5));
  probe.figures.back().verified = game.right();

  // Every other pair: links need not be alike.
  for (int a = 0; a < team.size(); ++a) {
    for (int b = a + 1; b < team.size(); ++b) {
      if (a == 0 && b == 1) continue;
      Game::Play p;
      p.first = a;
      p.second = b;
      p.rounds = rounds;
      auto figure = figure_of({"peer.hop.store",
                               k_variants[0].what,
                               "ns",
                               "ping-pong",
                               {{"bytes", 0},
                                {"threads", 32},
                                {"gpus", 2},
                                {"first_gpu", team.device(a)},
                                {"second_gpu", team.device(b)}},
                               k_variants[0].valid},
                              many(p));
      figure.verified = game.right();
      probe.figures.push_back(std::move(figure));
    }
  }
}

}  // namespace tessera::probe
