// SPDX-License-Identifier: Apache-2.0
#include "halves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>

#include "cublaslt.hpp"
#include "gated.hpp"
#include "kernels/gemm_sm90/candidates.hpp"

namespace tessera::mlp {
namespace {

// ------------------------------------------------------------------------------------------------ cuBLASLt

LtProblem lt_problem(Shape const& shape, Which which) {
  if (which == Which::second) return {shape.tokens, shape.model, shape.hidden, shape.type, false};
  bool const gated = shape.form == Form::swiglu;
  return {shape.tokens, gated ? 2 * shape.hidden : shape.hidden, shape.model, shape.type, !gated};
}

Half lt_half(Shape const& shape, Which which, std::shared_ptr<LtGemm const> const& gemm,
             LtAlgorithm const& algorithm) {
  Half half;
  half.name = lt_name(algorithm);
  bool const gated = which == Which::first && shape.form == Form::swiglu;
  half.needs_gate_up = gated;
  half.rounds_gate_up = gated;
  if (which == Which::second)
    half.launch = [gemm, algorithm](Buffers const& b, Workspace const& workspace, cudaStream_t stream) {
      return gemm->run(algorithm, b.h, b.w2, b.y, workspace.library, stream);
    };
  else if (!gated)
    half.launch = [gemm, algorithm](Buffers const& b, Workspace const& workspace, cudaStream_t stream) {
      return gemm->run(algorithm, b.x, b.w1, b.h, workspace.library, stream);
    };
  else
    half.launch = [gemm, algorithm, shape](Buffers const& b, Workspace const& workspace,
                                           cudaStream_t stream) {
      cudaError_t const error = gemm->run(algorithm, b.x, b.w1, workspace.gate_up, workspace.library, stream);
      return error != cudaSuccess
                 ? error
                 : swiglu(workspace.gate_up, b.h, shape.tokens, shape.hidden, shape.type, stream);
    };
  return half;
}

// ----------------------------------------------------------------------------------------------- gemm_sm90

/// Once per kernel and device: a kernel that is first loaded behind one that spins would never start.
bool prepared(gemm_sm90::Kernel const& kernel) {
  static std::mutex mutex;
  static std::vector<std::pair<int, void const*>> done;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return false;
  std::lock_guard const lock(mutex);
  std::pair<int, void const*> const key{device, kernel.function};
  if (std::find(done.begin(), done.end(), key) != done.end()) return true;
  if (gemm_sm90::prepare(kernel) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  done.push_back(key);
  return true;
}

gemm_sm90::PairPlan plan_of(Which which, gemm_sm90::Half const& tiles) {
  gemm_sm90::PairPlan plan;
  plan.early_weights = false;
  (which == Which::first ? plan.first : plan.second) = tiles;
  return plan;
}

gemm_sm90::Call call_of(Shape const& shape, Which which, gemm_sm90::Half const& tiles, Buffers const& b,
                        Workspace const& workspace) {
  auto const calls = gemm_sm90::calls_of(plan_of(which, tiles), pair_buffers(shape, b, workspace));
  return which == Which::first ? calls.first : calls.second;
}

}  // namespace

Expected<std::vector<Half>> cublaslt_halves(Shape const& shape, Which which) {
  auto const gemm = LtGemm::make(lt_problem(shape, which));
  if (!gemm) return tl::make_unexpected(gemm.error());
  std::vector<Half> result;
  for (auto const& algorithm : (*gemm)->algorithms())
    result.push_back(lt_half(shape, which, *gemm, algorithm));
  return result;
}

int multiprocessors() {
  int device = 0;
  int count = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
    return 1;
  return count;
}

std::optional<Half> tiled_half(Shape const& shape, Which which, gemm_sm90::Half const& tiles, bool early) {
  if (tiles.kernel == nullptr || tiles.kernel->info.type != shape.type) return {};
  if (tiles.kernel->info.gated != (which == Which::first && shape.form == Form::swiglu)) return {};
  // Operands of any aligned address will do to ask.
  alignas(16) static std::array<char, 16> const place{};
  auto* const any = const_cast<char*>(place.data());
  Workspace const somewhere{any, any, reinterpret_cast<unsigned long long*>(any), nullptr};
  if (!tiles.kernel->can_implement(call_of(shape, which, tiles, {any, any, any, any, any}, somewhere)))
    return {};
  auto const plan = plan_of(which, tiles);
  auto const buffers = pair_buffers(shape, {}, {});
  // Both halves of a pair may need as much.
  if (gemm_sm90::sum_bytes_of(plan, buffers) > library_bytes / 2) return {};
  if (!prepared(*tiles.kernel)) return {};
  Half half;
  half.counter_words = gemm_sm90::counters_of(plan, buffers);
  half.tiles = tiles;
  half.name = fmt::format("{} band {} blocks {}", tiles.kernel->info.name, tiles.band, tiles.most_blocks);
  half.launch = [shape, which, tiles, early](Buffers const& b, Workspace const& workspace,
                                             cudaStream_t stream) {
    auto call = call_of(shape, which, tiles, b, workspace);
    if (early) start_early(call, true);
    return tiles.kernel->launch(call, stream);
  };
  return half;
}

std::vector<Half> gemm_sm90_halves(Shape const& shape, Which which) {
  std::vector<Half> result;
  for (auto const& tiles : gemm_sm90::half_candidates(shape, which == Which::first, multiprocessors()))
    if (auto half = tiled_half(shape, which, tiles)) result.push_back(std::move(*half));
  return result;
}

std::optional<Half> find_half(Shape const& shape, Which which, std::string const& name) {
  if (auto const algorithm = lt_algorithm(name)) {
    auto const gemm = LtGemm::make(lt_problem(shape, which));
    if (!gemm || !(*gemm)->supports(*algorithm)) return {};
    return lt_half(shape, which, *gemm, *algorithm);
  }
  char kernel[64];
  gemm_sm90::Half tiles;
  if (std::sscanf(name.c_str(), "%63s band %d blocks %d", kernel, &tiles.band, &tiles.most_blocks) != 3)
    return {};
  tiles.kernel = gemm_sm90::find_kernel(kernel);
  if (tiles.band < 0 || tiles.most_blocks < 0) return {};
  auto half = tiled_half(shape, which, tiles);
  return half && half->name == name ? half : std::nullopt;
}

gemm_sm90::PairBuffers pair_buffers(Shape const& shape, Buffers const& b, Workspace const& workspace) {
  gemm_sm90::PairBuffers result{shape.tokens, shape.model,        shape.hidden,   b.x, b.w1, b.h, b.w2,
                                b.y,          workspace.counters, workspace.stall};
  result.form = shape.form;
  result.type = shape.type;
  result.sums = static_cast<float*>(workspace.library);
  return result;
}

}  // namespace tessera::mlp
