// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "run/gpu/cuda_call.hpp"
#include "tessera/run/run_loop.hpp"

namespace tessera {
namespace {

/// Arrays behind each other in one allocation, each at a multiple of 256 bytes.
std::size_t room(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

Expected<std::shared_ptr<void const>> copy_on_device(void const* from, std::size_t bytes,
                                                     std::string const& what) {
  auto const memory = std::make_shared<run::DeviceMemory>();
  if (auto done = memory->allocate(bytes, what); !done) return tl::make_unexpected(done.error());
  auto* const to = memory->as<unsigned char>();
  if (bytes > 0)
    if (auto done = run::check_call(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copying " + what);
        !done)
      return tl::make_unexpected(done.error());
  return std::shared_ptr<void const>(memory, to);
}

Expected<LoopOnDevice> records_on_device(LoopTables const& tables) {
  auto const& numbers = tables.tables.numbers;
  auto const& waits = tables.tables.waits;
  std::size_t const number_bytes = numbers.size() * sizeof(numbers[0]);
  std::size_t const wait_bytes = waits.size() * sizeof(RuntimeWait);
  std::size_t const record_bytes = tables.stages.size() * sizeof(LoopRecord);
  std::vector<int> tiles;
  for (auto const& stage : tables.tables.stages) tiles.push_back(static_cast<int>(stage.grid.tiles()));
  std::size_t const tile_bytes = tiles.size() * sizeof(int);
  auto const memory = std::make_shared<run::DeviceMemory>();
  if (auto done = memory->allocate(room(record_bytes) + room(number_bytes) + room(wait_bytes) + tile_bytes,
                                   "a loop's records");
      !done)
    return tl::make_unexpected(done.error());
  auto* const records_at = memory->as<unsigned char>();
  auto* const numbers_at = records_at + room(record_bytes);
  auto* const waits_at = numbers_at + room(number_bytes);
  auto* const tiles_at = waits_at + room(wait_bytes);
  auto records = tables.records(reinterpret_cast<std::int32_t const*>(numbers_at),
                                reinterpret_cast<RuntimeWait const*>(waits_at));
  struct {
    unsigned char* to;
    void const* from;
    std::size_t bytes;
  } const copies[] = {{records_at, records.data(), record_bytes},
                      {numbers_at, numbers.data(), number_bytes},
                      {waits_at, waits.data(), wait_bytes},
                      {tiles_at, tiles.data(), tile_bytes}};
  for (auto const& [to, from, bytes] : copies)
    if (bytes > 0)
      if (auto done = run::check_call(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice),
                                      "copying a loop's records");
          !done)
        return tl::make_unexpected(done.error());
  return LoopOnDevice{std::shared_ptr<LoopRecord const>(memory, memory->as<LoopRecord const>()),
                      reinterpret_cast<int const*>(tiles_at), std::move(records)};
}

}  // namespace tessera
