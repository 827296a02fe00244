// SPDX-License-Identifier: Apache-2.0
#include "tessera/run/device.hpp"

#include <dlfcn.h>

#include <algorithm>

#include "gpu/context_sms.hpp"
#include "measure/gpu/methods/device_profile.hpp"
#include "run/gpu/cuda_call.hpp"

namespace tessera {

using run::check_call;

namespace {

/// "580.159.04", from the management library that comes with the driver; empty without it.
std::string from_management_library() {
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

Expected<MachineProfile> with_device(MachineProfile m) {
  int device = 0;
  cudaDeviceProp properties{};
  if (auto ok = check_call(cudaGetDevice(&device), "cudaGetDevice"); !ok)
    return tl::make_unexpected(ok.error());
  if (auto ok = check_call(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties"); !ok)
    return tl::make_unexpected(ok.error());
  m = probe::limits_of(properties, std::move(m));
  if (int const sms = gpu::context_sms(); sms > 0) m.sms = std::min(m.sms, sms);
  m.name = m.gpu = properties.name;
  m.architecture = fmt::format("sm_{}{}", properties.major, properties.minor);
  m.has_pdl = properties.major >= 9;
  return m;
}

Expected<std::string> driver_version() {
  if (auto version = from_management_library(); !version.empty()) return version;
  int version = 0;
  if (auto ok = check_call(cudaDriverGetVersion(&version), "cudaDriverGetVersion"); !ok)
    return tl::make_unexpected(ok.error());
  return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace tessera
