// SPDX-License-Identifier: Apache-2.0
#include "run/gpu/validate.hpp"

#include <algorithm>

#include "gpu/launch.hpp"
#include "gpu/raise_shared.hpp"
#include "run/gpu/cuda_call.hpp"
#include "run/gpu/wait_kernel.hpp"
#include "tessera/plan/launch_faults.hpp"
#include "tessera/plan/progress.hpp"
#include "tessera/run/device.hpp"

namespace tessera::run {
namespace {

tl::unexpected<Diagnostics> refused(char const* code, SourceLine const& where, std::string message,
                                    std::vector<std::string> notes, std::string suggestion) {
  return refuse({code, Severity::error, where, std::move(message), std::move(notes), std::move(suggestion)});
}

std::int64_t volume(Extent3 const& e) { return std::int64_t{e.x} * e.y * e.z; }
std::string text(Extent3 const& e) { return fmt::format("({}, {}, {})", e.x, e.y, e.z); }

Expected<void> read_device(Validated& result, bool in_launch_order) {
  int count = 0;
  if (auto ok = check_call(cudaGetDeviceCount(&count), "cudaGetDeviceCount"); !ok) return ok;
  auto device = with_device();
  if (!device) return tl::make_unexpected(device.error());
  result.device = std::move(*device);
  result.device.dispatches_in_launch_order = in_launch_order;
  result.compute_major = std::stoi(result.device.architecture.substr(3)) / 10;
  int current = 0, cooperative = 0;
  if (auto ok = check_call(cudaGetDevice(&current), "cudaGetDevice"); !ok) return ok;
  if (auto ok = check_call(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, current),
                           "cudaDeviceGetAttribute");
      !ok)
    return ok;
  result.cooperative = cooperative != 0;
  return {};
}

/// One kernel against its launch.
class KernelCheck {
 public:
  KernelCheck(Plan const& plan, Launch const& launch, StageKernel const& kernel, Validated& result)
      : plan_(plan),
        launch_(launch),
        stage_(plan.pipeline.stages[static_cast<std::size_t>(launch.first)]),
        kernel_(kernel),
        name_((launch.workers > 0 ? "the persistent kernel of " : "") + launch_name(plan, launch)),
        result_(result) {}

  std::string const& name() const { return name_; }

  Expected<void> run() {
    auto const expected_blocks = launched_blocks(plan_, launch_);
    if (!kernel_.enqueue && (kernel_.function == nullptr || !kernel_.pack))
      return refused("E0510", stage_.where, fmt::format("{} has no kernel", name_), {},
                     "give StageKernel a function and a pack callback");
    if (kernel_.grid.x != 0 && volume(kernel_.grid) != expected_blocks)
      return refused("E0513", stage_.where,
                     fmt::format("the grid {} of {} has {} blocks, the plan {}", text(kernel_.grid), name_,
                                 volume(kernel_.grid), expected_blocks),
                     {}, "leave StageKernel::grid alone, or make the plan for this tile size");
    if (expected_blocks >= (std::int64_t{1} << 31))
      return refused(
          "E0513", stage_.where,
          fmt::format("{} has {} blocks; CUDA starts less than 2^31 along x", name_, expected_blocks), {},
          "use larger tiles");
    // Loads the kernel too: with lazy loading, one that is first needed while another kernel spins waits for
    // that kernel to end.
    if (auto ok = check_call(cudaFuncGetAttributes(&attributes_, kernel_.function), "cudaFuncGetAttributes",
                             "for " + name_, stage_.where);
        !ok)
      return ok;
    if (auto ok = targets(); !ok) return ok;
    return occupancy();
  }
  Resources resources() const {
    return {static_cast<int>(volume(kernel_.block)), attributes_.numRegs,
            static_cast<int>(attributes_.sharedSizeBytes) + kernel_.dynamic_shared_bytes};
  }
  int blocks_per_sm() const { return blocks_per_sm_; }
  /// On the whole device.
  std::int64_t capacity() const { return capacity_; }

 private:
  Expected<void> targets() const {
    auto const duties = duties_of(plan_, launch_.first);
    if (!duties.triggers && launch_.start != LaunchStart::early) return {};
    return check_target({result_.device.name, result_.compute_major, name_, attributes_.ptxVersion,
                         attributes_.binaryVersion},
                        stage_.where);
  }

