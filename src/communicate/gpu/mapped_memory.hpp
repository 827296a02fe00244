// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU that several processes map, each where it likes: it is freed when the last one has freed
// it.
#pragma once

#include <cstddef>
#include <utility>

namespace tessera::communicate {

/// They throw where CUDA fails. `device`, which is current, is the one that reads and writes it.
class MappedMemory {
 public:
  MappedMemory() = default;
  /// In the device's own memory.
  static MappedMemory make(int device, std::size_t bytes);
  /// What a descriptor stands for, of any GPU; the descriptor stays the caller's.
  static MappedMemory import(int descriptor, int device, std::size_t bytes);
  ~MappedMemory();
  MappedMemory(MappedMemory&& other) noexcept { *this = std::move(other); }
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  /// A descriptor for other processes, to be closed by the caller.
  int descriptor() const;
  void* get() const { return reinterpret_cast<void*>(address_); }

 private:
  void map(int device);
  unsigned long long handle_ = 0, address_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace tessera::communicate
