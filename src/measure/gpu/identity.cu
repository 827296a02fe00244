// SPDX-License-Identifier: Apache-2.0
// Which machine this is: what the runtime says, and of the driver's management library what it does not.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/methods/sm_clock.hpp"
#include "tessera/version.hpp"

namespace tessera::probe {
namespace {

/// libnvidia-ml, if it is there. Its ABI for these calls is fixed: 0 is success.
class Management {
 public:
  Management() : library_(dlopen("libnvidia-ml.so.1", RTLD_LAZY)) {
    if (library_ == nullptr || call("nvmlInit_v2") == nullptr ||
        reinterpret_cast<int (*)()>(call("nvmlInit_v2"))() != 0)
      return;
    auto const by_bus =
        reinterpret_cast<int (*)(char const*, void**)>(call("nvmlDeviceGetHandleByPciBusId_v2"));
    char bus[32] = {};
    int device = 0;
    if (by_bus == nullptr || cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetPCIBusId(bus, sizeof bus, device) != cudaSuccess || by_bus(bus, &device_) != 0)
      device_ = nullptr;
  }
  ~Management() {
    if (library_ != nullptr) dlclose(library_);
  }
  Management(Management const&) = delete;
  Management& operator=(Management const&) = delete;

  std::string driver() const {
    auto const get = reinterpret_cast<int (*)(char*, unsigned)>(call("nvmlSystemGetDriverVersion"));
    char text[96] = {};
    return get != nullptr && get(text, sizeof text) == 0 ? text : "";
  }
  /// `which`: 1 the SMs' clock, 2 the memory's; MHz, 0 where it is not said.
  double highest_mhz(int which) const { return number<int>("nvmlDeviceGetMaxClockInfo", which); }
  double now_mhz(int which) const { return number<int>("nvmlDeviceGetClockInfo", which); }
  double power_limit_w() const {
    auto const get = reinterpret_cast<int (*)(void*, unsigned*)>(call("nvmlDeviceGetEnforcedPowerLimit"));
    unsigned milliwatts = 0;
    return get != nullptr && device_ != nullptr && get(device_, &milliwatts) == 0 ? milliwatts / 1e3 : 0;
  }

 private:
  void* call(char const* name) const { return library_ == nullptr ? nullptr : dlsym(library_, name); }
  template <class Argument>
  double number(char const* name, Argument argument) const {
    auto const get = reinterpret_cast<int (*)(void*, Argument, unsigned*)>(call(name));
    unsigned value = 0;
    return get != nullptr && device_ != nullptr && get(device_, argument, &value) == 0 ? value : 0;
  }

  void* library_ = nullptr;
  void* device_ = nullptr;
};

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// How many GPUs of this host can reach each other's memory with this one.
int reachable_gpus() {
  int count = 1, here = 0, reached = 1;
  ok(cudaGetDevice(&here));
  ok(cudaGetDeviceCount(&count));
  for (int other = 0; other < count; ++other) {
    int there = 0, back = 0;
    if (other == here) continue;
    ok(cudaDeviceCanAccessPeer(&there, here, other));
    ok(cudaDeviceCanAccessPeer(&back, other, here));
    reached += there != 0 && back != 0 ? 1 : 0;
  }
  return reached;
}

}  // namespace

void measure_identity(Context const& context, Probe& probe) {
  auto& identity = probe.identity;
  Management const management;
  int driver = 0, runtime = 0;
  ok(cudaDriverGetVersion(&driver));
  ok(cudaRuntimeGetVersion(&runtime));
  identity.gpu = context.device.name;
  auto const name = management.driver();
  identity.driver = (name.empty() ? "" : name + ", ") + "CUDA " + version_text(driver);
  identity.toolkit = "CUDA " + version_text(runtime);
  identity.library = k_version;
  identity.sms = context.device.multiProcessorCount;
  identity.highest_sm_ghz = management.highest_mhz(1) * 1e-3;
  identity.memory_clock_ghz = management.now_mhz(2) * 1e-3;
  identity.power_limit_w = management.power_limit_w();
  identity.gpus = reachable_gpus();
  identity.sm_clock_ghz = std::max(sm_clock_ghz(context), sm_clock_ghz(context));
  char date[32];
  std::time_t const now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  identity.date = date;
}

}  // namespace tessera::probe
