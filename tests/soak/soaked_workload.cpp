// SPDX-License-Identifier: Apache-2.0
#include "soak/soaked_workload.hpp"

#include <fmt/format.h>

#include <functional>
#include <stdexcept>
#include <vector>

#include "few_tokens_gpu/chain_problem.hpp"
#include "kernels/mlp/mlp.hpp"
#include "kernels/reduction/sum.hpp"
#include "mlp_gpu/operands.hpp"

namespace tessera::soak {
namespace {

using few_tokens::Numbers;

void must(cudaError_t error, char const* what) {
  if (error != cudaSuccess) throw std::runtime_error(fmt::format("{}: {}", what, cudaGetErrorString(error)));
}
void must(bool right, char const* what) {
  if (!right) throw std::runtime_error(what);
}
std::string text_of(Expected<void> const& outcome) { return outcome ? "" : to_text(outcome.error()); }
template <class T>
std::shared_ptr<T> made(Expected<T>&& one) {
  if (!one) throw std::runtime_error(to_text(one.error()));
  return std::make_shared<T>(std::move(*one));
}

struct FreeHost {
  void operator()(void* p) const { cudaFreeHost(p); }
};

/// What can be asked of each of them.
struct Ways {
  std::function<std::string(cudaStream_t)> launch;  ///< may be captured
  std::function<std::string(cudaStream_t)> finish;
  std::function<bool()> is_right;  ///< what the first launch came to
  void* output = nullptr;
  std::size_t words = 0;  ///< of 16 bits
};

Ways mlp_ways(double deadline_seconds, cudaStream_t stream) {
  mlp::Shape const shape{8, 1024, 768, mlp::Form::gelu, mlp::ElementType::bf16};
  mlp::MlpOptions options;
  options.use_cache = false;
  options.deadline_seconds = deadline_seconds;
  auto const operands = std::make_shared<mlp::Operands>(shape, 3, stream);
  auto const block = made(mlp::Mlp::make(shape, options));
  return {
      [=](cudaStream_t in) {
        return text_of(block->launch(operands->x, operands->w1, operands->w2, operands->y, shape.tokens, in));
      },
      [=](cudaStream_t in) { return text_of(block->finish(in)); },
      [=] { return operands->error(shape.tokens) <= 2e-3; }, operands->y,
      static_cast<std::size_t>(shape.tokens) * static_cast<std::size_t>(shape.model)};
}

Ways sum_ways(double deadline_seconds) {
  constexpr std::size_t count = 1'000'003;
  std::vector<float> numbers(count);
  double expected = 0;
  for (std::size_t i = 0; i < count; ++i)
    expected += static_cast<double>(numbers[i] = 1.0f / static_cast<float>(i % 97 + 1));
  auto const x = std::make_shared<gpu::DeviceBuffer<float>>(count);
  auto const out = std::make_shared<gpu::DeviceBuffer<float>>(1);
  x->upload(numbers);
  auto const sum = made(reduction::Sum::make(deadline_seconds));
  return {[=](cudaStream_t in) { return text_of(sum->launch(x->get(), count, out->get(), in)); },
          [=](cudaStream_t in) { return text_of(sum->finish(in)); },
          [=] { return std::abs(static_cast<double>(out->download()[0]) / expected - 1) < 1e-5; }, out->get(),
          2};
}

/// A loop in one persistent launch, whose iterations hand on their results by semaphores, as words that carry
/// the iteration, or with pairs of blocks that exchange sums.
Ways loop_ways(Workload workload, double deadline_seconds) {
  constexpr int launched = 3;
  int const tokens = workload == Workload::loop_by_words ? 1 : 16;
  mlp::Shape const shape{tokens, 1024, 768, mlp::Form::gelu, mlp::ElementType::bf16};
  few_tokens::MlpChainConfig config;
  config.tokens_in_data = workload == Workload::loop_by_words;
  config.cluster_blocks = workload == Workload::loop_in_pairs ? 2 : 1;
  config.deadline_seconds = deadline_seconds;
  auto const problem = std::make_shared<few_tokens::Problem>(shape, 5);
  auto const buffers = problem->buffers();
  auto const words = few_tokens::size(shape.tokens, shape.model);
  auto const input = std::make_shared<Numbers>(words);
  must(cudaMemcpy(input->get(), buffers.x[1], words * 2, cudaMemcpyDeviceToDevice), "input");
  auto const chain = made(few_tokens::MlpChain::make(shape, buffers, config));
  return {[=](cudaStream_t in) {
            // It writes where it reads.
            must(cudaMemcpyAsync(buffers.x[1], input->get(), words * 2, cudaMemcpyDeviceToDevice, in),
                 "input");
            return text_of(chain->launch(in, launched));
          },
          [=](cudaStream_t) { return text_of(chain->finish()); },
          [=] { return problem->error(launched) <= few_tokens::allowed_error(shape); }, buffers.x[0], words};
}

}  // namespace

struct SoakedWorkload::State {
  cudaStream_t stream = nullptr;
  Ways ways;
  cudaGraphExec_t graph = nullptr;
  std::vector<unsigned short> expected;
  std::unique_ptr<unsigned short, FreeHost> seen;  ///< results of a batch
  std::size_t rounds_seen = 0;

