// SPDX-License-Identifier: Apache-2.0
#include "bench/predict/stamped.hpp"

#include <vector>

#include "bench/common/program.hpp"
#include "src/bench/matrices.hpp"
#include "tessera/measure/statistics.hpp"

namespace tessera::bench {

StampedGemms::StampedGemms(std::size_t operand_elements, std::size_t output_bytes) {
  check(cudaDeviceGetAttribute(&sms_, cudaDevAttrMultiProcessorCount, 0), "multiprocessors");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
  check(cudaMalloc(reinterpret_cast<void**>(&operands_), operand_elements * 2), "cudaMalloc");
  check(cudaMalloc(&output_, output_bytes), "cudaMalloc");
  check(cudaMalloc(reinterpret_cast<void**>(&stamps_), 2 * sizeof(Stamp) * static_cast<std::size_t>(sms_)),
        "cudaMalloc");
  fill_random(operands_, operand_elements, ElementType::bf16, 1, 0.5F, stream_);
  check(cudaStreamSynchronize(stream_), "filling");
}

void StampedGemms::begin() {
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
  check(stamp(stamps_, sms_, stream_), "stamp");
}

void StampedGemms::launch(gemm_sm90::Kernel const& kernel, gemm_sm90::Call const& call) {
  check(kernel.launch(call, stream_), kernel.info.name);
}

cudaGraphExec_t StampedGemms::end() {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(stamp(stamps_ + sms_, sms_, stream_), "stamp");
  check(cudaStreamEndCapture(stream_, &graph), "capture");
  check(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  cudaGraphDestroy(graph);
  return executable;
}

StampedSample StampedGemms::run(cudaGraphExec_t graph, int runs) {
  for (int i = 0; i < runs; ++i) check(cudaGraphLaunch(graph, stream_), "launch");
  check(cudaStreamSynchronize(stream_), "run");
  auto const sms = static_cast<std::size_t>(sms_);
  std::vector<Stamp> stamps(2 * sms);
  check(cudaMemcpy(stamps.data(), stamps_, stamps.size() * sizeof(Stamp), cudaMemcpyDeviceToHost), "copy");
  std::vector<double> us, ghz;
  for (std::size_t i = 0; i < sms; ++i) {
    auto const &from = stamps[i], &to = stamps[i + sms];
    auto const nanoseconds = static_cast<double>(to.nanoseconds - from.nanoseconds);
    us.push_back(nanoseconds / 1000);
    ghz.push_back(static_cast<double>(to.cycles - from.cycles) / nanoseconds);
  }
  return {median(us), median(ghz)};
}

}  // namespace tessera::bench
