// SPDX-License-Identifier: Apache-2.0
// gemm_sm90: one stage, as a launch of its own, under any policy. It waits for operand a tile by tile where a
// registered kernel makes it, and for all else that a tile reads, and buffers that it overwrites, before it
// loads the tile. Blocks take the positions of the order by their number.
#include "kernels/gemm_sm90/gemm.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "families.hpp"
#include "kernels/common/refusal.hpp"
#include "kernels/gemm_sm90/catalogue.hpp"
#include "tessera/plan/orders.hpp"

namespace tessera::gemm_sm90 {
namespace {

/// One GEMM of a plan: what can be said of it before it runs.
class Binding {
 public:
  explicit Binding(BindRequest const& request) : request_(request) {}

  Expected<StageKernel> make() {
    for (auto const step : {&Binding::read_kernel, &Binding::read_operands, &Binding::read_start,
                            &Binding::read_order, &Binding::read_waits})
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
    if (stage.activation == to_text(Epilogue::residual))
      return refused("the epilogue", "it adds no residual", "take another kernel");
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
    if (duties_of(request_.plan, request_.stage_index()).announces_start)
      return refused("a launch beside this one", "its blocks do not announce that they have started",
                     "let the next launch start early or in order");
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

  Expected<void> read_waits() {
    auto const& pipeline = request_.plan.pipeline;
    int makes_a = -1, dependences_of_a = 0;
    for (auto const& dependence : pipeline.dependences) {
      if (dependence.consumer != request_.stage_index()) continue;
      if (dependence.operand != "a" && dependence.operand != "b")
        return refused("waits", fmt::format("it reads no operand \"{}\"", dependence.operand),
                       "let others make operands a and b only");
      if (dependence.operand != "a") continue;
      makes_a = dependence.producer;
      ++dependences_of_a;
    }
    if (dependences_of_a == 1) call_.producer = tile_of(makes_a);
    return {};
  }

  /// Of what one registered product makes, where that is a and nothing else; none of others.
  ProducerTile tile_of(int producer) const {
    auto const& stage = request_.plan.pipeline.stages[static_cast<std::size_t>(producer)];
    auto const* kernel = request_.kernels.find(stage.kernel);
    if (kernel == nullptr || kernel->kind != OperatorKind::gemm || kernel->whole || stage.grid.size() != 2)
      return {};
    ProducerTile const tile{kernel->tile_m,
                            stage.activation == "swiglu" ? kernel->tile_n / 2 : kernel->tile_n};
    auto const covers = [](int extent, int size, std::int64_t tiles) {
      return (extent + size - 1) / size == tiles;
    };
    auto const grid = stage.tile_grid();
    bool const all = covers(call_.problem.depth, tile.columns, grid.extent[0]) &&
                     covers(call_.problem.rows, tile.rows, grid.extent[1]);
    return all ? tile : ProducerTile{};
  }

  Expected<StageKernel> kernel() {
    auto const& info = compiled_->info;
    StageKernel result;
    result.chains = true;
    result.function = compiled_->function;
    result.block.x = static_cast<unsigned>(info.threads);
    result.dynamic_shared_bytes = info.shared_bytes;
    result.cluster.x = static_cast<unsigned>(info.cluster_rows * info.cluster_columns);
    if (auto const error = prepare(*compiled_); error != cudaSuccess)
      return kernels::cuda_failed(error, "loading " + std::string(info.name));
    auto call = call_;
    if (info.splits > 1)
      if (auto given = meeting_place(result, call); !given) return tl::make_unexpected(given.error());
    auto const* compiled = compiled_;
    auto const stage = static_cast<std::size_t>(request_.stage_index());
    result.enqueue = [call, stage, compiled, sums = sums_, arrivals = arrivals_](
                         ChainViews const& views, GpuStream stream, bool early) mutable {
      call.stage = views.stages[stage];
      call.memory = views.memory;
      call.watch = views.watch();
      call.programmatic = early;
      call.shared_percent = views.shared_percent;
      return static_cast<int>(compiled->launch(call, stream));
    };
    return result;
  }

  /// Where the blocks of a tile meet. Their counts come out even in every launch, and are this kernel's, for
  /// these sizes; the sums are anybody's between launches, but another stage may still add its own.
  Expected<void> meeting_place(StageKernel& kernel, Call& call) {
    auto const& problem = call.problem;
    auto const sizes = split_sizes(compiled_->info, problem);
    auto const bytes = sizeof(unsigned) * static_cast<std::size_t>(sizes.arrivals);
    auto sums =
        request_.scratch.get(fmt::format("sums of stage {}", request_.stage_index()), sizes.sum_bytes);
    if (!sums) return tl::make_unexpected(sums.error());
    auto arrivals =
        request_.scratch.get(fmt::format("arrivals of stage {}, {}, {} x {} x {}", request_.stage_index(),
                                         compiled_->info.name, problem.rows, problem.columns, problem.depth),
                             bytes, true);
    if (!arrivals) return tl::make_unexpected(arrivals.error());
    sums_ = *sums;
    arrivals_ = *arrivals;
    call.split = {static_cast<float*>(sums_.get()), static_cast<unsigned*>(arrivals_.get())};
    kernel.reset = [arrivals = arrivals_, bytes](GpuStream stream) {
      return static_cast<int>(cudaMemsetAsync(arrivals.get(), 0, bytes, stream));
    };
    return {};
  }

  BindRequest const& request_;
  Kernel const* compiled_ = nullptr;
  Call call_;
  std::shared_ptr<void> sums_, arrivals_;
};

}  // namespace
}  // namespace tessera::gemm_sm90

namespace tessera {

Expected<StageKernel> bind_gemm_sm90(BindRequest const& request) {
  return gemm_sm90::Binding(request).make();
}

}  // namespace tessera
