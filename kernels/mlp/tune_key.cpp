// SPDX-License-Identifier: Apache-2.0
#include "tune_key.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <tessera/version.hpp>

#include "cublaslt.hpp"
#include "kernels/common/refusal.hpp"

namespace tessera::mlp {
namespace {

using kernels::cuda_failed;

/// "580.159.04", from the management library that comes with the driver; empty without it.
std::string driver_version() {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return "";
  auto const init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  auto const ask = reinterpret_cast<int (*)(char*, unsigned)>(dlsym(library, "nvmlSystemGetDriverVersion"));
  auto const shutdown = reinterpret_cast<int (*)()>(dlsym(library, "nvmlShutdown"));
  char text[96] = "";
  if (init != nullptr && ask != nullptr && init() == 0) {
    if (ask(text, sizeof text) != 0) text[0] = '\0';
    if (shutdown != nullptr) shutdown();
  }
  dlclose(library);
  return text;
}

}  // namespace

Expected<TuneKey> tune_key(Shape const& shape) {
  int device = 0;
  cudaDeviceProp properties{};
  if (auto const error = cudaGetDevice(&device); error != cudaSuccess)
    return cuda_failed(error, "cudaGetDevice");
  if (auto const error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess)
    return cuda_failed(error, "cudaGetDeviceProperties");
  TuneKey key;
  key.gpu = properties.name;
  key.driver = driver_version();
  if (key.driver.empty()) {
    int version = 0;
    if (auto const error = cudaDriverGetVersion(&version); error != cudaSuccess)
      return cuda_failed(error, "cudaDriverGetVersion");
    key.driver = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
  }
  key.library = fmt::format("tessera {}, cublasLt {}", k_version, lt_version());
  key.form = shape.form == Form::swiglu ? "swiglu" : "gelu";
  key.type = shape.type == ElementType::fp16 ? "fp16" : "bf16";
  key.model = shape.model;
  key.hidden = shape.hidden;
  return key;
}

}  // namespace tessera::mlp
