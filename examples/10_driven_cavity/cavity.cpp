// SPDX-License-Identifier: Apache-2.0
// A cavity whose lid drags the fluid along, beside the tables of Ghia, Ghia and Shin: steps by the library's
// call on a GPU, or, with the word "cpu", plain steps of a smaller cavity on the CPU. Exit status 1 if they
// are further apart than 2 % of the lid's speed.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "examples/10_driven_cavity/ghia.hpp"
#include "kernels/lattice_boltzmann/lattice_boltzmann.hpp"
#include "kernels/lattice_boltzmann/reference.hpp"

namespace {

using namespace tessera::lattice_boltzmann;

constexpr double k_speed = 0.1;  // of the lid, in cells a step

template <class Value>
Value right(tessera::Expected<Value> made) {
  if (made) return std::move(*made);
  std::fprintf(stderr, "%s\n", to_text(made.error()).c_str());
  std::exit(1);
}
void right(tessera::Expected<void> const& done) {
  if (done) return;
  std::fprintf(stderr, "%s\n", to_text(done.error()).c_str());
  std::exit(1);
}
void right(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

/// Velocities along x and y. The fields stay on the device; two are copied from it at the end.
Flow<float> on_gpu(Problem const& problem, long long steps) {
  auto const cells = static_cast<std::size_t>(problem.size());
  void* memory;
  right(cudaMalloc(&memory, 2 * cells * sizeof(float)));
  auto* const fields = static_cast<float*>(memory);
  cudaStream_t stream;
  right(cudaStreamCreate(&stream));

  auto flow = right(LatticeBoltzmann::make(problem));
  right(flow.run(stream, steps));
  right(flow.write(stream, {nullptr, {fields, fields + cells, nullptr}}));
  right(flow.finish());

  Flow<float> result;
  for (std::size_t d = 0; d < 2; ++d) {
    result.velocity[d].resize(cells);
    right(
        cudaMemcpy(result.velocity[d].data(), fields + d * cells, cells * sizeof(float), cudaMemcpyDefault));
  }
  right(cudaStreamDestroy(stream));
  right(cudaFree(memory));
  return result;
}

Flow<float> on_cpu(Problem const& problem, long long steps) {
  Reference<float> fluid(problem);
  for (long long step = 0; step < steps; ++step) fluid.step();
  return fluid.flow();
}

double show(char const* what, Problem const& problem, std::vector<float> const& cells, Line line,
            std::span<GhiasPoint const> table) {
  std::printf("%10s %10s %10s\n", what, "Ghia", "here");
  for (auto const& point : table)
    std::printf("%10.4f %10.5f %10.5f\n", point.place, point.velocity,
                on_line(problem, cells, line, point.place));
  double const off = off_from_ghia(problem, cells, line, table);
  std::printf("apart by %.4f at most\n", off);
  return off;
}

}  // namespace

int main(int count, char** words) {
  bool const cpu = count > 1 && std::strcmp(words[1], "cpu") == 0;
  double off = 0;
  for (int const reynolds : {100, 400}) {
    if (cpu && reynolds > 100) break;  // its vortices need more cells
    auto const problem = square_cavity(cpu ? 32 : 128, cpu ? 1 : 2, k_speed, reynolds);
    long long const steps = cpu ? 7000 : reynolds * 400;
    auto const flow = cpu ? on_cpu(problem, steps) : on_gpu(problem, steps);
    bool const slow = reynolds == 100;
    std::printf("Reynolds number %d, %dx%d cells, %lld steps\n", reynolds, problem.width, problem.height,
                steps);
    off = std::max(off, show("height, u", problem, flow.velocity[0], Line::upright,
                             slow ? std::span<GhiasPoint const>(k_u_at_100) : k_u_at_400));
    off = std::max(off, show("place, v", problem, flow.velocity[1], Line::level,
                             slow ? std::span<GhiasPoint const>(k_v_at_100) : k_v_at_400));
  }
  return off < 0.02 ? 0 : 1;
}