  State(Workload workload, double deadline_seconds) {
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    ways = workload == Workload::mlp   ? mlp_ways(deadline_seconds, stream)
           : workload == Workload::sum ? sum_ways(deadline_seconds)
                                       : loop_ways(workload, deadline_seconds);
  }
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() {
    cudaStreamSynchronize(stream);
    if (graph != nullptr) cudaGraphExecDestroy(graph);
    ways = {};
    cudaStreamDestroy(stream);
  }

  /// Poisons the output, launches, and keeps what came at `slot`.
  std::string enqueue(std::size_t slot, bool by_graph) {
    bench::poison(ways.output, ways.words, stream);
    if (by_graph) {
      must(cudaGraphLaunch(graph, stream), "graph");
    } else if (auto error = ways.launch(stream); !error.empty()) {
      return error;
    }
    must(cudaMemcpyAsync(seen.get() + slot * ways.words, ways.output, ways.words * 2, cudaMemcpyDeviceToHost,
                         stream),
         "result");
    return {};
  }

  /// The first launch.
  void begin() {
    room_for(1);
    auto error = enqueue(0, false);
    if (error.empty()) error = ways.finish(stream);
    if (!error.empty()) throw std::runtime_error("a workload never ran: " + error);
    must(cudaStreamSynchronize(stream), "stream");
    must(ways.is_right(), "a workload is wrong by itself");
    expected.assign(seen.get(), seen.get() + ways.words);
  }

  void capture() {
    cudaGraph_t captured = nullptr;
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    auto const error = ways.launch(stream);
    must(cudaStreamEndCapture(stream, &captured), "capture");
    if (!error.empty()) throw std::runtime_error("a workload cannot be captured: " + error);
    must(cudaGraphInstantiate(&graph, captured, 0), "graph");
    cudaGraphDestroy(captured);
  }

  void room_for(std::size_t rounds) {
    if (rounds <= rounds_seen) return;
    void* p = nullptr;
    must(cudaMallocHost(&p, rounds * ways.words * 2), "host");
    seen.reset(static_cast<unsigned short*>(p));
    rounds_seen = rounds;
  }
};

SoakedWorkload::SoakedWorkload(Workload workload, double deadline_seconds, bool by_graph)
    : state_(std::make_unique<State>(workload, deadline_seconds)) {
  state_->begin();
  if (by_graph) state_->capture();
}
SoakedWorkload::~SoakedWorkload() = default;

Batch SoakedWorkload::run(int launches, bool by_graph) {
  auto& s = *state_;
  Batch batch;
  s.room_for(static_cast<std::size_t>(launches));
  for (int i = 0; i < launches && batch.error.empty(); ++i) {
    batch.error = s.enqueue(static_cast<std::size_t>(i), by_graph);
    if (batch.error.empty()) ++batch.launches;
  }
  auto const finished = s.ways.finish(s.stream);
  if (!finished.empty()) batch.error += (batch.error.empty() ? "" : "\n") + finished;
  must(cudaStreamSynchronize(s.stream), "stream");
  if (!batch.error.empty()) return batch;
  for (std::uint64_t i = 0; i < batch.launches; ++i)
    for (std::size_t w = 0; w < s.ways.words; ++w)
      if (auto const got = s.seen.get()[static_cast<std::size_t>(i) * s.ways.words + w];
          got != s.expected[w]) {
        if (batch.wrong++ == 0)
          batch.first_wrong =
              fmt::format("word {} of launch {}: {:04x}, not {:04x}", w, i, got, s.expected[w]);
        break;
      }
  return batch;
}

}  // namespace tessera::soak
