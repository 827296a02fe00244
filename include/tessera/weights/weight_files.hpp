// SPDX-License-Identifier: Apache-2.0
// A model's weights on disk, as Hugging Face keeps them: one model.safetensors, or several that an index
// names. Headers are read and checked when files are opened; numbers are read when they are asked for, so
// that looking costs no memory. One of two modules of the library that read files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "safetensors.hpp"

namespace tessera {

/// A file that is open, and closed with its owner. -1: none.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number = -1) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor();
  int number() const { return number_; }

 private:
  int number_;
};

class WeightFiles {
 public:
  /// A folder with model.safetensors or model.safetensors.index.json, or the path of either. E0901 with the
  /// system's reason, E0570 for a file that is not whole, E0571 for no weights, and for files and tensors
  /// that an index names and that are not there, or are twice.
  static Expected<WeightFiles> open(std::string const& path);

  struct Tensor : StoredTensor {
    std::size_t file = 0;
  };
  std::vector<Tensor> const& tensors() const { return tensors_; }  ///< by name
  Tensor const* find(std::string_view name) const;
  std::string const& path_of(Tensor const& tensor) const { return files_[tensor.file].path; }
  std::string const& path() const { return path_; }  ///< of the file, the index or the folder
  std::uint64_t bytes() const;                       ///< of all tensors

  /// Some of a tensor's bytes, from its byte `from` on. E0901; a file that has become shorter since is
  /// refused, too.
  Expected<void> read(Tensor const& tensor, std::uint64_t from, std::uint64_t bytes, void* to) const;

 private:
  struct File {
    std::string path;
    FileDescriptor descriptor;
  };
  Expected<void> add(std::string const& path);
  Expected<void> add_all_of_index(std::string const& path);
  Expected<void> sort();

  std::string path_;
  std::vector<File> files_;
  std::vector<Tensor> tensors_;
};

/// A tensor that a model is made of.
struct WantedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  bool transposed = false;  ///< a matrix that files have as [in][out]
};
/// What a model reads, and what may be there beside it: names that end so.
struct WantedTensors {
  std::vector<WantedTensor> tensors;
  std::vector<std::string> ignored_ends;
  std::string source = "this config.json";  ///< what says so, for hints
};

/// E0572: tensors that are missing, have other shapes, are not BF16, F16 or F32, and tensors that nobody
/// reads: scales of quantized weights, biases, norms, which would change what the model says.
Expected<void> check_tensors(WeightFiles const& files, WantedTensors const& wanted);
/// The same of tensors that are in no file: `place` is where they are, for diagnostics.
Expected<void> check_tensors(std::vector<StoredTensor> const& tensors, std::string const& place,
                             WantedTensors const& wanted);

/// How many numbers are rounded on the way to bf16: "all BF16", or "290 tensors of F32 rounded to bf16".
std::string conversion_text(WeightFiles const& files, WantedTensors const& wanted);

}  // namespace tessera
