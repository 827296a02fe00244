// SPDX-License-Identifier: Apache-2.0
// gemm_gpu_tests [quick|full|sanitize]: pairs of GEMMs on a GPU. Every kernel x mechanism x policy x number
// of tokens x seed against an fp32 reference from poisoned outputs, in both types and forms; replayed graphs,
// bit for bit; two pairs at once; waits that cannot be met. full: all numbers of tokens, 100000 replays, 3
// seeds.
#include <cstring>

#include "workbench.hpp"

int main(int count, char** arguments) {
  using namespace tessera::gemm_test;
  char const* const mode = count > 1 ? arguments[1] : "quick";
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (Kernel const& kernel : kernels()) {
    KernelInfo info;
    CHECK(prepare(kernel, &info));
    std::printf("%-28s %d threads, %d registers, %d bytes, %d stages\n", info.name, info.threads,
                info.registers, info.shared_bytes, info.stages);
  }
  int failures = 0;
  if (std::strcmp(mode, "sanitize") == 0) {
    failures = test_for_sanitizer(stream);
  } else if (std::strcmp(mode, "quick") == 0 || std::strcmp(mode, "full") == 0) {
    bool const full = std::strcmp(mode, "full") == 0;
    failures += test_every_kernel(full ? 4096 : 1024, full ? 3 : 1, stream);
    failures += test_every_token_count(full ? 3 : 1, stream);
    failures += test_two_streams();
    failures += test_replays(full ? 100000 : 2000, stream);
    failures += test_stalls(stream);
  } else {
    std::printf("usage: %s [quick|full|sanitize]\n", arguments[0]);
    return 2;
  }
  std::printf("%s\n", failures == 0 ? "all right" : "FAILED");
  return failures == 0 ? 0 : 1;
}
