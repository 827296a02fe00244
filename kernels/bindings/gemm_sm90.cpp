// SPDX-License-Identifier: Apache-2.0
// gemm_sm90: one stage, as a launch of its own. It waits for operand a, tile by tile or as a whole, and posts
// to one set of semaphores, each of which is a run of neighbouring tiles of a row. Blocks take the positions
// of the order by their number.
#include "kernels/gemm_sm90/gemm.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "families.hpp"
#include "kernels/gemm_sm90/catalogue.hpp"
#include "memory.hpp"
#include "tessera/plan/orders.hpp"

namespace tessera::gemm_sm90 {
namespace {

/// Tiles of a row that share a semaphore, as the kernels' TileSemaphores has them; none for other maps.
std::optional<int> columns_per_semaphore(PolicyMap const& map, TileGrid const& grid) {
  if (map.is_table()) return std::nullopt;
  auto const& rows = map.dimension[1];
  bool const each_row = rows.grouping == Grouping::each || rows.count(grid.extent[1]) == grid.extent[1];
  if (!each_row) return std::nullopt;
  auto const& columns = map.dimension[0];
  switch (columns.grouping) {
    case Grouping::each: return 1;
    case Grouping::all: return grid.extent[0];
    case Grouping::block: return columns.width;
    case Grouping::stride: return columns.width >= grid.extent[0] ? std::optional(1) : std::nullopt;
  }
  return std::nullopt;
}

/// One GEMM of a plan: what can be said of it before it runs.
class Binding {
 public:
  explicit Binding(BindRequest const& request) : request_(request) {}

  Expected<StageKernel> make() {
    for (auto const step : {&Binding::read_kernel, &Binding::read_operands, &Binding::read_start,
                            &Binding::read_order, &Binding::read_posts, &Binding::read_waits})
      if (auto fine = (this->*step)(); !fine) return tl::make_unexpected(fine.error());
    return kernel();
  }

 private:
  Expected<void> refused(char const* field, std::string const& why, std::string const& way_out) const {
    return tl::make_unexpected(cannot_bind(request_, 0, field, why, way_out).error());
  }

  Expected<void> read_kernel() {
    auto const& stage = request_.stage();
    auto const d = tensor_of(request_, 0, "");
    if (!d) return tl::make_unexpected(d.error());
    auto const epilogue = stage.activation == "gelu"     ? Epilogue::gelu
                          : stage.activation == "swiglu" ? Epilogue::swiglu
                                                         : Epilogue::none;
    auto const name = compiled_name(request_.kernel(), epilogue, d->type);
    compiled_ = name.empty() ? nullptr : find_kernel(name.c_str());
    if (compiled_ == nullptr)
      return refused(
          "the epilogue",
          fmt::format("it is not compiled for {} with epilogue {}", to_text(d->type), to_text(epilogue)),
          "plan with the operator's epilogue and the tensors' type");
    if (stage.splits != compiled_->info.splits)
      return refused("splits",
                     fmt::format("it is compiled for {}, not {}", compiled_->info.splits, stage.splits),
                     "plan with the splits of the registry's kernel");
    call_.problem.activation = epilogue == Epilogue::gelu     ? Activation::gelu
                               : epilogue == Epilogue::swiglu ? Activation::swiglu
                                                              : Activation::none;
    return {};
  }

