// SPDX-License-Identifier: Apache-2.0
// What happens when a schedule runs on all ranks, launch behind launch: begins and ends, and which of them
// are before which whatever the GPUs do.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/gemm_collectives/schedule.hpp"

namespace tessera::gemm_collectives {

class Events {
 public:
  struct Kernel {
    int rank = 0, begin = 0, end = 0;
    int blocks = 0;
    int threads = 0;     ///< 0: no kernel, but a copy
    bool waits = false;  ///< for a peer, while it is on its SMs
  };
  /// A step of a rank in a launch: while it computes or sends what it is for. Of a sum of a shard, or of
  /// words, what it does behind its wait.
  struct Done {
    int begin = 0, end = 0;
  };

  Events(Problem const& problem, std::vector<std::vector<Step>> const& steps, int launches, bool kept_apart);

  int count() const { return static_cast<int>(names_.size()); }
  int launches() const { return launches_; }
  std::string const& name(int event) const { return names_[static_cast<std::size_t>(event)]; }
  std::vector<Kernel> const& kernels() const { return kernels_; }
  std::vector<Step> const& steps(int rank) const { return steps_[static_cast<std::size_t>(rank)]; }
  Done const& done(int launch, int rank, int step) const { return done_.at({launch, rank, step}); }
  /// Of a kernel that sends packets: until all have left it.
  Done const& sent(int launch, int rank, int step) const { return sent_.at({launch, rank, step}); }

  /// An event of a circle; -1: there is none, and before() may be asked.
  int in_a_circle() const { return circle_; }
  /// Has `first` happened whenever `second` has? An event is before itself.
  bool before(int first, int second) const;

 private:
  struct At {
    int launch, rank, step;
    auto operator<=>(At const&) const = default;
  };
  /// What a word of a rank to another is called: which, and the part.
  struct Word {
    int launch, from, to, kind, part;
    auto operator<=>(Word const&) const = default;
  };

  int add(std::string name);
  void order(int first, int second);
  void kernel(At const& at, int begin, int end, int blocks, int threads, bool waits);
  void tell_all(At const& at, int kind, int event);
  /// The event that a rank is told all of them.
  int told(At const& at, int kind, std::string const& what);
  void put_step(At const& at, Step const& step, int& last_main, int& last_side, int& main_begin);
  void join_words();
  void close();

  Problem const& problem_;
  std::vector<std::vector<Step>> const& steps_;
  int launches_;
  std::vector<std::string> names_;
  std::vector<std::vector<int>> after_;  ///< of each event: which are right behind it
  std::vector<Kernel> kernels_;
  std::map<At, Done> done_, sent_;
  std::map<Word, int> told_;
  std::vector<std::pair<Word, int>> awaited_;
  std::vector<std::vector<std::uint64_t>> before_;  ///< bits: which are before each
  int circle_ = -1;
};

}  // namespace tessera::gemm_collectives
