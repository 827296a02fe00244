// SPDX-License-Identifier: Apache-2.0
// From a plan's launches to kernels that can be launched: each family of kernels has a binding. Executable
// needs the library tessera_run_gpu; this header needs no CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../describe/kernel.hpp"
#include "chain.hpp"

namespace tessera {

/// A buffer of a pipeline in device memory: `batch` matrices, one after the other, rows `row_stride` elements
/// apart.
struct Tensor {
  void* data = nullptr;
  std::int64_t rows = 1, columns = 1, batch = 1;
  std::int64_t row_stride = 0;  ///< 0: columns
  ElementType type = ElementType::bf16;

  std::int64_t stride() const { return row_stride == 0 ? columns : row_stride; }
};

/// By the name of the buffer.
using Tensors = std::map<std::string, Tensor>;

/// Places in memory of somebody else's, by name: each starts where the one before ends, at a multiple of 256
/// bytes. Only counts; touches no memory.
class LentMemory {
 public:
  /// From now on there are no names, and places begin here.
  void begin(void* at);
  /// What was asked for under this name before, if it is as large; another place otherwise.
  void* place(std::string const& name, std::size_t bytes);
  /// From the beginning to the end of the last place.
  std::size_t bytes() const { return bytes_; }

 private:
  struct Place {
    std::size_t offset = 0, bytes = 0;
  };
  char* at_ = nullptr;
  std::size_t bytes_ = 0;
  std::map<std::string, Place> places_;
};

/// Device memory that kernels use beside their tensors and that need not outlive a launch, by a name that its
/// users agree on. Executables that share one must not run at the same time, and are called by one thread at
/// a time. A stall of one is all others': their next call says so, and makes the memory right again.
class Scratch {
 public:
  /// At least so many bytes, 256-byte aligned; what was given before stays valid. `zeroed`: when it is
  /// allocated, and never again. E0511.
  Expected<std::shared_ptr<void>> get(std::string const& name, std::size_t bytes, bool zeroed = false);

  /// From now on what is not zeroed is a place in the caller's memory, who sees to it that there is room for
  /// all, lent_bytes(), when a kernel that has been given one runs.
  LentMemory& lend(void* at);
  std::size_t lent_bytes() const { return lent_.bytes(); }

  /// Of the executables that share this; made when it is first asked for. E0511.
  Expected<StallGroup*> stalls();
  /// Has a wait of one of them given up since its last finish()? One load of host memory; beside launches in
  /// another thread once stalls() has been called.
  bool stalled() const;
  /// How often their memory was made as it was at the start after a stall, or is to be since a launch was
  /// enqueued in part. What several launches compute together is lost when it has changed; where a call
  /// refuses and it has not, nothing was enqueued.
  unsigned restarts() const;
  /// E0520 where anything else that this thread has launched has stalled, as launch() and finish() say it:
  /// for what enqueues more before its first launch. `called`: what was asked for.
  Expected<void> nothing_else_stalled(std::string const& called) const;

 private:
  struct Memory {
    std::shared_ptr<void> data;
    std::size_t bytes = 0;
  };
  std::map<std::string, Memory> memory_;
  LentMemory lent_;
  bool lending_ = false;
  std::vector<std::shared_ptr<void>> outgrown_;  ///< captured graphs may still use it
  std::shared_ptr<StallGroup> stalls_;
};

/// What a binding makes a kernel of: one launch of a plan.
struct BindRequest {
  Plan const& plan;
  int launch = 0;
  Registry const& kernels;
  Tensors const& tensors;
  Scratch& scratch;