  Expected<void> read_operands() {
    auto const a = tensor_of(request_, 0, "a"), b = tensor_of(request_, 0, "b"),
               d = tensor_of(request_, 0, "");
    for (auto const* tensor : {&a, &b, &d})
      if (!*tensor) return tl::make_unexpected(tensor->error());
    auto& problem = call_.problem;
    problem.rows = static_cast<int>(d->rows);
    problem.columns = static_cast<int>(b->rows);
    problem.depth = static_cast<int>(b->columns);
    if (a->rows != d->rows || a->columns != b->columns || d->columns != problem.output_columns())
      return refused("operands",
                     fmt::format("{} x {} times the transpose of {} x {} is not {} x {}", a->rows, a->columns,
                                 b->rows, b->columns, d->rows, d->columns),
                     "let b have a row for each column of the product");
    for (auto const* tensor : {&a, &b, &d})
      if ((*tensor)->batch != 1 || (*tensor)->stride() != (*tensor)->columns)
        return refused("operands", "it takes one matrix without gaps between its rows",
                       "give the kernel matrices of their own");
    problem.a = a->data;
    problem.b = b->data;
    problem.d = d->data;
    return {};
  }

  Expected<void> read_start() {
    auto const& launch = request_.planned();
    if (launch.workers > 0)
      return refused("a persistent launch of several stages", "it is a kernel of its own",
                     "let the stage be a launch of its own");
    if (launch.start == LaunchStart::beside)
      return refused("a launch beside others", "its blocks do not announce that they have started",
                     "let the launch start early or in order");
    call_.early_weights = request_.stage_plan().reorder_loads;
    for (auto const& edge : request_.plan.reuse_edges)
      if (edge.writer == request_.stage_index() && edge.semaphore_set >= 0)
        return refused("a reuse edge", "it does not wait before it stores",
                       "give the buffer another place, or keep the edge by the order of launches");
    return {};
  }

  Expected<void> read_order() {
    auto const& kernel = request_.kernel();
    auto const& planned = request_.stage_plan();
    auto const& order = planned.order;
    Bands const bands = order.bands.value_or(Bands{1, 1, 1});
    bool const row_major = !order.bands && order.table.empty();
    if (!row_major && !order.bands)
      return refused("order",
                     fmt::format("its tiles are taken in bands, not as \"{}\" lists them", order.name),
                     "plan with make_band_order()");
    if (bands.cluster_rows != kernel.cluster_m || bands.cluster_columns != kernel.cluster_n)
      return refused(
          "order",
          fmt::format("its clusters are {} x {} tiles, those of the order {} x {}", kernel.cluster_m,
                      kernel.cluster_n, bands.cluster_rows, bands.cluster_columns),
          "plan with make_band_order() for the kernel's clusters");
    call_.band = bands.rows;
    auto stage = request_.stage();
    stage.can.heights = kernel.can.heights;
    if (!knows_band(stage, bands.rows))
      return refused("order",
                     fmt::format("it is compiled for bands of 1 and of 8 rows, not of {}", bands.rows),
                     "plan with bands of 1 or 8 rows");
    call_.most_blocks = planned.persistent_blocks;
    return {};
  }

  Expected<void> read_posts() {
    int const s = request_.stage_index();
    for (auto const& set : request_.plan.semaphores) {
      if (set.producer != s) continue;
      if (post_first_ >= 0)
        return refused("semaphores", "it posts to one set", "let the stages that read it share a policy");
      auto const columns = columns_per_semaphore(set.map, request_.stage().tile_grid());
      if (!columns)
        return refused(
            "semaphores",
            fmt::format("a semaphore of it is a run of tiles of one row, which {} is not", set.policy),
            "plan with TileSync or RowSync");
      post_first_ = set.first;
      call_.posts = semaphores_of(compiled_->info, call_.problem, *columns, nullptr);
    }
    return {};
  }

