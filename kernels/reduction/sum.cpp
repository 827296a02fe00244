// SPDX-License-Identifier: Apache-2.0
#include "sum.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/common/at_once.hpp"
#include "kernels/common/per_stream.hpp"
#include "kernels/common/refusal.hpp"
#include "one_call.hpp"
#include "src/gpu/context_sms.hpp"
#include "src/gpu/launch.hpp"
#include "src/gpu/relaxed_capture.hpp"
#include "src/gpu/told_flag.hpp"
#include "table.hpp"

namespace tessera::reduction {
namespace {

using gpu::RelaxedCapture;
using kernels::cuda_failed;
using kernels::refusal;

constexpr Element elements[] = {Element::fp32, Element::fp64, Element::int32};

/// Lets every kernel use its shared memory, and loads it.
cudaError_t prepare_all() {
  for (Element const element : elements)
    for (Kernel const& kernel : kernels_of(element).first) {
      auto const error = cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              kernel.shared_bytes);
      if (error != cudaSuccess) return error;
    }
  return cudaSuccess;
}

/// Which of the workspace's barriers; -1 if there is none for so many blocks.
int barrier_row(Config const& config, int sms) {
  for (int row = 0; row < 4; ++row)
    if (config.blocks == sms << row && config.blocks <= 2048) return row;
  return -1;
}

tl::unexpected<Diagnostics> bad_argument(std::string message, std::string hint) {
  return refusal("E0550", std::move(message), std::move(hint));
}

Expected<void> nothing_heard(gpu::ToldFlag::Heard const& heard) {
  auto const& name = heard.name;
  if (name.empty()) return {};
  return refusal("E0520",
                 "an earlier launch of " + name + " gave up: a sum may have read what it did not write",
                 heard.way_out(), {std::string(heard.how_often()) + "; " + name + " says it itself, too"});
}

Expected<bool> is_capturing(cudaStream_t stream) {
  auto status = cudaStreamCaptureStatusNone;
  if (auto const error = cudaStreamIsCapturing(stream, &status); error != cudaSuccess)
    return cuda_failed(error, "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

struct Sum::State {
  Workspace* workspace = nullptr;
  int device = 0;
  int sms = 0;
  unsigned long long deadline_ns = 0;
  gpu::ToldFlag told;
  std::mutex recovery;

  ~State() {
    if (workspace != nullptr) cudaFree(workspace);
  }
  cudaError_t zero(cudaStream_t stream) const {
    if (auto const error = cudaMemsetAsync(workspace, 0, sizeof(Workspace), stream); error != cudaSuccess)
      return error;
    auto* const address = told.address();
    return cudaMemcpyAsync(&workspace->stall.told, &address, sizeof address, cudaMemcpyHostToDevice, stream);
  }
};

Sum::Sum(std::unique_ptr<State> state) : state_(std::move(state)) {}
Sum::Sum(Sum&&) noexcept = default;
Sum& Sum::operator=(Sum&&) noexcept = default;
Sum::~Sum() = default;
int Sum::sms() const { return state_->sms; }
bool Sum::stalled() const { return state_->told.raised(); }
cudaError_t Sum::reset(cudaStream_t stream) { return state_->zero(stream); }

Expected<Sum> Sum::make(double deadline_seconds) {
  RelaxedCapture const relaxed;
  auto state = std::make_unique<State>();
  if (auto const error = cudaGetDevice(&state->device); error != cudaSuccess)
    return cuda_failed(error, "cudaGetDevice");
  if (auto const error = cudaDeviceGetAttribute(&state->sms, cudaDevAttrMultiProcessorCount, state->device);
      error != cudaSuccess)
    return cuda_failed(error, "cudaDeviceGetAttribute");
  if (int const here = gpu::context_sms(); here > 0) state->sms = std::min(state->sms, here);
  if (auto const error = prepare_all(); error != cudaSuccess)
    return cuda_failed(error, "loading the kernels of kernels/reduction (compiled for sm_90)");
  if (auto const error = cudaMalloc(&state->workspace, sizeof(Workspace)); error != cudaSuccess)
    return cuda_failed(error, "cudaMalloc of the words of a sum");
  state->deadline_ns = static_cast<unsigned long long>(deadline_seconds * 1e9);
  if (auto const error = state->told.make("a sum"); error != cudaSuccess)
    return cuda_failed(error, "cudaHostAlloc of the word that tells of a stall");
  if (auto const error = kernels::at_once([&](cudaStream_t own) { return state->zero(own); });
      error != cudaSuccess)
    return cuda_failed(error, "zeroing the words of a sum");
  return Sum(std::move(state));
}

Expected<void> Sum::launch(Element element, void const* x, std::size_t count, void* out, cudaStream_t stream,
                           Config const& config, Early const& early, DeadlineWatch<> const& watch) {
  if (stalled()) return after_stall(stream);
  bool const own_watch = watch.record == nullptr;
  // What a chain launches has asked already.
  if (own_watch)
    if (auto fine = nothing_else_stalled(stream); !fine) return fine;
  std::size_t const size = size_of(element);
  if (count > 0 && x == nullptr) return bad_argument("x is null", "pass the address of device memory");
  if (out == nullptr) return bad_argument("out is null", "pass the address of device memory");
  if (reinterpret_cast<std::uintptr_t>(x) % size != 0 || reinterpret_cast<std::uintptr_t>(out) % size != 0)
    return bad_argument(std::string(reinterpret_cast<std::uintptr_t>(x) % size != 0 ? "x" : "out") +
                            " is not a multiple of " + std::to_string(size) + " bytes",
                        "an element lies at a multiple of its size");
  if (count > ~std::size_t{0} / size)
    return bad_argument(std::to_string(count) + " elements are more than there are addresses",
                        "was a negative count converted?");
  Kernel const* const kernel = find_kernel(element, config);
  int resident = config.blocks;
  if (kernel != nullptr &&
      (config.variant == Variant::grid_barrier || config.variant == Variant::cooperative)) {
    int in_sm = 0;
    if (auto const error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &in_sm, kernel->function, config.threads, static_cast<std::size_t>(kernel->shared_bytes));
        error != cudaSuccess)
      return cuda_failed(error, "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    resident = in_sm * state_->sms;
  }
  if (char const* const why = reduction::refusal(config, resident); why != nullptr || kernel == nullptr)
    return refusal("E0551", to_string(config) + ": " + (why != nullptr ? why : "no such kernel"),
                   "leave the configuration to choose()");
  unsigned* barrier = nullptr;
  if (config.variant == Variant::grid_barrier) {
    int const row = barrier_row(config, state_->sms);
    if (row < 0)
      return refusal("E0551", to_string(config) + ": a grid barrier has 1, 2, 4 or 8 blocks for each SM",
                     "take the configuration from with_variant()");
    barrier = state_->workspace->barriers[row];
  }
  Arguments arguments{Cut(x, count, static_cast<unsigned>(size)),
                      out,
                      state_->workspace,
                      own_watch ? DeadlineWatch<>{&state_->workspace->stall, state_->deadline_ns} : watch,
                      barrier,
                      early.programmatic,
                      early.fetch_bytes};
  void* first[] = {&arguments};
  gpu::Shape shape{static_cast<unsigned>(config.blocks), static_cast<unsigned>(config.threads),
                   static_cast<std::size_t>(kernel->shared_bytes), static_cast<unsigned>(config.cluster)};
  shape.programmatic = early.programmatic;
  // Whoever waits for all must not keep some out. A launch that starts early cannot ask for that.
  shape.cooperative = config.variant == Variant::cooperative ||
                      (config.variant == Variant::grid_barrier && !early.programmatic);
  if (own_watch) {
    auto const capturing = is_capturing(stream);
    if (!capturing) return tl::make_unexpected(capturing.error());
    state_->told.launched(*capturing);
  }
  auto error = cudaLaunchKernelExC(gpu::LaunchConfiguration(shape, stream).get(), kernel->function, first);
  bool const pdl = config.variant == Variant::two_launches_pdl;
  if (error == cudaSuccess && (pdl || config.variant == Variant::two_launches)) {
    auto const& both = kernels_of(element);
    unsigned blocks = static_cast<unsigned>(config.blocks);
    void* second[] = {&arguments, &blocks};
    gpu::Shape last{1, static_cast<unsigned>(both.second_threads)};
    last.programmatic = pdl;
    error = cudaLaunchKernelExC(gpu::LaunchConfiguration(last, stream).get(), both.second, second);
  }
  if (error != cudaSuccess) return cuda_failed(error, "the launch of a sum, " + to_string(config) + ",");
  return {};
}

Expected<void> Sum::launch(float const* x, std::size_t count, float* out, cudaStream_t stream) {
  return launch(Element::fp32, x, count, out, stream, choose(Element::fp32, count, state_->sms));
}
Expected<void> Sum::launch(double const* x, std::size_t count, double* out, cudaStream_t stream) {
  return launch(Element::fp64, x, count, out, stream, choose(Element::fp64, count, state_->sms));
}
Expected<void> Sum::launch(int const* x, std::size_t count, int* out, cudaStream_t stream) {
  return launch(Element::int32, x, count, out, stream, choose(Element::int32, count, state_->sms));
}

Expected<void> Sum::finish(cudaStream_t stream) {
  if (auto const error = cudaStreamSynchronize(stream); error != cudaSuccess)
    return cuda_failed(error, "cudaStreamSynchronize after sums");
  std::lock_guard const lock(state_->recovery);
  if (!stalled()) return nothing_heard(state_->told.hear_of_another());
  RelaxedCapture const relaxed;  // another stream's
  StallRecord record;
  auto const error = kernels::at_once([&](cudaStream_t own) {
    auto failed =
        cudaMemcpyAsync(&record, &state_->workspace->stall, sizeof record, cudaMemcpyDeviceToHost, own);
    return failed != cudaSuccess ? failed : state_->zero(own);
  });
  if (error != cudaSuccess) return cuda_failed(error, "zeroing the words of a sum");
  state_->told.lower();
  return refusal(
      "E0552",
      "a block waited " + std::to_string(record.waited_ns / 1'000'000) + " ms for the sums of other blocks",
      "do launches that share this Sum overlap? Use one Sum per stream");
}

Expected<void> Sum::nothing_else_stalled(cudaStream_t stream) const {
  if (!state_->told.another_raised()) return {};
  auto const capturing = is_capturing(stream);
  if (!capturing) return tl::make_unexpected(capturing.error());
  if (*capturing) return {};  // nothing is read now
  return nothing_heard(state_->told.hear_of_another());
}

Expected<void> Sum::after_stall(cudaStream_t stream) {
  auto const capturing = is_capturing(stream);
  if (!capturing) return tl::make_unexpected(capturing.error());
  if (*capturing)
    return refusal("E0552", "a sum before this one gave up, and this stream is being captured",
                   "call finish() when the capture has ended, and capture again");
  auto found = finish(stream);
  if (!found)
    for (auto& diagnostic : found.error())
      diagnostic.notes.push_back(
          "found when the next sum was asked for, which was not enqueued: ask for it again");
  return found;
}

namespace {

std::atomic<double> deadline_of_new = Sum::default_deadline_seconds;

struct Kept {
  std::mutex making;
  std::optional<Sum> sum;
};
/// By device and deadline.
using Rest = std::pair<int, double>;
using AllSums = kernels::PerStream<Rest, Kept>;

/// Never destroyed: when statics are, the driver may be gone.
AllSums& all() {
  static auto& one = *new AllSums;
  return one;
}

Expected<Sum*> sum_of(cudaStream_t stream) {
  int device = 0;
  if (auto const error = cudaGetDevice(&device); error != cudaSuccess)
    return cuda_failed(error, "cudaGetDevice");
  double const deadline = deadline_of_new;
  Kept* kept = nullptr;
  {
    std::lock_guard const lock(all().mutex);
    if (auto const error = all().find(stream, {device, deadline}, kept); error != cudaSuccess)
      return cuda_failed(error, "asking for the stream");
  }
  // Other streams go on meanwhile.
  std::lock_guard const lock(kept->making);
  if (!kept->sum) {
    auto made = Sum::make(deadline);
    if (!made) return tl::make_unexpected(made.error());
    kept->sum = std::move(*made);
  }
  return &*kept->sum;
}

template <class T>
Expected<void> sum_in(T const* x, std::size_t count, T* out, cudaStream_t stream) {
  auto const one = sum_of(stream);
  if (!one) return tl::make_unexpected(one.error());
  return (*one)->launch(x, count, out, stream);
}

}  // namespace

void deadline_of_new_sums(double seconds) { deadline_of_new = seconds; }

Expected<void> finish(cudaStream_t stream) {
  int device = 0;
  if (auto const error = cudaGetDevice(&device); error != cudaSuccess)
    return cuda_failed(error, "cudaGetDevice");
  if (auto const error = cudaStreamSynchronize(stream); error != cudaSuccess)
    return cuda_failed(error, "cudaStreamSynchronize after sums");
  struct Found {
    Kept* kept;
    bool captured;
  };
  std::vector<Found> found;
  {
    std::lock_guard const lock(all().mutex);
    auto const error = all().for_each(stream, [&](Rest const& rest, Kept& kept, bool captured) {
      if (rest.first == device) found.push_back({&kept, captured});
    });
    if (error != cudaSuccess) return cuda_failed(error, "asking for the stream");
  }
  // Without the lock: other threads go on.
  Expected<void> result;
  for (auto const& [kept, captured] : found) {
    std::lock_guard const lock(kept->making);
    if (!kept->sum || (captured && !kept->sum->stalled())) continue;
    // A stalled graph's replays may run in any stream.
    if (kept->sum->stalled()) (void)cudaDeviceSynchronize();
    if (auto finished = kept->sum->finish(stream); !finished && result) result = std::move(finished);
  }
  return result;
}

Expected<void> sum(float const* x, std::size_t count, float* out, cudaStream_t stream) {
  return sum_in(x, count, out, stream);
}
Expected<void> sum(double const* x, std::size_t count, double* out, cudaStream_t stream) {
  return sum_in(x, count, out, stream);
}
Expected<void> sum(int const* x, std::size_t count, int* out, cudaStream_t stream) {
  return sum_in(x, count, out, stream);
}

}  // namespace tessera::reduction
