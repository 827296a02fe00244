// SPDX-License-Identifier: Apache-2.0
// From a block to a block on another SM: a semaphore, alone and behind data, and data that are their own
// token; by the place of both SMs and of the words, and by who else polls.
#include <algorithm>
#include <functional>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/methods/exchange.cuh"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/halves.cuh"

namespace tessera::probe {
namespace {

constexpr unsigned k_places = 64;
/// Words: 4224 bytes, so that the places are in both halves of the L2.
constexpr unsigned k_places_apart = 1056;
constexpr int k_most_vectors = 32768 / 16;
constexpr unsigned long long k_deadline_ns = 500'000'000;

/// One block on each SM: cycles to every place.
__global__ void look(unsigned* words, int* answered, unsigned* sm) {
  if (threadIdx.x != 0) return;
  sm[blockIdx.x] = sm_index();
  for (unsigned i = 0; i < k_places; ++i) {
    unsigned const place = (i + blockIdx.x) % k_places;
    int best = cycles_to(words + place * k_places_apart);
    for (int again = 0; again < 3; ++again) best = min(best, cycles_to(words + place * k_places_apart));
    answered[sm_index() * k_places + place] = best;
  }
}

/// Where the SMs and the places are: half 0 is that of place 0. All 0 on a GPU with an L2 in one part.
struct Map {
  std::vector<int> sm_half, place_half;
  std::vector<double> near, far;
};

class Pairs {
 public:
  explicit Pairs(Context const& context)
      : context_(context),
        sms_(static_cast<unsigned>(context.device.multiProcessorCount)),
        shared_(context.device.sharedMemPerBlockOptin),
        words_(k_places * k_places_apart),
        data_(2 * k_most_vectors),
        span_(1),
        counts_(2),
        stall_(1),
        seed_(context.seed) {}

  unsigned random(unsigned below) {
    seed_ = seed_ * 1664525u + 1013904223u;
    return (seed_ >> 8) % below;
  }

  Map map() {
    DeviceBuffer<int> answered(256 * k_places);
    DeviceBuffer<unsigned> sm(sms_);
    allow_shared(look, shared_);
    launch({sms_, 32, shared_}, context_.stream, look, words_.get(), answered.get(), sm.get());
    auto const cycles = answered.download();
    auto const at = [&](unsigned s, unsigned p) { return static_cast<double>(cycles[s * k_places + p]); };
    Map map{std::vector<int>(sms_), std::vector<int>(k_places), {}, {}};
    std::vector<double> all;
    for (unsigned s = 0; s < sms_; ++s)
      for (unsigned p = 0; p < k_places; ++p) all.push_back(at(s, p));
    auto const whole = summarize(all);
    double const middle = (whole.p05 + whole.p95) / 2;
    if (whole.p95 < 1.25 * whole.p05) return map;
    for (unsigned s = 0; s < sms_; ++s) map.sm_half[s] = at(s, 0) < middle ? 0 : 1;
    for (unsigned p = 0; p < k_places; ++p)
      map.place_half[p] = (at(0, p) < middle) == (at(0, 0) < middle) ? 0 : 1;
    for (unsigned s = 0; s < sms_; ++s)
      for (unsigned p = 0; p < k_places; ++p)
        (map.sm_half[s] == map.place_half[p] ? map.near : map.far).push_back(at(s, p));
    return map;
  }

