// SPDX-License-Identifier: Apache-2.0
#include "workbench.hpp"

#include <cmath>

#include "kernels/common/mlp_reference.hpp"

namespace tessera::gemm_test {
namespace {

constexpr long long counter_words = 1 << 18;
constexpr std::size_t most_table = 1 << 16;
// fp32 sums of both GEMMs' padded outputs, twice.
constexpr std::size_t sum_bytes = 256u << 20;

}  // namespace

PairPlan plan_of(Case const& one, Kernel const& first, Kernel const& second, int second_band) {
  return {{&first, one.band, one.blocks},
          {&second, second_band < 0 ? one.band : second_band, one.blocks},
          one.mechanism,
          one.columns_per_semaphore,
          one.early_weights,
          one.chained};
}

Workbench::Workbench(int model, int hidden, int most_tokens) : most_tokens_(most_tokens) {
  std::size_t const tokens = std::size_t(most_tokens);
  std::size_t const weights = std::size_t(model) * hidden, h = tokens * hidden, y = tokens * model;
  CHECK(memory_.make({{"x", y * 2},
                      {"w1", 2 * weights * 2},
                      {"h", h * 2},
                      {"w2", weights * 2},
                      {"y", y * 2},
                      {"counters", counter_words * 8},
                      {"stall", sizeof(StallRecord)},
                      {"split sums", sum_bytes},
                      {"table", most_table * sizeof(RuntimeWait)},
                      {"h rounded", h * 2},
                      {"sums", 2 * h * 4},
                      {"h reference", h * 4},
                      {"y reference", y * 4}},
                     1, nullptr));
  buffers_ = {0,
              model,
              hidden,
              memory_.at("x"),
              memory_.at("w1"),
              memory_.at("h"),
              memory_.at("w2"),
              memory_.at("y"),
              memory_.as<unsigned long long>("counters"),
              memory_.as<StallRecord>("stall")};
  buffers_.sums = memory_.as<float>("split sums");
  buffers_.table = memory_.as<RuntimeWait>("table");
  reset();
}

void Workbench::fill(mlp::Form form, ElementType type, int tokens, unsigned seed, cudaStream_t stream) {
  if (tokens > most_tokens_) std::abort();
  buffers_.tokens = tokens;
  buffers_.form = form;
  buffers_.type = type;
  bool const gated = form == mlp::Form::swiglu;
  int const model = buffers_.model;
  int const hidden = buffers_.hidden;
  auto random = [&](void const* to, std::size_t count, unsigned which, double deviation) {
    bench::fill_random(const_cast<void*>(to), count, type, 10 * seed + which, static_cast<float>(deviation),
                       stream);
  };
  random(buffers_.x, std::size_t(tokens) * model, 0, 1);
  random(buffers_.w1, std::size_t(hidden) * model * (gated ? 2 : 1), 1, 1 / std::sqrt(model));
  random(buffers_.w2, std::size_t(hidden) * model, 2, 1 / std::sqrt(hidden));
  mlp::reference_mlp({tokens, model, hidden, form, type},
                     {buffers_.x, buffers_.w1, memory_.at("h rounded"), buffers_.w2},
                     memory_.as<float>("sums"), memory_.as<float>("h reference"),
                     memory_.as<float>("y reference"), false, stream);
  CHECK(cudaStreamSynchronize(stream));
}

void Workbench::poison_outputs(cudaStream_t stream) const {
  bench::poison(buffers_.h, h_count(), stream);
  bench::poison(buffers_.y, y_count(), stream);
}

void Workbench::reset() const {
  CHECK(cudaMemset(buffers_.counters, 0, counter_words * 8));
  CHECK(cudaMemset(buffers_.stall, 0, sizeof(StallRecord)));
}

StallRecord Workbench::stall() const {
  StallRecord stall;
  CHECK(cudaMemcpy(&stall, buffers_.stall, sizeof stall, cudaMemcpyDeviceToHost));
  return stall;
}

double Workbench::error(cudaStream_t stream) const {
  double const h =
      bench::relative_error(buffers_.h, memory_.as<float>("h reference"), h_count(), buffers_.type, stream);
  double const y =
      bench::relative_error(buffers_.y, memory_.as<float>("y reference"), y_count(), buffers_.type, stream);
  if (StallRecord const record = stall(); record.state != 0) {
    std::printf("stall: tile %lld waits for semaphore %lld: %u of %u after %llu ns\n", record.tile,
                record.semaphore, record.seen, record.expected, record.waited_ns);
    return NAN;
  }
  return std::isnan(h) || std::isnan(y) ? NAN : std::fmax(h, y);
}

double Workbench::run(PairPlan const& plan, int launches, cudaStream_t stream) const {
  if (counters_of(plan, buffers_) > counter_words || sum_bytes_of(plan, buffers_) > sum_bytes) return NAN;
  reset();
  auto const table = table_of(plan, buffers_);
  if (table.size() > most_table) return NAN;
  CHECK(cudaMemcpy(memory_.as<RuntimeWait>("table"), table.data(), table.size() * sizeof(RuntimeWait),
                   cudaMemcpyHostToDevice));
  double worst = 0;
  for (int launch = 0; launch < launches; ++launch) {
    poison_outputs(stream);
    if (cudaError_t const error = launch_pair(plan, buffers_, stream); error != cudaSuccess) {
      std::printf("launch: %s\n", cudaGetErrorString(error));
      return NAN;
    }
    double const one = error(stream);
    worst = std::isnan(one) ? NAN : std::fmax(worst, one);
    if (std::isnan(worst)) break;
  }
  return worst;
}

}  // namespace tessera::gemm_test