  Expected<void> read_waits() {
    int const s = request_.stage_index();
    auto const& pipeline = request_.plan.pipeline;
    for (auto const& planned : request_.plan.dependences) {
      auto const& dependence = pipeline.dependences[static_cast<std::size_t>(planned.dependence)];
      if (dependence.consumer != s || planned.semaphore_set < 0) continue;
      if (dependence.operand != "a" || wait_first_ >= 0)
        return refused("waits", "it waits for one producer, that of operand a",
                       "keep the other dependences by the order of launches");
      auto const& set = request_.plan.semaphores[static_cast<std::size_t>(planned.semaphore_set)];
      auto const& producer = pipeline.stages[static_cast<std::size_t>(set.producer)];
      auto const columns = columns_per_semaphore(set.map, producer.tile_grid());
      if (!columns)
        return refused("waits",
                       fmt::format("it waits for runs of tiles of one row, which {} is not", set.policy),
                       "plan with TileSync or RowSync");
      if (auto fine = check_producer(dependence.producer); !fine) return fine;
      auto const& grid = producer.grid;
      auto const* of = request_.kernels.find(producer.kernel);
      call_.waits.rows = static_cast<int>(grid[1].extent);
      call_.waits.columns = static_cast<int>(grid[0].extent);
      call_.waits.tile_rows = of->tile_m;
      call_.waits.tile_columns = producer.activation == "swiglu" ? of->tile_n / 2 : of->tile_n;
      call_.waits.columns_per_semaphore = std::clamp(*columns, 1, std::max(1, call_.waits.columns));
      wait_first_ = set.first;
    }
    return {};
  }

  /// What waits for a tile knows how large it is, and how often it is posted.
  Expected<void> check_producer(int producer) const {
    auto const& stage = request_.plan.pipeline.stages[static_cast<std::size_t>(producer)];
    auto const* kernel = request_.kernels.find(stage.kernel);
    if (kernel == nullptr || stage.grid.size() != 2)
      return refused("waits", fmt::format("the tiles of {} are not those of a registered kernel", stage.name),
                     "let the producer be a registered kernel with rows and columns of tiles");
    if (stage.splits > 1 && !stage.last_split_posts)
      return refused("waits", fmt::format("each of the {} splits of {} posts", stage.splits, stage.name),
                     "take a kernel whose last split posts");
    return {};
  }

  Expected<StageKernel> kernel() const {
    auto const& info = compiled_->info;
    StageKernel result;
    result.function = compiled_->function;
    result.block.x = static_cast<unsigned>(info.threads);
    result.dynamic_shared_bytes = info.shared_bytes;
    if (auto const error = prepare(*compiled_); error != cudaSuccess)
      return kernels::cuda_failed(error, "loading " + std::string(info.name));
    auto call = call_;
    auto const sizes = split_sizes(info, call.problem);
    std::shared_ptr<unsigned char> sums;
    if (info.splits > 1) {
      auto memory =
          kernels::zeroed(sizes.sum_bytes + sizeof(unsigned) * static_cast<std::size_t>(sizes.arrivals));
      if (!memory) return tl::make_unexpected(memory.error());
      sums = std::move(*memory);
      call.split = {reinterpret_cast<float*>(sums.get()),
                    reinterpret_cast<unsigned*>(sums.get() + sizes.sum_bytes)};
    }
    call.stage = request_.stage_index();
    auto const post_first = post_first_, wait_first = wait_first_;
    auto const* compiled = compiled_;
    result.enqueue = [call, post_first, wait_first, compiled, sums](ChainViews const& views, GpuStream stream,
                                                                    bool early) mutable {
      if (post_first >= 0) call.posts.memory = views.memory.semaphores + post_first;
      if (wait_first >= 0) {
        call.waits.memory = views.memory.semaphores + wait_first;
        call.left = tessera::detail::counter(views.memory, call.stage, tessera::detail::Counter::left);
        call.watch = views.watch();
      }
      call.programmatic = early;
      return static_cast<int>(compiled->launch(call, stream));
    };
    return result;
  }

  BindRequest const& request_;
  Kernel const* compiled_ = nullptr;
  Call call_;
  std::int64_t post_first_ = -1, wait_first_ = -1;
};

}  // namespace
}  // namespace tessera::gemm_sm90

namespace tessera {

Expected<StageKernel> bind_gemm_sm90(BindRequest const& request) {
  return gemm_sm90::Binding(request).make();
}

}  // namespace tessera
