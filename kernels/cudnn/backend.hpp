// SPDX-License-Identifier: Apache-2.0
// cuDNN's backend interface, loaded when it is first asked for: its functions, handles and descriptors.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace tessera::cudnn {

/// The functions of the library that are called.
struct Library {
  decltype(&::cudnnGetVersion) version = nullptr;
  decltype(&::cudnnCreate) create = nullptr;
  decltype(&::cudnnDestroy) destroy_handle = nullptr;
  decltype(&::cudnnSetStream) set_stream = nullptr;
  decltype(&::cudnnBackendCreateDescriptor) make = nullptr;
  decltype(&::cudnnBackendDestroyDescriptor) destroy = nullptr;
  decltype(&::cudnnBackendSetAttribute) set = nullptr;
  decltype(&::cudnnBackendGetAttribute) get = nullptr;
  decltype(&::cudnnBackendFinalize) finalize = nullptr;
  decltype(&::cudnnBackendExecute) execute = nullptr;
  bool complete = false;
  void* file = nullptr;  ///< of dlopen()

  Library();
};

Library const& library();

/// A handle of the library on the calling thread's device. Null where there is none.
using Handle = std::shared_ptr<cudnnContext>;
Handle make_handle();
/// Of the thread that runs plans.
Handle const& own_handle();

struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};
inline void ok(cudnnStatus_t status, char const* what) {
  if (status != CUDNN_STATUS_SUCCESS) throw Refused(what);
}

/// A descriptor of the backend interface.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) { ok(library().make(type, &at_), "descriptor"); }
  ~Descriptor() {
    if (at_ != nullptr) library().destroy(at_);
  }
  Descriptor(Descriptor&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(at_, other.at_);
    return *this;
  }

  cudnnBackendDescriptor_t get() const { return at_; }
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::vector<T> const& values) {
    ok(library().set(at_, name, type, static_cast<std::int64_t>(values.size()), values.data()), "attribute");
    return *this;
  }
  Descriptor& set(cudnnBackendAttributeName_t name, Descriptor const& of) {
    return set<cudnnBackendDescriptor_t>(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, {of.get()});
  }
  Descriptor finished() && {
    ok(library().finalize(at_), "finalize");
    return std::move(*this);
  }

 private:
  cudnnBackendDescriptor_t at_ = nullptr;
};

}  // namespace tessera::cudnn
