// SPDX-License-Identifier: Apache-2.0
// What the driver's library says of the GPU at this moment.
#pragma once

#include <dlfcn.h>

namespace tessera::bench {

/// Power and temperature of the first GPU; 0 where the library does not say.
class PowerMeter {
 public:
  PowerMeter() {
    void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == nullptr) return;
    auto const find = [&](char const* name) { return dlsym(library, name); };
    auto const init = reinterpret_cast<int (*)()>(find("nvmlInit_v2"));
    auto const handle = reinterpret_cast<int (*)(unsigned, void**)>(find("nvmlDeviceGetHandleByIndex_v2"));
    temperature_ = reinterpret_cast<int (*)(void*, int, unsigned*)>(find("nvmlDeviceGetTemperature"));
    values_ = reinterpret_cast<int (*)(void*, int, void*)>(find("nvmlDeviceGetFieldValues"));
    if (init == nullptr || handle == nullptr || init() != 0 || handle(0, &device_) != 0) values_ = nullptr;
  }
  double watts() const {
    if (values_ == nullptr) return 0;
    // nvmlFieldValue_t of NVML_FI_DEV_POWER_INSTANT, in milliwatts.
    struct {
      unsigned field = 186, scope = 0;
      long long timestamp = 0, latency = 0;
      unsigned type = 0;
      int status = 0;
      unsigned long long value = 0;
    } field;
    if (values_(device_, 1, &field) != 0 || field.status != 0) return 0;
    return static_cast<double>(static_cast<unsigned>(field.value)) / 1000;
  }
  double celsius() const {
    unsigned result = 0;
    if (values_ == nullptr || temperature_ == nullptr || temperature_(device_, 0, &result) != 0) return 0;
    return result;
  }

 private:
  void* device_ = nullptr;
  int (*values_)(void*, int, void*) = nullptr;
  int (*temperature_)(void*, int, unsigned*) = nullptr;
};

}  // namespace tessera::bench
