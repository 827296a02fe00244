// SPDX-License-Identifier: Apache-2.0
// Workloads and plans as files for the programs that launch kernels.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "load.hpp"

namespace tessera::cli {

/// The workload and its sizes; a plan's file where the command takes one.
void add_gpu_options(CLI::App& command, WorkloadOptions& options);

/// Every size that is asked for. Of a model where nothing is said: the MLP, in bf16, for the usual numbers of
/// tokens. E0906 for operators that no kernel which can be launched computes.
Expected<std::vector<SizedWorkload>> gpu_workloads(WorkloadOptions options);

/// Files with a text each, removed with their owner.
class TemporaryFiles {
 public:
  TemporaryFiles() = default;
  TemporaryFiles(TemporaryFiles const&) = delete;
  TemporaryFiles& operator=(TemporaryFiles const&) = delete;
  ~TemporaryFiles();

  /// E0902.
  Expected<void> add(std::string const& text);
  std::vector<std::string> const& paths() const { return paths_; }

 private:
  std::vector<std::string> paths_;
};

}  // namespace tessera::cli