  Expected<void> occupancy() {
    auto const threads = volume(kernel_.block);
    auto const shared = static_cast<std::int64_t>(attributes_.sharedSizeBytes) + kernel_.dynamic_shared_bytes;
    std::vector<std::string> const numbers = {fmt::format(
        "{} threads of at most {}, {} registers per thread, {} bytes of shared memory of at most {}", threads,
        attributes_.maxThreadsPerBlock, attributes_.numRegs, shared, result_.device.shared_bytes_per_block)};
    if (threads < 1 || threads > attributes_.maxThreadsPerBlock || kernel_.dynamic_shared_bytes < 0 ||
        shared > result_.device.shared_bytes_per_block)
      return refused("E0512", stage_.where,
                     fmt::format("a block of {} does not fit on an SM of {}", name_, result_.device.name),
                     numbers, "use a smaller block, less shared memory or __launch_bounds__");
    if (auto ok = check_call(
            gpu::raise_shared(kernel_.function, kernel_.dynamic_shared_bytes),
            fmt::format("cudaFuncSetAttribute(MaxDynamicSharedMemorySize, {})", kernel_.dynamic_shared_bytes),
            "for " + name_, stage_.where);
        !ok)
      return ok;
    if (auto ok = check_call(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                                 &blocks_per_sm_, kernel_.function, static_cast<int>(threads),
                                 static_cast<std::size_t>(kernel_.dynamic_shared_bytes)),
                             "cudaOccupancyMaxActiveBlocksPerMultiprocessor", "for " + name_, stage_.where);
        !ok)
      return ok;
    if (blocks_per_sm_ < 1)
      return refused("E0512", stage_.where,
                     fmt::format("no block of {} fits on an SM of {}", name_, result_.device.name), numbers,
                     "use a smaller block, less shared memory or __launch_bounds__");
    return cluster();
  }

  Expected<void> cluster() {
    auto const& c = kernel_.cluster;
    auto const& g = kernel_.grid;
    capacity_ = std::int64_t{blocks_per_sm_} * result_.device.sms;
    if (c == Extent3{}) return {};
    auto const x = g.x != 0 ? g.x : static_cast<unsigned>(launched_blocks(plan_, launch_));
    bool const divides = kernel_.enqueue || (x % c.x == 0 && g.y % c.y == 0 && g.z % c.z == 0);
    if (volume(c) < 1 || volume(c) > 16 || !divides)
      return refused(
          "E0518", stage_.where,
          fmt::format("clusters {} do not divide the grid ({}, {}, {}) of {}", text(c), x, g.y, g.z, name_),
          {}, "use a cluster that divides the grid, of at most 16 blocks");
    gpu::Shape shape;
    shape.blocks = dim3(c.x, c.y, c.z);
    shape.threads = dim3(kernel_.block.x, kernel_.block.y, kernel_.block.z);
    shape.shared = static_cast<std::size_t>(kernel_.dynamic_shared_bytes);
    shape.cluster = dim3(c.x, c.y, c.z);
    int clusters = 0;
    if (auto ok = check_call(cudaOccupancyMaxActiveClusters(&clusters, kernel_.function,
                                                            gpu::LaunchConfiguration(shape, nullptr).get()),
                             "cudaOccupancyMaxActiveClusters", "for " + name_, stage_.where);
        !ok)
      return ok;
    // Some SMs are in GPCs that have no room for a whole cluster.
    capacity_ = std::min(capacity_, clusters * volume(c));
    if (clusters < 1)
      return refused("E0512", stage_.where,
                     fmt::format("no cluster {} of {} fits on {}", text(c), name_, result_.device.name), {},
                     "use smaller clusters, smaller blocks or less shared memory");
    return {};
  }

  Plan const& plan_;
  Launch const& launch_;
  Stage const& stage_;
  StageKernel const& kernel_;
  std::string name_;
  Validated& result_;
  cudaFuncAttributes attributes_{};
  int blocks_per_sm_ = 0;
  std::int64_t capacity_ = 0;
};

