// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/backend.hpp"

#include <dlfcn.h>

#include <type_traits>

namespace tessera::cudnn {

Library::Library() {
  for (char const* const name :
       {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9", "/usr/local/cuda/lib/libcudnn.so.9"})
    if (file == nullptr) file = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  if (file == nullptr) return;
  auto const find = [&](auto& function, char const* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(file, name));
    return function != nullptr;
  };
  complete = find(version, "cudnnGetVersion") && find(create, "cudnnCreate") &&
             find(destroy_handle, "cudnnDestroy") && find(set_stream, "cudnnSetStream") &&
             find(make, "cudnnBackendCreateDescriptor") && find(destroy, "cudnnBackendDestroyDescriptor") &&
             find(set, "cudnnBackendSetAttribute") && find(get, "cudnnBackendGetAttribute") &&
             find(finalize, "cudnnBackendFinalize") && find(execute, "cudnnBackendExecute");
}

Library const& library() {
  static Library const loaded;
  return loaded;
}

Handle make_handle() {
  cudnnHandle_t made = nullptr;
  if (!library().complete || library().create(&made) != CUDNN_STATUS_SUCCESS) return nullptr;
  return {made, [](cudnnHandle_t of) { (void)library().destroy_handle(of); }};
}

Handle const& own_handle() {
  // Never destroyed: the driver may be gone by then.
  static Handle const& handle = *new Handle(make_handle());
  return handle;
}

}  // namespace tessera::cudnn