  /// A pair of SMs and two places; `wanted(sm a, sm b, place of a's word, place of b's)` may refuse.
  struct Place {
    unsigned sm[2], word[2];
  };
  template <class Wanted>
  Place draw(Wanted wanted) {
    for (int tries = 0; tries < 10000; ++tries) {
      Place const p{{random(sms_), random(sms_)}, {random(k_places), random(k_places)}};
      if (p.sm[0] != p.sm[1] && p.word[0] != p.word[1] && wanted(p)) return p;
    }
    throw std::runtime_error("no such pair of SMs");
  }
  /// ns of one hop.
  template <class Watch>
  double hop(void (*kernel)(Exchange, Watch), Watch const& watch, Place const& place, unsigned threads,
             int bytes, int rounds, unsigned pollers = 0) {
    words_.fill(context_.stream, 0);
    data_.fill(context_.stream, 0);
    counts_.fill(context_.stream, 0);
    stall_.fill(context_.stream, 0);
    Exchange x;
    for (int side = 0; side < 2; ++side) {
      x.sm[side] = place.sm[side];
      x.to[side] = words_.get() + place.word[side] * k_places_apart;
      x.data[side] = data_.get() + side * k_most_vectors;
    }
    x.vectors = bytes / 16;
    x.rounds = rounds;
    x.pollers = pollers;
    x.pollers_taken = counts_.get();
    x.span_ns = span_.get();
    x.wrong = counts_.get() + 1;
    allow_shared(kernel, shared_);
    launch({sms_, threads, shared_}, context_.stream, kernel, x, watch);
    if (stall_.download()[0].state != 0) throw std::runtime_error("a hop met its deadline");
    wrong_ += counts_.download()[1];
    return static_cast<double>(span_.download()[0]) / (2.0 * rounds);
  }

  DeadlineWatch<> deadline() const { return {stall_.get(), k_deadline_ns}; }

  /// Over SM pairs and places; with a deadline first, which shows that the pair does not hang.
  void measure(Probe& probe, std::string const& id, std::string const& what, void (*bare)(Exchange, NoWatch),
               void (*watched)(Exchange, DeadlineWatch<>), unsigned threads, int bytes,
               std::function<bool(Place const&)> const& wanted, std::string const& valid,
               unsigned pollers = 0, bool both = false) {
    wrong_ = 0;
    int const pairs = context_.quick ? 8 : 100, rounds = bytes > 4096 ? 100 : 300;
    std::vector<double> hops, with_deadline;
    for (int i = 0; i < pairs; ++i) {
      auto const place = draw(wanted);
      if (i == 0 || both)
        with_deadline.push_back(hop(watched, deadline(), place, threads, bytes, rounds, pollers));
      hops.push_back(hop(bare, NoWatch{}, place, threads, bytes, rounds, pollers));
    }
    std::map<std::string, double> at{{"threads", threads == 32 ? 1 : threads}, {"bytes", bytes}};
    if (pollers > 0 || id == "pair.hop.pollers") at["pollers"] = pollers;
    auto figure = figure_of({id, what, "ns", "ping-pong", at, valid}, hops);
    figure.verified = verified_ && wrong_ == 0;
    probe.figures.push_back(figure);
    if (!both) return;
    auto slower = figure_of(
        {id + ".deadline", what + ", waits with a deadline", "ns", "ping-pong", at, valid}, with_deadline);
    slower.verified = figure.verified;
    probe.figures.push_back(slower);
  }

  /// Hands over data through semaphores between a few pairs; what is measured next counts as verified if all
  /// were right.
  template <Post P>
  void check() {
    wrong_ = 0;
    for (int i = 0; i < 8; ++i)
      hop(exchange<P, true, DeadlineWatch<>>, deadline(), draw([](Place const&) { return true; }), 256, 4096,
          500);
    verified_ = wrong_ == 0;
  }

  unsigned sms() const { return sms_; }

