// SPDX-License-Identifier: Apache-2.0
// From what stands on the command line to values: workloads, machines, lists of sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/check/check.hpp"
#include "tessera/describe/workload_json.hpp"
#include "tessera/document.hpp"
#include "tessera/measure/machine_profile.hpp"

namespace tessera::cli {

/// A shipped workload by name, or a file.
struct SourceText {
  std::string text;
  std::string file;  ///< for diagnostics
  DocumentSummary summary;
};
Expected<SourceText> load_workload_text(std::string const& name_or_path);
/// A text that stands in no file; refuses (E0904) what is not JSON.
Expected<SourceText> source_text(std::string text, std::string const& file);

/// Sizes as they stand on the command line; unset ones were not given.
struct WorkloadOptions {
  std::string workload;
  std::optional<std::string> block;
  std::optional<std::string> tokens;  ///< "768" or "1,64,256"
  std::optional<std::int64_t> sequences;
  std::optional<std::string> prompts;  ///< "512,128,2048", in place of tokens and sequences
  std::optional<std::int64_t> cached;
  std::optional<int> tensor_parallel;
  std::optional<std::string> data_type;
  std::optional<std::string> routing;  ///< "40,12,0,12"
  std::optional<std::string> layers;   ///< "4", or "all"
  std::optional<std::string> mask;     ///< "causal" or "all"
  std::optional<std::string> layer;
  std::optional<std::string> images;      ///< as tokens
  std::optional<std::string> iterations;  ///< as tokens
};

/// One size to work on; `size` is what tells its files from the others' ("768").
struct SizedWorkload {
  std::string size;
  Workload workload;
  std::optional<CheckedPipeline> checked = {};  ///< of a loop, which is `workload` written out
};

/// One entry per token (or image, or iteration) count, in the order given; a loop is written out. Refuses
/// options that the kind of workload does not have (E0906) and lists that are none (E0909).
Expected<std::vector<SizedWorkload>> load_workloads(WorkloadOptions const& options);
/// The same of a text that is loaded already: options.workload is not looked at.
Expected<std::vector<SizedWorkload>> load_workloads(SourceText const& source, WorkloadOptions const& options);

/// E0906 for the options that this kind of file has no use for.
Diagnostics unused_options(WorkloadOptions const& options, DocumentKind kind, std::string const& file);

/// A shipped profile by name, or a file (has a '/' or ends in .json).
Expected<MachineProfile> load_machine(std::string const& name_or_path);

/// What a report must say beside times on this machine.
std::vector<std::string> assumptions(MachineProfile const& machine);

/// E0905: the file is of another kind than `wanted` ("a plan"). Without a hint: what reads such a file.
tl::unexpected<Diagnostics> wrong_kind(std::string const& file, DocumentSummary const& summary,
                                       char const* wanted, std::string hint = {});

/// "1,64,256" as numbers from 1 to 2^24, without repetitions. `option` appears in the complaint.
Expected<std::vector<std::int64_t>> parse_sizes(std::string const& list, std::string const& option);

/// Tokens of each prompt; an empty list without --prompts. E0909; E0906 beside what it replaces.
Expected<std::vector<std::int64_t>> parse_prompts(WorkloadOptions const& options);

/// "a,b" as words.
std::vector<std::string> split_list(std::string const& list);

}  // namespace tessera::cli
