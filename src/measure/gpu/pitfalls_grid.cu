// SPDX-License-Identifier: Apache-2.0
// Grids of which a part does not come, has no room, or waits for who waits for it; kernels in the wrong
// order; programmatic launches without trigger or wait; GPUs that do not take part.
#include <cooperative_groups.h>

#include "measure/gpu/methods/deadline.cuh"
#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/pitfalls.hpp"
#include "tessera/sync/launch.cuh"
#include "tessera/sync/memory.cuh"

namespace tessera::probe {
namespace {

namespace cg = cooperative_groups;
constexpr unsigned long long k_deadline_ns = 100'000'000;
constexpr unsigned k_threads = 1024;

struct Report {
  unsigned arrived;
  unsigned passed;
  unsigned gave_up;
};

std::string of(unsigned part, unsigned all) { return std::to_string(part) + " of " + std::to_string(all); }

/// What the hardware's grid barrier does, a word that counts, but with a deadline.
__global__ void count_and_wait(Report* report, unsigned absent) {
  if (threadIdx.x != 0 || blockIdx.x < absent) return;
  add_release<Scope::device>(&report->arrived, 1u);
  bool const met =
      wait_until([&] { return load_acquire<Scope::device>(&report->arrived) >= gridDim.x; }, k_deadline_ns);
  atomicAdd(met ? &report->passed : &report->gave_up, 1u);
}

unsigned resident() {
  int per_sm = 0, sms = 0;
  ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, count_and_wait, k_threads, 0));
  ok(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  return static_cast<unsigned>(per_sm * sms);
}

Outcome grid(unsigned blocks, unsigned absent) {
  DeviceBuffer<Report> report(1);
  launch({blocks, k_threads}, nullptr, count_and_wait, report.get(), absent);
  auto const seen = report.download().front();
  if (seen.gave_up == 0) return {"completed", of(seen.passed, blocks) + " blocks passed"};
  return {"hung", of(seen.gave_up, blocks) + " blocks gave up after 100 ms" +
                      (seen.passed > 0 ? "; that made room for the last one, and " +
                                             std::to_string(seen.passed) + " passed"
                                       : "")};
}

Outcome oversubscribed_cooperative() {
  DeviceBuffer<Report> report(1);
  Shape shape{resident() + 1, k_threads};
  shape.cooperative = true;
  auto const status = try_launch(shape, nullptr, count_and_wait, report.get(), 0u);
  if (status == cudaSuccess) {
    ok(cudaDeviceSynchronize());
    return {"completed", ""};
  }
  return {"refused", cudaGetErrorName(status)};
}

__global__ void without_one() {
  if (blockIdx.x == 0) return;
  cg::this_grid().sync();
}

Outcome grid_subset_for_ever() {
  Shape shape{16, 128};
  shape.cooperative = true;
  launch(shape, nullptr, without_one);
  ok(cudaDeviceSynchronize());
  return {"completed", "all blocks but one passed"};
}

/// Two blocks, each of which waits for what the other posts after its own wait.
__global__ void circle(unsigned* words, Report* report) {
  if (threadIdx.x != 0) return;
  bool const met =
      wait_until([&] { return load_acquire<Scope::device>(words + 1 - blockIdx.x) != 0; }, k_deadline_ns);
  if (met) store_release<Scope::device>(words + blockIdx.x, 1u);
  atomicAdd(met ? &report->passed : &report->gave_up, 1u);
}

Outcome circular_wait() {
  DeviceBuffer<unsigned> words(2);
  DeviceBuffer<Report> report(1);
  launch({2, 32}, nullptr, circle, words.get(), report.get());
  auto const seen = report.download().front();
  return {seen.gave_up > 0 ? "hung" : "completed", of(seen.gave_up, 2) + " blocks gave up after 100 ms"};
}

__global__ void consume(unsigned const* word, Report* report) {
  if (threadIdx.x != 0) return;
  bool const met = wait_until([&] { return load_acquire<Scope::device>(word) != 0; }, k_deadline_ns);
  atomicAdd(met ? &report->passed : &report->gave_up, 1u);
}
__global__ void produce(unsigned* word) {
  if (threadIdx.x == 0) store_release<Scope::device>(word, 1u);
}

/// The consumer is launched first, on another stream.
Outcome consumer_first(unsigned blocks) {
  Stream first, second;
  DeviceBuffer<unsigned> word(1);
  DeviceBuffer<Report> report(1);
  load(produce);
  launch({blocks, k_threads}, first.get(), consume, word.get(), report.get());
  launch({1, 32}, second.get(), produce, word.get());
  auto const seen = report.download().front();
  if (seen.gave_up == 0) return {"completed", of(seen.passed, blocks) + " blocks saw the producer's word"};
  return {"hung", of(seen.gave_up, blocks) + " blocks gave up after 100 ms: the producer had no room"};
}

/// Writes a word a block after some work.
__global__ void write_late(unsigned* words, bool triggers, unsigned value, long long cycles) {
  if (triggers) pdl_trigger();
  spin_cycles(cycles);
  if (threadIdx.x == 0) words[blockIdx.x] = value;
}
__global__ void read_early(unsigned const* words, bool waits, unsigned value, Report* report) {
  if (waits) pdl_wait();
  if (threadIdx.x == 0)
    atomicAdd(__ldcg(words + blockIdx.x) == value ? &report->passed : &report->gave_up, 1u);
  if (!waits) pdl_wait();
}

/// Counts blocks that read a word before it was there.
Outcome programmatic(bool triggers, bool waits) {
  constexpr unsigned k_blocks = 132, k_launches = 1000;
  DeviceBuffer<unsigned> words(k_blocks);
  DeviceBuffer<Report> report(1);
  load(write_late);
  load(read_early);
  for (unsigned i = 1; i <= k_launches; ++i) {
    launch({k_blocks, 128}, nullptr, write_late, words.get(), triggers, i, 20'000);
    Shape shape{k_blocks, 128};
    shape.programmatic = true;
    launch(shape, nullptr, read_early, words.get(), waits, i, report.get());
  }
  auto const seen = report.download().front();
  auto const note = of(seen.gave_up, k_blocks * k_launches) + " blocks read what was not there yet, in " +
                    std::to_string(k_launches) + " launches";
  return {seen.gave_up == 0 ? (waits ? "completed" : "held") : "did not hold", note};
}

/// Kernel B of A, B, C: programmatic, lets C start at once, and does nothing.
__global__ void pass_on(bool waits) {
  pdl_trigger();
  if (waits) pdl_wait();
}

/// A, B, C: does C, which waits for B, see what A wrote?
Outcome three_kernels(bool middle_waits) {
  constexpr unsigned k_blocks = 132, k_launches = 1000;
  DeviceBuffer<unsigned> words(k_blocks);
  DeviceBuffer<Report> report(1);
  load(write_late);
  load(pass_on);
  load(read_early);
  Shape const plain{k_blocks, 128};
  auto programmatic = plain;
  programmatic.programmatic = true;
  for (unsigned i = 1; i <= k_launches; ++i) {
    launch(plain, nullptr, write_late, words.get(), true, i, 150'000);
    launch(programmatic, nullptr, pass_on, middle_waits);
    launch(programmatic, nullptr, read_early, words.get(), true, i, report.get());
    // The next A comes after C, and C waited for B only.
    ok(cudaDeviceSynchronize());
  }
  auto const seen = report.download().front();
  return {seen.gave_up == 0 ? "held" : "did not hold",
          of(seen.gave_up, k_blocks * k_launches) +
              " blocks of the third kernel did not see what the first wrote"};
}

/// Reads its word at its end, long after it let the next kernel start.
__global__ void read_late(unsigned const* words, unsigned value, Report* report) {
  pdl_trigger();
  spin_cycles(20'000);
  if (threadIdx.x == 0)
    atomicAdd(__ldcg(words + blockIdx.x) == value ? &report->passed : &report->gave_up, 1u);
}
__global__ void overwrite(unsigned* words, bool waits, unsigned value) {
  if (waits) pdl_wait();
  if (threadIdx.x == 0) words[blockIdx.x] = value;
  if (!waits) pdl_wait();
}

/// The next kernel overwrites what the one before still reads.
Outcome write_after_read(bool waits) {
  constexpr unsigned k_blocks = 132, k_launches = 1000;
  DeviceBuffer<unsigned> words(k_blocks);
  DeviceBuffer<Report> report(1);
  load(read_late);
  load(overwrite);
  for (unsigned i = 0; i < k_launches; ++i) {
    launch({k_blocks, 128}, nullptr, read_late, words.get(), i, report.get());
    Shape shape{k_blocks, 128};
    shape.programmatic = true;
    launch(shape, nullptr, overwrite, words.get(), waits, i + 1);
  }
  auto const seen = report.download().front();
  return {seen.gave_up == 0 ? "held" : "did not hold",
          of(seen.gave_up, k_blocks * k_launches) + " blocks read what the next kernel wrote"};
}

/// A word in this GPU's memory that another GPU should post and never does.
Outcome part_of_gpus() {
  int count = 0;
  ok(cudaGetDeviceCount(&count));
  ok(cudaSetDevice(0));
  DeviceBuffer<unsigned> word(1);
  DeviceBuffer<Report> report(1);
  launch({1, 32}, nullptr, consume, word.get(), report.get());
  auto const seen = report.download().front();
  return {
      seen.gave_up > 0 ? "hung" : "completed",
      "a barrier of " + std::to_string(count) + " GPUs of which one launches nothing: gave up after 100 ms"};
}

}  // namespace

std::vector<Pitfall> between_blocks() {
  std::vector<Pitfall> list{
      {"grid.subset", "a grid barrier that one of 132 blocks does not reach", [] { return grid(132, 1); }},
      {"grid.oversubscribed", "a grid barrier of one block more than is resident, launched ordinarily",
       [] { return grid(resident() + 1, 0); }},
      {"grid.oversubscribed.cooperative", "the same, launched cooperatively", oversubscribed_cooperative},
      {"semaphore.circular", "two blocks, each of which waits for the other's post", circular_wait},
      {"order.consumer_first", "a consumer that fills the GPU is launched before its producer",
       [] { return consumer_first(resident()); }},
      {"order.consumer_first.room", "a consumer that leaves room is launched before its producer",
       [] { return consumer_first(1); }},
      {"pdl.no_trigger", "a programmatic launch behind a kernel that never triggers; the consumer waits",
       [] { return programmatic(false, true); }},
      {"pdl.no_wait", "a programmatic launch whose consumer reads before it waits",
       [] { return programmatic(true, false); }},
      {"pdl.no_trigger.no_wait", "neither trigger nor wait before the read; nothing promises that this holds",
       [] { return programmatic(false, false); }},
      {"pdl.three_kernels.late_wait",
       "the third of three kernels reads what the first wrote; the second waits "
       "before it leaves",
       [] { return three_kernels(true); }},
      {"pdl.three_kernels.no_wait", "the same, the second never waits; nothing promises that this holds",
       [] { return three_kernels(false); }},
      {"pdl.write_after_read.wait",
       "a programmatic launch overwrites, after its wait, what the kernel before reads",
       [] { return write_after_read(true); }},
      {"pdl.write_after_read.no_wait", "the same before its wait", [] { return write_after_read(false); }},
      {"grid.subset.cooperative",
       "grid_group::sync() of cooperative groups that one of 16 blocks does not reach", grid_subset_for_ever,
       false}};
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) == cudaSuccess && gpus > 1)
    list.push_back({"gpus.subset", "a barrier among GPUs that one of them does not reach", part_of_gpus});
  return list;
}

}  // namespace tessera::probe