 private:
  Context const& context_;
  unsigned sms_;
  std::size_t shared_;
  DeviceBuffer<unsigned> words_;
  DeviceBuffer<uint4> data_;
  DeviceBuffer<unsigned long long> span_;
  DeviceBuffer<unsigned> counts_;
  DeviceBuffer<StallRecord> stall_;
  unsigned seed_;
  unsigned long long wrong_ = 0;
  bool verified_ = true;
};

bool anywhere(Pairs::Place const&) { return true; }

template <Post P>
void of_semaphores(Probe& probe, Pairs& pairs, std::string const& id, std::string const& how) {
  pairs.check<P>();
  std::string const valid = "any two SMs and any words: p05 to p95 is the spread over them";
  pairs.measure(probe, id, "from block to block through a semaphore, " + how, exchange<P, false, NoWatch>,
                exchange<P, false, DeadlineWatch<>>, 32, 0, anywhere, valid, 0, true);
  for (int const bytes : {0, 128, 4096, 32768})
    pairs.measure(probe, id, "whole blocks hand over data through a semaphore, " + how,
                  exchange<P, true, NoWatch>, exchange<P, true, DeadlineWatch<>>, 256, bytes, anywhere, valid,
                  0, bytes == 0 || bytes == 4096);
}

template <class Item>
void of_tokens(Probe& probe, Pairs& pairs, std::string const& how) {
  pairs.measure(probe, "pair.hop.token", "whole blocks hand over data that carry their token, " + how,
                exchange_tokens<Item, NoWatch>, exchange_tokens<Item, DeadlineWatch<>>, 256,
                static_cast<int>(256 * sizeof(Item)), anywhere, "one item a thread, tokens included", 0,
                true);
}

}  // namespace

void measure_pair_hop(Context const& context, Probe& probe) {
  Pairs pairs(context);
  auto const map = pairs.map();
  if (!map.far.empty()) {
    Subject const near{"pair.answered_add.near",
                       "answered atomic on a word in the SM's half of the L2",
                       "cycle",
                       "dependent chain",
                       {},
                       "one SM among all that ask, each another word"};
    probe.figures.push_back(figure_of(near, map.near));
    Subject const far{"pair.answered_add.far",
                      "answered atomic on a word in the other half of the L2",
                      "cycle",
                      "dependent chain",
                      {},
                      "one SM among all that ask, each another word"};
    probe.figures.push_back(figure_of(far, map.far));
  }
  of_semaphores<Post::store>(probe, pairs, "pair.hop.store", "release store");
  of_semaphores<Post::add>(probe, pairs, "pair.hop.add", "release add");
  of_tokens<MarkedWords>(probe, pairs, "a bit in each 16-bit element");
  of_tokens<Packet<3>>(probe, pairs, "packets of 16 bytes");
  of_tokens<Packet<1>>(probe, pairs, "packets of 8 bytes");

  pairs.check<Post::store>();
  // The matrix, in words: what the halves of the L2 do to a hop.
  auto const halves = [&](std::string const& id, std::string const& what, auto wanted) {
    if (map.far.empty()) return;
    pairs.measure(probe, id, "from block to block through a semaphore: " + what,
                  exchange<Post::store, false, NoWatch>, exchange<Post::store, false, DeadlineWatch<>>, 32, 0,
                  wanted, "an L2 in two halves; release store, one thread a side");
  };
  auto const sm = [&](Pairs::Place const& p, int side) { return map.sm_half[p.sm[side]]; };
  auto const word = [&](Pairs::Place const& p, int side) { return map.place_half[p.word[side]]; };
  using Place = Pairs::Place;
  halves("pair.hop.half.same", "both SMs and words in one half", [&](Place const& p) {
    return sm(p, 0) == sm(p, 1) && word(p, 0) == sm(p, 0) && word(p, 1) == sm(p, 0);
  });
  halves("pair.hop.half.same_words_away", "both SMs in one half, the words in the other",
         [&](Place const& p) {
           return sm(p, 0) == sm(p, 1) && word(p, 0) != sm(p, 0) && word(p, 1) != sm(p, 0);
         });
  halves("pair.hop.half.other_word_at_reader", "SMs in different halves, each word in the half of its reader",
         [&](Place const& p) {
           return sm(p, 0) != sm(p, 1) && word(p, 0) == sm(p, 1) && word(p, 1) == sm(p, 0);
         });
  halves("pair.hop.half.other_word_at_writer", "SMs in different halves, each word in the half of its writer",
         [&](Place const& p) {
           return sm(p, 0) != sm(p, 1) && word(p, 0) == sm(p, 0) && word(p, 1) == sm(p, 1);
         });

  for (unsigned const pollers : {0u, 1u, 8u, 32u, 130u})
    if (pollers + 2 <= pairs.sms())
      pairs.measure(probe, "pair.hop.pollers",
                    "from block to block while others look at one of the two words",
                    exchange<Post::store, false, NoWatch>, exchange<Post::store, false, DeadlineWatch<>>, 32,
                    0, anywhere, "release store, one thread a side", pollers);
}

}  // namespace tessera::probe