  Launch const& planned() const { return plan.launches[static_cast<std::size_t>(launch)]; }
  /// `index` counts the launch's stages.
  int stage_index(int index = 0) const { return planned().first + index; }
  Stage const& stage(int index = 0) const {
    return plan.pipeline.stages[static_cast<std::size_t>(stage_index(index))];
  }
  StagePlan const& stage_plan(int index = 0) const {
    return plan.stages[static_cast<std::size_t>(stage_index(index))];
  }
  KernelEntry const& kernel(int index = 0) const { return *kernels.find(stage(index).kernel); }
};

/// E0560: what the plan asks for and the kernel cannot do. `field` is the plan's word for it.
Expected<StageKernel> cannot_bind(BindRequest const& request, int index, std::string const& field,
                                  std::string const& why, std::string const& way_out);

/// The tensor of an operand or the output ("") of a stage. E0561 if there is none, or if it is not what the
/// plan says of the buffer.
Expected<Tensor> tensor_of(BindRequest const& request, int index, std::string const& operand);

/// Makes the kernel of a launch. What it captures lives as long as the chain that launches it. Refuses what
/// the kernel cannot honour.
using Bind = std::function<Expected<StageKernel>(BindRequest const&)>;

/// The words for StagePlan::variant that a binding knows for a launch, on this machine and for these sizes: a
/// tuner tries them all. The launch's first stage carries the word. The first is taken where there is none.
using Variants = std::function<std::vector<std::string>(BindRequest const&)>;

/// Bindings by family.
class Bindings {
 public:
  struct Family {
    Bind bind;
    Variants variants;  ///< none: plans of this family with a variant are refused (E0560)
  };

  /// Replaces the family's binding, if there is one.
  void add(std::string family, Bind bind, Variants variants = {}) {
    by_family_[std::move(family)] = {std::move(bind), std::move(variants)};
  }
  Family const* find(std::string const& family) const {
    auto const found = by_family_.find(family);
    return found == by_family_.end() ? nullptr : &found->second;
  }

  /// A library whose version decides what is fast: "cublasLt 130001". A tuning is for these.
  void uses(std::string const& library) { libraries_ += (libraries_.empty() ? "" : ", ") + library; }
  std::string const& libraries() const { return libraries_; }

 private:
  std::map<std::string, Family> by_family_;
  std::string libraries_;
};

/// A kernel of the user's own: its data for planning and its binding for running, in one place.
Expected<void> add_kernel(Registry& kernels, Bindings& bindings, KernelEntry kernel, Bind bind);

/// A kernel for each launch of the plan. E0562 where a stage names no registered kernel, a family has no
/// binding, or a launch joins kernels of different families.
Expected<std::vector<StageKernel>> bind_kernels(Plan const& plan, Registry const& kernels,
                                                Bindings const& bindings, Tensors const& tensors,
                                                Scratch& scratch);

/// Variants of one launch of the plan; empty where its family has none, or it cannot be bound at all.
std::vector<std::string> variants_of(Plan const& plan, int launch, Registry const& kernels,
                                     Bindings const& bindings, Tensors const& tensors, Scratch& scratch);

/// A plan of registered kernels with its tensors, ready to be launched any number of times: a Chain whose
/// kernels come from their bindings.
class Executable {
 public:
  /// With memory of its own beside the tensors, or with `scratch`'s.
  static Expected<Executable> make(Plan const& plan, Registry const& kernels, Bindings const& bindings,
                                   Tensors const& tensors, ChainOptions const& options = {},
                                   std::shared_ptr<Scratch> scratch = nullptr);

  /// The same plan on other tensors, with the registry and bindings that it was made with: the number of the
  /// set, from 1, or that of the one whose place it takes (Chain::add_set).
  Expected<int> add_set(Registry const& kernels, Bindings const& bindings, Tensors const& tensors,
                        int in_place_of = -1);

  Expected<void> launch(GpuStream stream, int set = 0) { return chain_.launch(stream, set); }
  Expected<ChainGraph> capture(int set = 0) { return chain_.capture(set); }
  Expected<void> finish() { return chain_.finish(); }
  bool stalled() const { return chain_.stalled(); }
  Expected<Timeline> timeline() const { return chain_.timeline(); }
  Chain const& chain() const { return chain_; }

 private:
  Executable(Chain chain, std::shared_ptr<Scratch> scratch)
      : scratch_(std::move(scratch)), chain_(std::move(chain)) {}
  std::shared_ptr<Scratch> scratch_;
  Chain chain_;
};

}  // namespace tessera
