// SPDX-License-Identifier: Apache-2.0
// Describe a pipeline in C++:
//
//   PipelineBuilder mlp("mlp");
//   auto [x, y] = mlp.dims("x", "y");
//   auto gemm1 = mlp.stage("gemm1", {x = 24, y = 4});
//   auto gemm2 = mlp.stage("gemm2", {x = 48, y = 4});
//   mlp.depends(gemm2(x, y), gemm1(all(x), y));     // a row of gemm1 before a tile of gemm2
//   Expected<Pipeline> pipeline = mlp.build();
//
// A loop says what an iteration reads of earlier ones:
//
//   stencil.depends(step(x), earlier(step(clamp(range(x - 1, x + 2)))));
//   stencil.copies("step", 2);                      // a step overwrites what the one before it read
//   Expected<Loop> loop = stencil.build_loop();
//
// In cuSync's words: Dim is Dim; stage() makes a Grid; gemm1(x, y) is a Tile; range() is a Range; all() is
// a ForAll over the whole dimension; depends() is a Dep. Mistakes are collected with the user's line, and
// build() returns them all.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "loop.hpp"

namespace tessera {

class PipelineBuilder;
class StageHandle;

/// One dimension of a stage's grid with its number of tiles; written `x = 24`.
struct DimExtent {
  void const* owner = nullptr;
  int dim = 0;
  std::int64_t extent = 1;
};

/// A dimension, or an affine expression over dimensions with division and modulo by constants. Division
/// rounds down. Expressions remember the first mistake made in them; depends() reports it.
class Dim {
 public:
  Dim(std::int64_t constant);                                      // NOLINT: numbers are expressions
  Dim(int constant) : Dim(static_cast<std::int64_t>(constant)) {}  // NOLINT

  Dim(Dim const&) = default;
  Dim& operator=(Dim const&) = default;
  // Both, so that neither is ambiguous with copy assignment.
  DimExtent operator=(std::integral auto extent) { return with_extent(static_cast<std::int64_t>(extent)); }
  DimExtent operator=(std::integral auto extent) const {
    return with_extent(static_cast<std::int64_t>(extent));
  }

  friend Dim operator+(Dim const& a, Dim const& b);
  friend Dim operator-(Dim const& a, Dim const& b);
  friend Dim operator-(Dim const& a);
  friend Dim operator*(Dim const& a, Dim const& b);  ///< one side must be a constant
  friend Dim operator/(Dim const& a, std::int64_t divisor);
  friend Dim operator%(Dim const& a, std::int64_t divisor);
  friend Dim floor(Dim const& quotient);  ///< for those who write floor(x / 9): division rounds down
  friend Dim min(Dim const& a, Dim const& b);
  friend Dim max(Dim const& a, Dim const& b);

 private:
  friend class PipelineBuilder;
  struct Problem {
    std::string code, message;
  };
  Dim(void const* owner, TileExpr expr) : owner_(owner), expr_(std::move(expr)) {}
  static Dim combine(Dim const& a, Dim const& b, TileExpr (*operation)(TileExpr, TileExpr));
  void fail(char const* code, std::string message);
  DimExtent with_extent(std::int64_t extent) const;

  void const* owner_ = nullptr;  // the builder's identity; null for constants
  TileExpr expr_;                // over the builder's dimensions
  std::optional<Problem> problem_;
};

/// Half-open range of tiles of one producer dimension.
struct Range {
  Dim begin, end;
  bool clamp = false;
};
inline Range range(Dim begin, Dim end) { return {std::move(begin), std::move(end), false}; }
/// Cut to the producer's grid: a convolution's halo. Without it, leaving the grid is an error.
inline Range clamp(Range inside) { return {std::move(inside.begin), std::move(inside.end), true}; }
inline Range clamp(Dim const& tile) { return {tile, tile + 1, true}; }

/// Every tile along the producer's dimension.
struct WholeDimension {
  Dim dim;
};
inline WholeDimension all(Dim dim) { return {std::move(dim)}; }

/// What can stand in gemm1(...).
using Coordinate = std::variant<Dim, Range, WholeDimension>;

/// A stage with coordinates.
struct TileRef {
  PipelineBuilder const* builder = nullptr;
  int stage = 0;
  std::vector<Coordinate> coordinates;
  int distance = 0;  ///< iterations back; 0: the same
};
/// The producer's tiles of so many iterations before, which may be of any stage: of the consumer itself, too.
/// 0: of the same iteration, as without earlier().
inline TileRef earlier(TileRef tile, int iterations = 1) {
  tile.distance = iterations;
  return tile;
}

/// The first argument of depends(); takes down the user's line.
struct ConsumerTile {
  ConsumerTile(TileRef ref, std::source_location place = std::source_location::current())  // NOLINT
      : tile(std::move(ref)), where{place.file_name(), static_cast<int>(place.line())} {}
  ConsumerTile(TileRef ref, SourceLine place) : tile(std::move(ref)), where(std::move(place)) {}
  TileRef tile;
  SourceLine where;
};

/// What one block of a stage costs; see Stage.
struct StageCost {
  double flops_per_block = 0;
  double store_bytes_per_block = 0;
  int k_steps = 1;
  int pipeline_stages = 2;
};

/// A stage of a builder that outlives it. Setters return the handle.
class StageHandle {
 public:
  template <class... Coordinates>
  TileRef operator()(Coordinates const&... at) const {
    return at_coordinates({Coordinate(coordinate(at))...});
  }
  TileRef at_coordinates(std::vector<Coordinate> coordinates) const {
    return {builder_, index_, std::move(coordinates)};
  }
  std::string const& name() const { return stage().name; }
  /// Tiles along each dimension.
  std::vector<GridDim> const& grid() const { return stage().grid; }
  StageHandle& splits(int factor);
  StageHandle& output(std::string buffer);
  /// An operand that comes from outside, or the cost of one that a dependence brings.
  StageHandle& reads(std::string operand, std::string buffer, double bytes_per_block = 0,
                     double unique_bytes = 0);
  StageHandle& kernel(std::string name);
  StageHandle& resources(Resources const& held);
  StageHandle& cost(StageCost const& cost);

