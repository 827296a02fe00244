// SPDX-License-Identifier: Apache-2.0
// Trips of two steps, block by block on the CPU by the kernel's own functions: the bits of the plain steps.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "kernels/lattice_boltzmann/reference.hpp"
#include "kernels/lattice_boltzmann/step_plan.hpp"
#include "kernels/lattice_boltzmann/trip.hpp"
#include "lattice_boltzmann/rough.hpp"

namespace tessera::lattice_boltzmann {
namespace {

struct Lattice {
  BoxArguments box;
  std::vector<unsigned char> kinds;
  std::vector<Links> links;

  explicit Lattice(Problem const& problem)
      : box{problem.width, problem.height, problem.depth, static_cast<unsigned>(problem.size())},
        links(links_of(problem)) {
    for (auto const& one : links) kinds.push_back(kind_of(one));
    if (!links.empty()) box.kinds = kinds.data(), box.links = links.data();
  }
};

/// One block, as the kernel does it: first steps as early as they have room, or `turned`: second ones as soon
/// as they can.
template <bool Walls>
void block(BoxArguments const& box, ChipCut const& cut, int number, std::vector<float> const& from,
           std::vector<float>& to, Relaxation<float> const& of, bool turned) {
  TripTile const tile(cut, number);
  int const columns = tile.columns(), cells = tile.cells();
  ASSERT_LE(columns, Middle<Walls>::columns);
  ASSERT_LE(cells, Middle<Walls>::cells);
  std::vector<float> middle(static_cast<std::size_t>(Middle<Walls>::words * Middle<Walls>::columns),
                            std::numeric_limits<float>::quiet_NaN());
  auto const first = [&](int k) {
    for (int n = 0; n < columns && k < tile.planes(); ++n) {
      int const c = turned ? columns - 1 - n : n;
      first_of_trip<Walls>(
          box, cell_at(box, tile.place(cut, c), tile.plane(cut, k)),
          Planes<float const>{from.data(), box.cells}, of, [] {}, Middle<Walls>::own(k), middle.data(), c);
    }
  };
  auto const second = [&](int k) {
    for (int n = 0; n < cells && k >= 3; ++n) {
      int const c = tile.column_of(turned ? cells - 1 - n : n);
      second_of_trip<Walls>(box, cell_at(box, tile.place(cut, c), tile.plane(cut, k - 2)),
                            Middle<Walls>::reaching(k - 2), Middle<Walls>::own(k - 2), middle.data(), c,
                            tile.pitch, of, Planes<float>{to.data(), box.cells});
    }
  };
  for (int k = 0; k <= tile.planes(); ++k) {
    if (turned) second(k);
    first(k);
    if (!turned) second(k);
  }
}

std::vector<float> trip(Problem const& problem, ChipCut const& cut, std::vector<float> const& from,
                        bool turned) {
  Lattice const lattice(problem);
  // Cells of walls are at rest and stay so.
  std::vector<float> to(from.size(), 0.f);
  auto const of = relaxation_of<float>(problem);
  for (int b = 0; b < cut.count(); ++b) {
    int const number = turned ? cut.count() - 1 - b : b;
    if (lattice.links.empty())
      block<false>(lattice.box, cut, number, from, to, of, turned);
    else
      block<true>(lattice.box, cut, number, from, to, of, turned);
  }
  return to;
}

TEST(LatticeBoltzmannTrip, HasTheBitsOfTwoPlainSteps) {
  struct Case {
    int box[3], blocks[3];
    bool walls;
  };
  for (auto const& one : {Case{{12, 12, 12}, {2, 2, 2}, false}, Case{{13, 11, 9}, {3, 2, 2}, true},
                          Case{{7, 5, 3}, {1, 1, 1}, false}, Case{{5, 4, 6}, {5, 4, 3}, true},
                          Case{{10, 1, 3}, {3, 1, 2}, false}, Case{{2, 9, 8}, {1, 3, 1}, true},
                          Case{{6, 7, 8}, {2, 3, 8}, true}, Case{{1, 1, 1}, {1, 1, 1}, false},
                          Case{{3, 2, 1}, {1, 1, 1}, true}, Case{{16, 15, 7}, {1, 1, 1}, true}}) {
    auto problem = rough(one.box[0], one.box[1], one.box[2]);
    if (!one.walls) problem.cells.clear(), problem.faces = {};
    ChipCut cut;
    for (int a = 0; a < 3; ++a) cut.box[a] = one.box[a], cut.blocks[a] = one.blocks[a];
    for (auto const& tiles : {cut, trip_cut(problem, 132), trip_cut(problem, 2)}) {
      SCOPED_TRACE(testing::Message() << to_string(problem) << " in " << tiles.count());
      Reference<float> plain(problem);
      auto now = plain.populations();
      for (int t = 0; t < 3; ++t) {
        now = trip(problem, tiles, now, t % 2 == 1);
        plain.step(), plain.step();
        ASSERT_EQ(std::memcmp(now.data(), plain.populations().data(), now.size() * sizeof(float)), 0) << t;
      }
    }
  }
}

TEST(LatticeBoltzmannTrip, PlanesThatAreNeededHavePlacesOfTheirOwn) {
  auto const check = [](auto middle) {
    using M = decltype(middle);
    for (int k = 3; k < 14; ++k) {
      // What is made of plane k, what plane k - 2 reads meanwhile, and what is kept for the turns behind
      // that.
      std::set<int> places;
      std::size_t count = 0;
      auto const add = [&](M const& of, int i) { places.insert(of.at(i, 5)), ++count; };
      for (int i = 0; i < k_directions; ++i) {
        add(M::own(k), i);
        add(M::reaching(k - 2), i);
        if (velocity_z(i) >= 0) add(M::own(k - 1), i);
        if (velocity_z(i) > 0) add(M::own(k - 2), i);
        if (M::downs == 3 && velocity_z(i) < 0) add(M::own(k - 2), i);
      }
      EXPECT_EQ(places.size(), count);
      EXPECT_EQ(count, static_cast<std::size_t>(M::words));
      EXPECT_GE(*places.begin(), 0);
      EXPECT_LT(*places.rbegin(), M::words * M::columns);
    }
  };
  check(Middle<true>{}), check(Middle<false>{});
}

TEST(LatticeBoltzmannTrip, CutsCoverTheBoxAndFit) {
  for (auto const& problem :
       {Problem{256, 256, 256}, Problem{512, 512, 512}, Problem{4096, 4096, 1}, Problem{1, 1, 4096},
        Problem{4096, 1, 1}, Problem{97, 3, 41}, Problem{64, 64, 64}})
    for (int const sms : {1, 132}) {
      SCOPED_TRACE(to_string(problem));
      auto const cut = trip_cut(problem, sms);
      long long cells = 0;
      for (int b = 0; b < cut.count(); ++b) {
        TripTile const tile(cut, b);
        ASSERT_LE(tile.columns(), Middle<false>::columns);
        ASSERT_LE(tile.cells(), Middle<false>::cells);
        for (int a = 0; a < 3; ++a) ASSERT_GT(tile.size[a], 0);
        cells += 1LL * tile.cells() * tile.size[2];
      }
      EXPECT_EQ(cells, problem.size());
    }
  // What cells around tiles cost beyond those of the box.
  auto const problem = Problem{256, 256, 256};
  auto const updates = updates_of_trip(trip_cut(problem, 132), 132);
  EXPECT_LT(updates, 1.2 * 2 * static_cast<double>(problem.size()) / 132);
  EXPECT_GT(updates, 1.0 * 2 * static_cast<double>(problem.size()) / 132);
}

TEST(LatticeBoltzmannTrip, ComeInPairs) {
  for (long long steps = 0; steps < 40; ++steps) {
    EXPECT_EQ(trips_of(steps) % 2, 0);
    EXPECT_LT(steps - 2 * trips_of(steps), 4);
    EXPECT_EQ(launches_of(Variant::trips, steps) % 2, steps % 2) << "the first lattice behind even steps";
    EXPECT_EQ(launches_of(Variant::two_lattices, steps), steps);
  }
  EXPECT_EQ(launches_of(Variant::trips, 1000), 500);
}

}  // namespace
}  // namespace tessera::lattice_boltzmann
