// SPDX-License-Identifier: Apache-2.0
// Workloads and plans as files for the programs that launch kernels.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "files/partial_files.hpp"
#include "load.hpp"
#include "session.hpp"

namespace tessera::cli {

/// The workload and its sizes; a plan's file where the command takes one.
void add_gpu_options(CLI::App& command, WorkloadOptions& options);

/// What a workload is for: bench takes less than run and tune do.
enum class Wanted { launched, tuned, benched };

/// Every size that is asked for. Of a model where nothing is said: the MLP, in bf16, for the usual numbers of
/// tokens. E0906 for operators that no kernel which can be launched computes, or that bench has no peers for.
Expected<std::vector<SizedWorkload>> gpu_workloads(WorkloadOptions options, Wanted wanted);

/// Is one of them attention as separate kernels? `tessera run` orders it in its own ways.
bool has_unfused(std::vector<SizedWorkload> const& sized);

/// What tune, run and bench have in common.
struct GpuArguments {
  WorkloadOptions workload;
  std::string cache;
  std::string timeline, html;  ///< run: of one size
  bool quick = false;
  bool verbose = false;
};

/// E0906 for each option of a workload that is planned or tuned and of its measuring, which `run`
/// ("--decode") has no use for.
Diagnostics unused_gpu_options(GpuArguments const& arguments, std::string const& run);

/// "--timeline F --html F" where they are asked for.
std::vector<std::string> timeline_words(GpuArguments const& arguments);
/// E0906 where they are, and more than one size is run.
Expected<void> one_timeline(GpuArguments const& arguments, std::size_t sizes);

/// `program` (tessera-gpu, tessera-bench) with a file for each size that is asked for, what all have in
/// common, and `more` words. Its exit code.
int run_sizes(Session const& session, std::string const& command, std::string const& program,
              std::string const& verb, GpuArguments const& arguments, std::vector<std::string> const& more);

/// Files in a folder that only this user can look into, removed with their owner, and if a signal ends the
/// program.
class TemporaryFiles {
 public:
  TemporaryFiles() = default;
  TemporaryFiles(TemporaryFiles const&) = delete;
  TemporaryFiles& operator=(TemporaryFiles const&) = delete;
  ~TemporaryFiles();

  /// Writes one more. E0902.
  Expected<void> add(std::string const& text);
  /// The name of one more, which is not there. E0902.
  Expected<std::string> name(std::string const& stem);
  std::vector<std::string> const& paths() const { return paths_; }

 private:
  std::vector<std::string> paths_;
  std::vector<files::Temporary> owned_;  ///< the folder first
};

}  // namespace tessera::cli