/// Resources with which the proof's own arithmetic arrives at the occupancy that CUDA says.
Resources charged(MachineProfile const& machine, Resources resources, int blocks_per_sm) {
  if (occupancy(machine, resources) > blocks_per_sm)
    resources.shared_bytes = machine.shared_bytes_per_sm / (blocks_per_sm + 1) -
                             machine.shared_reserved_per_block + machine.shared_granularity;
  return resources;
}

/// An SM divides its memory into L1 and shared memory for one kernel at a time, by default as that kernel's
/// occupancy asks for, and takes blocks of another kernel only under a division that suits both. Two kernels
/// with different ones never share an SM: nothing overlaps, and blocks that wait on all SMs for a kernel that
/// asks for more shared memory keep it out for ever. So all kernels of a chain ask for the same, what the one
/// with the most needs: in each launch, since another chain may have the same kernels.
int division_for(MachineProfile const& device, long long most_shared_bytes) {
  return static_cast<int>(std::min(100LL, (100 * most_shared_bytes + device.shared_bytes_per_sm - 1) /
                                              std::max(1, device.shared_bytes_per_sm)));
}

Expected<void> check_parts(Plan const& plan, std::vector<StageKernel> const& kernels) {
  if (auto const faults = launch_faults(plan); plan.stages.empty() || !faults.empty())
    return refused("E0510", plan.pipeline.where,
                   fmt::format("the launches of plan \"{}\" contradict each other", plan.pipeline.name),
                   faults.empty() ? std::vector<std::string>{} : std::vector{faults.front().message},
                   "take plans from choose() or parse_plan()");
  if (kernels.size() != plan.launches.size())
    return refused("E0510", plan.pipeline.where,
                   fmt::format("plan \"{}\" ({}) needs {} kernels, {} were given", plan.pipeline.name,
                               mechanism_text(plan), plan.launches.size(), kernels.size()),
                   {}, "give one kernel for each launch");
  if (plan.launches.front().start == LaunchStart::early && !kernels.front().chains)
    return refused(
        "E0537", plan.pipeline.where,
        fmt::format("the first launch of plan \"{}\" starts early, before the launch before it is complete",
                    plan.pipeline.name),
        {"a chain's launches share semaphores, so that they may not overlap",
         "its kernel does not say that it leaves them alone until then (StageKernel::chains)"},
        "start the first launch in order");
  return {};
}

/// The launch with its compiled kernel's numbers in place of those that the plan assumed.
Expected<void> take_real_numbers(Plan const& plan, Launch const& launch, KernelCheck const& check,
                                 Validated& result, Plan& real) {
  int const blocks = check.blocks_per_sm();
  auto const resources = charged(result.device, check.resources(), blocks);
  result.resources.push_back(resources);
  for (int s = launch.first; s < launch.end(); ++s)
    real.pipeline.stages[static_cast<std::size_t>(s)].resources = resources;
  auto const capacity = check.capacity();
  if (launch.workers > capacity)
    return refused("E0515", plan.pipeline.where,
                   fmt::format("{} workers of {} cannot all be resident", launch.workers, check.name()),
                   {fmt::format("{} on each of the {} SMs of {}, {} in all", blocks, result.device.sms,
                                result.device.name, capacity)},
                   fmt::format("use {} workers or fewer", capacity));
  if (launch.workers > 0) return {};
  auto const s = static_cast<std::size_t>(launch.first);
  real.stages[s].occupancy = blocks;
  real.stages[s].waves = static_cast<double>(launched_blocks(plan, launch)) / static_cast<double>(capacity);
  if (blocks != plan.stages[s].occupancy)
    result.warnings.push_back(
        {"E0514",
         Severity::warning,
         plan.pipeline.stages[s].where,
         fmt::format("{} blocks of {} fit on an SM, the plan assumed {}", blocks, check.name(),
                     plan.stages[s].occupancy),
         {fmt::format("{} threads, {} registers per thread, {} bytes of shared memory", resources.threads,
                      resources.registers_per_thread, resources.shared_bytes)},
         "give the stage these resources and plan again: the predicted time is for other ones"});
  return {};
}

}  // namespace

std::string launch_name(Plan const& plan, Launch const& launch) {
  std::string name;
  for (int s = launch.first; s < launch.end(); ++s)
    name += (name.empty() ? "" : " + ") + plan.pipeline.stages[static_cast<std::size_t>(s)].name;
  return name;
}

