// SPDX-License-Identifier: Apache-2.0
// Which kernels, one for each operator, are worth pricing together: by what they load and what they take
// alone.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/search.hpp"
#include "plan/shapes.hpp"

namespace tessera {

struct Combination {
  std::vector<std::uint16_t> pick;  ///< option of each operator
  double stream_us = 0;             ///< sum of the stages alone
  double filled_us = 0;             ///< the same if last waves are shared
};

class ShapeCombinations {
 public:
  /// `shapes`: all options of each operator. Graph and machine outlive this.
  ShapeCombinations(OperatorGraph const& graph, MachineProfile const& machine,
                    std::vector<std::vector<ShapeOption>> shapes)
      : graph_(graph), machine_(machine), shapes_(std::move(shapes)) {}

  std::size_t operators() const { return shapes_.size(); }
  std::vector<TileChoice> choices_of(Combination const& combination) const;
  std::vector<StageRecipe> forms_of(Combination const& combination) const;

  /// Whether all operators have the same kernel and splits.
  bool is_one_choice(Combination const& combination) const;

  /// The options that are estimated best; a library's where is_beside_attention() offers it.
  Combination first_guess() const;

  /// Of the pipeline with the first guess, and of all options that price_alone() would price, each once.
  std::int64_t blocks_of_guess() const;
  std::int64_t blocks_alone() const;

  /// Leaves out what no plan as fast as the search's best stream order can have: no plan with an option is
  /// faster than the sum, over the stages, of what it takes of any shared thing, with the least that every
  /// other stage can take.
  void rule_out_by_loads(Search& search);

  /// Leaves out what is estimated hopeless, and prices the rest alone, each in its fastest form.
  void price_alone(Search& search, Pricer const& price);

  /// Leaves a library's kernels out where they are offered beside others by is_beside_attention().
  void leave_libraries_out();

  /// Leaves out what beats a library's kernel alone by less than predictions are off, where that may be taken
  /// (is_beside_attention()).
  void settle_on_libraries(Search& search);

  /// Of the options that are fastest alone and with filled waves, by stream-order time.
  std::vector<Combination> by_stream_time() const;

 private:
  Combination guess_by_estimates() const;
  std::vector<std::vector<std::size_t>> kept() const;
  bool cuts_groups_alike(Combination const& combination) const;

  OperatorGraph const& graph_;
  MachineProfile const& machine_;
  std::vector<std::vector<ShapeOption>> shapes_;
};

}  // namespace tessera