 private:
  friend class PipelineBuilder;
  StageHandle(PipelineBuilder* builder, int index) : builder_(builder), index_(index) {}
  static Dim coordinate(int constant) { return Dim(constant); }
  static Dim coordinate(std::int64_t constant) { return Dim(constant); }
  static Dim const& coordinate(Dim const& dim) { return dim; }
  static Range const& coordinate(Range const& range) { return range; }
  static WholeDimension const& coordinate(WholeDimension const& all) { return all; }
  Stage& stage() const;

  PipelineBuilder* builder_;
  int index_;
};

/// What depends() has made: one dependence for each producer stage.
class DependenceHandle {
 public:
  /// The operand that the tiles are read through; the producer's output buffer's name unless given.
  DependenceHandle& through(std::string operand);
  DependenceHandle& on_complete(OnComplete action);
  /// Which of the producer's tiles share a semaphore, where the planner shall not choose: each_tile(),
  /// rows(2), strided(12), product({...}). Plans that keep the dependence by the order of launches need none
  /// and ignore it.
  DependenceHandle& policy(NamedPolicy const& wanted);
  /// Any other: `semaphore_of(tile)` is called for each of the producer's tiles and answers from 0 up without
  /// gaps.
  DependenceHandle& policy(std::string name, std::function<long long(Tile const&)> const& semaphore_of);

 private:
  friend class PipelineBuilder;
  DependenceHandle(PipelineBuilder* builder, std::size_t first, std::size_t count)
      : builder_(builder), first_(first), count_(count) {}

  PipelineBuilder* builder_;
  std::size_t first_, count_;
};

/// The language in whose syntax hints are written: gemm1(x, y), or gemm1[x, y].
enum class HostLanguage { cpp, python };

class PipelineBuilder {
 public:
  explicit PipelineBuilder(std::string name, std::source_location place = std::source_location::current());
  /// For a binding of another language, which hands over the user's lines itself: the overloads with a
  /// SourceLine.
  PipelineBuilder(std::string name, SourceLine where, HostLanguage language);
  PipelineBuilder(PipelineBuilder const&) = delete;  // dimensions and handles know their builder
  PipelineBuilder& operator=(PipelineBuilder const&) = delete;

  Dim dim(std::string_view name, std::source_location place = std::source_location::current());
  Dim dim(std::string_view name, SourceLine where);
  /// auto [x, y] = pipeline.dims("x", "y");
  template <class... Names>
  std::array<Dim, sizeof...(Names)> dims(Names const&... names) {
    return {dim(names)...};
  }

  /// Stages run in the order in which they are declared.
  StageHandle stage(std::string name, std::initializer_list<DimExtent> grid,
                    std::source_location place = std::source_location::current());
  StageHandle stage(std::string name, std::vector<DimExtent> const& grid, SourceLine where);

  /// A tile of the consumer, named by plain dimensions, reads the producers' tiles.
  template <class... Producers>
  DependenceHandle depends(ConsumerTile consumer, Producers const&... producers) {
    return depends_on(consumer, std::vector<TileRef>{producers...});
  }
  DependenceHandle depends_on(ConsumerTile const& consumer, std::vector<TileRef> const& producers);

  /// How many copies of a buffer the iterations of a loop take turns at; 1 unless said.
  void copies(std::string buffer, int count);
  /// Each iteration has this buffer of its own: a layer's weights.
  void each_iteration(std::string buffer) { copies(std::move(buffer), BufferCopies::each_iteration); }

  /// The pipeline, or every mistake. What the stages' tiles mean together is check()'s business.
  Expected<Pipeline> build() const;
  /// The same of a loop, whose body the stages are. build() refuses a loop (E0139).
  Expected<Loop> build_loop() const;

 private:
  friend class StageHandle;
  friend class DependenceHandle;

  /// Consumer position of each of the builder's dimensions, -1 where it has none; false after a report.
  bool bind(ConsumerTile const& consumer, std::vector<int>& position_of);
  bool to_access(ConsumerTile const& consumer, TileRef const& producer, std::vector<int> const& position_of,
                 Access& access);
  bool translate(Dim const& dim, std::vector<int> const& position_of, ConsumerTile const& consumer,
                 TileExpr& out);
  bool check_rank(TileRef const& tile, SourceLine const& where);
  void report(char const* code, SourceLine const& where, std::string message,
              std::vector<std::string> notes = {}, std::string suggestion = {});

  HostLanguage language_ = HostLanguage::cpp;
  Pipeline pipeline_;
  std::vector<std::string> dim_names_;
  std::vector<std::vector<int>> stage_dims_;  // the builder's dimensions of each stage's grid
  std::vector<int> distances_;                // of the dependences
  std::vector<BufferCopies> copies_;
  Diagnostics problems_;
};

}  // namespace tessera