std::int64_t launched_blocks(Plan const& plan, Launch const& launch) {
  if (launch.workers > 0) return launch.workers;
  auto const blocks = plan.pipeline.stages[static_cast<std::size_t>(launch.first)].blocks();
  std::int64_t const persistent = plan.stages[static_cast<std::size_t>(launch.first)].persistent_blocks;
  return persistent > 0 ? std::min(persistent, blocks) : blocks;
}

Expected<void> check_target(Target const& target, SourceLine const& where) {
  if (target.compute_major < 9)
    return refused("E0516", where,
                   fmt::format("the plan starts kernels early, and {} has no programmatic dependent launch",
                               target.device),
                   {fmt::format("compute capability {}.x; 9.0 is needed", target.compute_major)},
                   "plan for this machine");
  if (target.ptx_version < 90 || target.binary_version < 90)
    return refused("E0517", where,
                   fmt::format("{} was compiled without the instructions of programmatic dependent launch",
                               target.kernel),
                   {fmt::format("PTX version {}, binary version {}; both must be 90 or more",
                                target.ptx_version, target.binary_version)},
                   "compile it for sm_90 or later");
  return {};
}

Expected<Validated> validate(Plan const& plan, std::vector<StageKernel> const& kernels,
                             ChainOptions const& options) {
  Validated result;
  if (auto ok = check_parts(plan, kernels); !ok) return tl::make_unexpected(ok.error());
  if (auto ok = read_device(result, options.dispatches_in_launch_order); !ok)
    return tl::make_unexpected(ok.error());

  auto real = plan;
  int divided = 0;                  // kernels of which that can be asked
  long long most_shared_bytes = 0;  // of an SM's blocks
  for (std::size_t l = 0; l < kernels.size(); ++l) {
    if (kernels[l].function == nullptr && kernels[l].enqueue) {
      auto const first = static_cast<std::size_t>(plan.launches[l].first);
      result.occupancies.push_back(plan.stages[first].occupancy);
      result.resources.push_back(plan.pipeline.stages[first].resources);
      continue;
    }
    KernelCheck check(plan, plan.launches[l], kernels[l], result);
    if (auto ok = check.run(); !ok) return tl::make_unexpected(ok.error());
    int const blocks = check.blocks_per_sm();
    result.occupancies.push_back(blocks);
    ++divided;
    most_shared_bytes =
        std::max(most_shared_bytes,
                 1LL * blocks * (check.resources().shared_bytes + result.device.shared_reserved_per_block));
    if (auto ok = take_real_numbers(plan, plan.launches[l], check, result, real); !ok)
      return tl::make_unexpected(ok.error());
  }
  if (std::any_of(plan.launches.begin(), plan.launches.end(),
                  [](Launch const& launch) { return launch.wait_kernel; })) {
    cudaFuncAttributes attributes{};
    if (auto ok = check_call(cudaFuncGetAttributes(&attributes, wait_kernel_address()),
                             "cudaFuncGetAttributes", "for the wait kernel");
        !ok)
      return tl::make_unexpected(ok.error());
    ++divided;
  }
  if (divided > 1) result.shared_percent = division_for(result.device, most_shared_bytes);
  std::vector<int> clusters;
  std::vector<bool> all_resident;
  for (std::size_t l = 0; l < kernels.size(); ++l) {
    clusters.insert(clusters.end(), static_cast<std::size_t>(plan.launches[l].stages),
                    static_cast<int>(volume(kernels[l].cluster)));
    all_resident.push_back(kernels[l].all_resident);
  }
  auto proof = prove_progress(real, result.device, clusters);
  if (!proof) {
    auto found = proof.error();
    found.insert(
        found.begin(),
        {"E0514",
         Severity::error,
         plan.pipeline.where,
         fmt::format("with the compiled kernels on {}, plan \"{}\" ({}) could get stuck", result.device.name,
                     plan.pipeline.name, mechanism_text(plan)),
         {fmt::format("{} SMs; blocks per SM: {}", result.device.sms, fmt::join(result.occupancies, ", "))},
         "plan again with these resources, or use PDL + tiles, which cannot get stuck this way"});
    return tl::make_unexpected(found);
  }
  result.proof = *proof;
  result.claim = sm_claim(real, result.device, clusters, all_resident);
  return result;
}

}  // namespace tessera::run
