// SPDX-License-Identifier: Apache-2.0
// The DSL of tessera/describe/dsl.hpp with brackets and slices for parentheses, range() and all().
#include <fmt/format.h>

#include "bindings.hpp"
#include "tessera/describe/workload_json.hpp"

namespace tessera::python {
namespace {

DimExtent extent_of(Dim const& dim, std::int64_t extent) { return dim = extent; }

Dim expression_of(nb::handle given) {
  if (nb::isinstance<Dim>(given)) return nb::cast<Dim>(given);
  std::int64_t tile = 0;
  if (nb::try_cast(given, tile)) return Dim(tile);
  if (PyLong_Check(given.ptr())) throw nb::value_error("a coordinate is out of range");
  auto const type = nb::cast<std::string>(given.type().attr("__name__"));
  throw nb::type_error(
      fmt::format("a coordinate is a number, a dimension, a slice or clamp(), not {}", type).c_str());
}

/// A slice along one dimension of a stage; what is left out is the grid's edge.
Coordinate part_of(nb::handle slice, std::int64_t extent) {
  if (!slice.attr("step").is_none()) throw nb::value_error("a slice of tiles has no step");
  nb::object const start = slice.attr("start"), stop = slice.attr("stop");
  return range(start.is_none() ? Dim(0) : expression_of(start),
               stop.is_none() ? Dim(extent) : expression_of(stop));
}

Coordinate coordinate_of(nb::handle given, std::int64_t extent) {
  if (PySlice_Check(given.ptr())) return part_of(given, extent);
  if (nb::isinstance<Range>(given)) return nb::cast<Range>(given);
  return expression_of(given);
}

TileRef tile_of(StageHandle const& stage, nb::handle key) {
  nb::object const all = nb::isinstance<nb::tuple>(key) ? nb::borrow(key) : nb::make_tuple(key);
  auto const& grid = stage.grid();
  std::vector<Coordinate> coordinates;
  for (nb::handle one : nb::borrow<nb::tuple>(all)) {
    auto const i = coordinates.size();
    // One coordinate too many has no extent; depends_on() says that it is too many.
    coordinates.push_back(coordinate_of(one, i < grid.size() ? grid[i].extent : 1));
  }
  return stage.at_coordinates(std::move(coordinates));
}

/// `policy` as it was given to reads(); a function gets a tile's four coordinates and answers with its
/// semaphore.
void set_policy(DependenceHandle& dependence, nb::handle policy) {
  if (policy.is_none()) return;
  if (nb::isinstance<NamedPolicy>(policy)) {
    dependence.policy(nb::cast<NamedPolicy const&>(policy));
    return;
  }
  if (!PyCallable_Check(policy.ptr()))
    throw nb::type_error("a policy is each_tile(), rows(), strided(), whole_grid() or a function of a tile");
  auto const function = nb::borrow<nb::object>(policy);
  auto const name = nb::cast<std::string>(nb::str(nb::getattr(policy, "__name__", nb::str("policy"))));
  dependence.policy(name, [&](Tile const& tile) {
    return nb::cast<long long>(function(tile.at[0], tile.at[1], tile.at[2], tile.at[3]));
  });
}

OnComplete action_of(std::string const& word) {
  if (word == "release_waiters") return OnComplete::release_waiters;
  if (word == "start_peer_copy") return OnComplete::start_peer_copy;
  if (word == "reduce_into_peer") return OnComplete::reduce_into_peer;
  throw nb::value_error("on_complete is release_waiters, start_peer_copy or reduce_into_peer");
}

/// A tile of the consumer reads tiles of producers.
void add_reads(TileRef const& consumer, nb::args producers, std::string const& through, nb::handle policy,
               std::string const& on_complete) {
  std::vector<TileRef> tiles;
  for (nb::handle producer : producers) {
    if (!nb::isinstance<TileRef>(producer)) throw nb::type_error("reads() takes tiles, as gemm1[:, y]");
    tiles.push_back(nb::cast<TileRef const&>(producer));
  }
  auto* const builder = const_cast<PipelineBuilder*>(consumer.builder);
  auto dependence = builder->depends_on(ConsumerTile(consumer, calling_line()), tiles);
  if (!through.empty()) dependence.through(through);
  set_policy(dependence, policy);
  dependence.on_complete(action_of(on_complete));
}

void bind_dim(nb::module_& m) {
  nb::class_<Dim>(
      m, "Dim", "A dimension of a grid, or an affine expression over dimensions: + - * // % with constants.")
      .def(nb::init<std::int64_t>(), nb::arg("constant"))
      .def(
          "__add__", [](Dim const& a, Dim const& b) { return a + b; }, nb::is_operator(),
          nb::sig("def __add__(self, other: int | Dim, /) -> Dim"))
      .def(
          "__radd__", [](Dim const& a, Dim const& b) { return b + a; }, nb::is_operator(),
          nb::sig("def __radd__(self, other: int | Dim, /) -> Dim"))
      .def(
          "__sub__", [](Dim const& a, Dim const& b) { return a - b; }, nb::is_operator(),
          nb::sig("def __sub__(self, other: int | Dim, /) -> Dim"))
      .def(
          "__rsub__", [](Dim const& a, Dim const& b) { return b - a; }, nb::is_operator(),
          nb::sig("def __rsub__(self, other: int | Dim, /) -> Dim"))
      .def(
          "__mul__", [](Dim const& a, Dim const& b) { return a * b; }, nb::is_operator(),
          nb::sig("def __mul__(self, other: int | Dim, /) -> Dim"))
      .def(
          "__rmul__", [](Dim const& a, Dim const& b) { return b * a; }, nb::is_operator(),
          nb::sig("def __rmul__(self, other: int | Dim, /) -> Dim"))
      .def(
          "__floordiv__", [](Dim const& a, std::int64_t by) { return a / by; }, nb::is_operator())
      .def(
          "__mod__", [](Dim const& a, std::int64_t by) { return a % by; }, nb::is_operator())
      .def("__neg__", [](Dim const& a) { return -a; });
  nb::implicitly_convertible<std::int64_t, Dim>();

  m.def(
      "min", [](Dim const& a, Dim const& b) { return min(a, b); }, nb::arg("a"), nb::arg("b"),
      nb::sig("def min(a: int | Dim, b: int | Dim) -> Dim"), "The smaller of two expressions.");
  m.def(
      "max", [](Dim const& a, Dim const& b) { return max(a, b); }, nb::arg("a"), nb::arg("b"),
      nb::sig("def max(a: int | Dim, b: int | Dim) -> Dim"), "The larger of two expressions.");

  nb::class_<Range>(m, "Range", "Tiles of a dimension, cut to the grid: what clamp() returns.");
  m.def(
      "clamp", [](Dim const& begin, Dim const& end) { return clamp(range(begin, end)); }, nb::arg("begin"),
      nb::arg("end"), nb::sig("def clamp(begin: int | Dim, end: int | Dim) -> Range"),
      "Tiles from `begin` up to but without `end`, cut to the producer's grid: a convolution's halo.");
  m.def(
      "clamp", [](Dim const& tile) { return clamp(tile); }, nb::arg("tile"),
      nb::sig("def clamp(tile: int | Dim) -> Range"),
      "One tile, or none where it lies outside the producer's grid.");
}

void bind_policies(nb::module_& m) {
  nb::class_<NamedPolicy>(m, "Policy", "Which of a producer's tiles share a semaphore.")
      .def_ro("name", &NamedPolicy::name);
  m.def("each_tile", &each_tile, "A semaphore for each tile (TileSync).");
  m.def("rows", &rows, nb::arg("together") = 1,
        "So many neighbouring rows share one (RowSync, BatchedRowSync).");
  m.def("strided", &strided, nb::arg("tiles"), "Tiles of a row at this distance share one (StridedSync).");
  m.def("whole_grid", &whole_grid, "One semaphore for the whole grid (GridSync).");
}

void bind_stage(nb::module_& m) {
  nb::class_<Resources>(m, "Resources", "What one thread block holds while it is resident.")
      .def(
          "__init__",
          [](Resources* self, int threads, int registers_per_thread, int shared_bytes) {
            new (self) Resources{threads, registers_per_thread, shared_bytes};
          },
          nb::kw_only(), nb::arg("threads") = 256, nb::arg("registers_per_thread") = 64,
          nb::arg("shared_bytes") = 0)
      .def_ro("threads", &Resources::threads)
      .def_ro("registers_per_thread", &Resources::registers_per_thread)
      .def_ro("shared_bytes", &Resources::shared_bytes, "Static and dynamic.");
  nb::class_<StageCost>(m, "StageCost", "What one block of a stage computes and writes.")
      .def(
          "__init__",
          [](StageCost* self, double flops, double store, int k_steps, int pipeline_stages) {
            new (self) StageCost{flops, store, k_steps, pipeline_stages};
          },
          nb::kw_only(), nb::arg("flops_per_block") = 0.0, nb::arg("store_bytes_per_block") = 0.0,
          nb::arg("k_steps") = 1, nb::arg("pipeline_stages") = 2)
      .def_ro("flops_per_block", &StageCost::flops_per_block)
      .def_ro("store_bytes_per_block", &StageCost::store_bytes_per_block)
      .def_ro("k_steps", &StageCost::k_steps, "Main-loop slices of one block.")
      .def_ro("pipeline_stages", &StageCost::pipeline_stages, "Slices in flight in one block.");

  nb::class_<TileRef>(m, "Tile", "A stage with coordinates: gemm1[:, y].")
      .def("reads", &add_reads, nb::arg("producers"), nb::kw_only(), nb::arg("through") = "",
           nb::arg("policy").none() = nb::none(), nb::arg("on_complete") = "release_waiters",
           nb::sig("def reads(self, *producers: Tile, through: str = '', policy: Policy | "
                   "collections.abc.Callable[[int, int, int, int], int] | None = None, on_complete: str = "
                   "'release_waiters') "
                   "-> None"),
           "This tile reads these tiles of producers, through the operand `through` (the producer's output "
           "unless said). `policy` says which of the producer's tiles share a semaphore, where the planner "
           "shall not choose.");
  m.def("earlier", &earlier, nb::arg("tile"), nb::arg("iterations") = 1, nb::keep_alive<0, 1>(),
        "The tile of so many iterations before: of a loop.");

  nb::class_<StageHandle>(m, "Stage", "A stage of a pipeline: stage[x, y] is a tile of it.")
      .def("__repr__",
           [](StageHandle const& self) {
             std::string grid;
             for (auto const& [name, extent] : self.grid())
               grid += fmt::format("{}{}: {}", grid.empty() ? "" : ", ", name, extent);
             return fmt::format("<tessera.Stage {} {{{}}}>", self.name(), grid);
           })
      .def("__getitem__", &tile_of, nb::arg("tile"), nb::keep_alive<0, 1>(),
           nb::sig("def __getitem__(self, tile: int | Dim | Range | slice | tuple[int | Dim | Range | slice, "
                   "...], /) -> Tile"))
      .def(
          "reads",
          [](StageHandle& self, std::string operand, std::string buffer, double bytes, double unique) {
            self.reads(std::move(operand), std::move(buffer), bytes, unique);
          },
          nb::arg("operand"), nb::arg("buffer"), nb::kw_only(), nb::arg("bytes_per_block") = 0.0,
          nb::arg("unique_bytes") = 0.0,
          "An operand that comes from outside, or the cost of one that a dependence brings.");
}

void bind_builder(nb::module_& m) {
  nb::class_<PipelineBuilder> pipelines(m, "Pipeline",
                                        "Stages and what their tiles read of each other. Mistakes are "
                                        "collected, each with its line, and raised by "
                                        "check(), plan() and to_json().");
  add_document(pipelines, "The document of schema tessera.workload/1.",
               [](PipelineBuilder const& self) { return print_workload(workload_of(nb::find(self))); });
  pipelines
      .def(
          "__init__",
          [](PipelineBuilder* self, std::string name) {
            new (self) PipelineBuilder(std::move(name), calling_line(), HostLanguage::python);
          },
          nb::arg("name"))
      .def(
          "dim", [](PipelineBuilder& self, std::string_view name) { return self.dim(name, calling_line()); },
          nb::arg("name"), "A dimension, which several grids may share.")
      .def(
          "dims",
          [](nb::handle_t<PipelineBuilder> self, nb::args names) {
            auto& builder = nb::cast<PipelineBuilder&>(self);
            nb::list dims;
            for (nb::handle name : names) {
              nb::object dim = nb::cast(builder.dim(nb::cast<std::string>(name), calling_line()));
              dims.append(dim);
            }
            return nb::tuple(dims);
          },
          nb::sig("def dims(self, *names: str) -> tuple[Dim, ...]"), "x, y = pipeline.dims(\"x\", \"y\")")
      .def(
          "stage",
          [](PipelineBuilder& self, std::string name, nb::dict grid, int splits, std::string const& output,
             std::string const& kernel, std::optional<Resources> const& resources,
             std::optional<StageCost> const& cost) {
            std::vector<DimExtent> extents;
            for (auto const& [dim, extent] : grid) {
              std::int64_t tiles = 0;
              if (!nb::isinstance<Dim>(dim) || !nb::try_cast(extent, tiles))
                throw nb::type_error("a grid is written {x: 24, y: 4}, with dimensions that dims() returned");
              extents.push_back(extent_of(nb::cast<Dim const&>(dim), tiles));
            }
            auto stage = self.stage(std::move(name), extents, calling_line());
            stage.splits(splits);
            if (!output.empty()) stage.output(output);
            if (!kernel.empty()) stage.kernel(kernel);
            if (resources) stage.resources(*resources);
            if (cost) stage.cost(*cost);
            return stage;
          },
          nb::arg("name"), nb::arg("grid"), nb::kw_only(), nb::arg("splits") = 1, nb::arg("output") = "",
          nb::arg("kernel") = "", nb::arg("resources").none() = nb::none(),
          nb::arg("cost").none() = nb::none(), nb::keep_alive<0, 1>(),
          nb::sig("def stage(self, name: str, grid: dict[Dim, int], *, splits: int = 1, output: str = '', "
                  "kernel: str = '', resources: Resources | None = None, cost: StageCost | None = None) -> "
                  "Stage"),
          "A kernel whose grid has so many tiles along each dimension, the first one fastest: "
          "stage(\"gemm1\", {x: 24, y: 4}). Stages run in the order in which they are declared. `output` is "
          "the buffer that it writes, the stage's name unless given.")
      .def("copies", &PipelineBuilder::copies, nb::arg("buffer"), nb::arg("count"),
           "How many copies of a buffer the iterations of a loop take turns at.")
      .def("each_iteration", &PipelineBuilder::each_iteration, nb::arg("buffer"),
           "Each iteration has this buffer of its own: a layer's weights.");
}

}  // namespace

void bind_describe(nb::module_& m) {
  bind_dim(m);
  bind_policies(m);
  bind_stage(m);
  bind_builder(m);
}

}  // namespace tessera::python
