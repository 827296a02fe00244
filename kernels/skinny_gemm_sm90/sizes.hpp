// SPDX-License-Identifier: Apache-2.0
// Sizes of a product of few rows and how it is cut: what needs no CUDA.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <vector>

namespace tessera::skinny_gemm {

constexpr int k_most_rows = 64;
constexpr int k_block = 64;  ///< numbers of the depth in a row of shared memory, 128 bytes
constexpr int k_most_stages = 16;
constexpr int k_most_shared = 227 * 1024;  ///< bytes of a block
constexpr int k_squares_block = 16;        ///< columns that have a sum of squares together
constexpr int k_stage_barrier_bytes = 24;  ///< of a stage's barriers: weights and input are there, and read

/// What becomes of the sums, which are in fp32.
enum class Result {
  bf16,   ///< rounded
  fp32,   ///< as they are
  added,  ///< to fp32 numbers
  gated,  ///< SwiGLU, rounded: columns 2 i and 2 i + 1 are gate and up of feature i
  gelu,   ///< by tanh, rounded
};

struct Problem {
  int rows = 0, columns = 0, depth = 0;
  Result result = Result::bf16;

  auto operator<=>(Problem const&) const = default;
};

/// How a product is cut.
struct Config {
  int columns = 64;     ///< that a cluster makes, a multiple of 16 up to 128; a warpgroup for each 64
  int split = 1;        ///< 1, 2, 4 or 8 blocks of a cluster, which divide the depth
  int stage_depth = 2;  ///< 2 or 4 blocks of 64 numbers of the depth to a stage of the ring
  int stages = 3;       ///< of the ring, 2 to 16

  auto operator<=>(Config const&) const = default;
};

/// Is there a kernel for these sizes? Columns are a multiple of 8, but for sums as they are, the depth of 64.
bool supports(Problem const& problem);
/// Cuts worth trying on a GPU of so many SMs: those that leave few of them idle. Empty: supports() says no.
std::vector<Config> configs(Problem const& problem, int sms);
/// Is it a cut that a kernel has, and a block has room for?
bool allows(Problem const& problem, Config const& config);

/// "48x1x2x13": columns, split, stage_depth and stages. parse_cut(): nothing where it is no such name.
std::string cut_name(Config const& config);
std::optional<Config> parse_cut(std::string const& name);

/// A block's shared memory, in bytes: the ring in front, barriers behind it, scales of rows, and where sums
/// come from the other blocks of the cluster.
struct Layout {
  int rows = 0;                ///< of the input in a stage: rounded up to 8
  int weights = 0, stage = 0;  ///< of a stage: of the weights in it, and of all
  int barriers = 0;            ///< those of stages, and one of what is received
  int scales = 0, received = 0, total = 0;
};
Layout layout_of(Problem const& problem, Config const& config);
/// Stages whose weights are on their way at once: some 64 KB, which keep the memory busy. All that is asked
/// for behind them, as the input is, waits until they have landed.
int in_flight_of(Layout const& layout, Config const& config);
/// Rows of the input that an instruction takes.
int instruction_columns(int rows);
/// Stages that a block multiplies, its warpgroups that multiply, and blocks of a launch.
int steps_of(Problem const& problem, Config const& config);
int warpgroups_of(Config const& config);
int blocks_of(Problem const& problem, Config const& config);

}  // namespace tessera::skinny_gemm
