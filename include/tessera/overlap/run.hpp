// SPDX-License-Identifier: Apache-2.0
// One kernel, one collective, or both fused, on a simulated system of GPUs.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "../measure/machine_profile.hpp"
#include "../timeline.hpp"
#include "configure.hpp"

namespace tessera {

/// Whose bytes memory moves.
enum class Traffic : std::uint8_t { gemm_read, gemm_write, collective_read, collective_write };
constexpr int k_traffics = 4;

/// Blocks and transfers that one recording holds, some 100 MB.
constexpr std::int64_t k_most_recorded = 1'000'000;

struct OverlapOptions {
  bool explicit_gpus = false;  ///< every GPU; else one, whose peers do what it does (as the paper)
  bool all_channels = false;   ///< every memory channel; else one with its share of the traffic
  Arbitration arbitration = Arbitration::round_robin;
  int fixed_threshold = 0;        ///< of communication-aware arbitration; 0: by the rule
  bool near_memory = true;        ///< updates are op-and-store; else ordinary writes (a control)
  std::int64_t series_ps = 0;     ///< width of a bin of `series`; 0: none
  int slow_gpu = -1;              ///< explicit GPUs: this one computes at half speed (a control)
  std::int64_t lose_update = -1;  ///< this one of the incoming packets never arrives (a control)
  bool record = false;            ///< the run's `timeline`; E0545 beyond k_most_recorded

  bool operator==(OverlapOptions const&) const = default;
};

struct OverlapRun {
  std::int64_t end = 0;                    ///< ps
  std::int64_t gemm_end = 0;               ///< ps; the last work-group has left
  std::int64_t second_pass = 0;            ///< ps of gemm_end in which splits of k are added up
  std::array<double, k_traffics> bytes{};  ///< of one GPU's memory (the mean of all)
  double link_bytes = 0;                   ///< sent by one GPU
  double compulsory_bytes = 0;             ///< operands and output once
  int threshold = 0;                       ///< that arbitration chose
  double intensity = 0;                    ///< occupancy of the queue that it was chosen by, 0 to 1
  int tracker_peak = 0;                    ///< wavefront tiles tracked at once
  int tracker_most_in_set = 0;
  std::int64_t tracker_overflows = 0;
  int queue_peak = 0;
  double dram_busy = 0;     ///< column commands over cycles
  std::int64_t events = 0;  ///< requests of 32 bytes served, and events of the queue
  std::vector<std::array<float, k_traffics>> series;  ///< bytes of each bin
  Timeline timeline;                                  ///< with OverlapOptions::record; else empty

  bool operator==(OverlapRun const&) const = default;
};

/// A GEMM whose output the configurations route; one for each GPU (the first is enough to run a GEMM alone).
/// With `cached_output` the output goes through L2 and stays (the baseline), and no route is taken; splits of
/// k store partial sums of two bytes, which a second pass reads and adds up when all are there.
Expected<OverlapRun> run_gemm(MachineProfile const& machine, GemmProblem const& problem,
                              GemmKernel const& kernel, std::vector<OutputConfiguration> const& outputs,
                              bool cached_output, OverlapOptions const& options = {});

/// A GEMM whose A is gathered as it runs (configure_gathered(), one for each GPU): copy engines send on what
/// has come, and a tile is started when its panel of A is complete. The output goes through L2 and stays.
Expected<OverlapRun> run_gathered_gemm(MachineProfile const& machine, GemmProblem const& problem,
                                       GemmKernel const& kernel, std::vector<GatheredInput> const& inputs,
                                       OverlapOptions const& options = {});

/// A ring collective as a kernel of its own on `sms` SMs (0: all), step after step.
struct CollectiveProblem {
  Collective collective = Collective::reduce_scatter;
  int gpus = 8;
  double bytes = 0;          ///< of the whole array
  bool near_memory = false;  ///< reductions in the receiver's memory: one read a step, no last step
  int sms = 0;
  int bytes_per_thread = 4;  ///< that a thread of the kernel has under way, of each copy that it reads
  bool operator==(CollectiveProblem const&) const = default;
};
Expected<OverlapRun> run_collective(MachineProfile const& machine, CollectiveProblem const& problem,
                                    OverlapOptions const& options = {});

/// The same on fully connected GPUs: every chunk goes straight to its GPU over a link of its own. A
/// reduce-scatter, an all-gather or an all-to-all.
Expected<OverlapRun> run_direct_collective(MachineProfile const& machine, CollectiveProblem const& problem,
                                           OverlapOptions const& options = {});

}  // namespace tessera
