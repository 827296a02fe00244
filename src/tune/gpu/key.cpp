// SPDX-License-Identifier: Apache-2.0
#include "tessera/tune/key.hpp"

#include "tessera/run/device.hpp"
#include "tessera/version.hpp"

namespace tessera {

Expected<TuneKey> tune_key(Workload const& workload, Bindings const& bindings) {
  auto const machine = with_device();
  if (!machine) return tl::make_unexpected(machine.error());
  auto driver = driver_version();
  if (!driver) return tl::make_unexpected(driver.error());
  TuneKey key;
  key.gpu = machine->gpu;
  key.driver = std::move(*driver);
  key.libraries = std::string("tessera ") + k_version;
  if (!bindings.libraries().empty()) key.libraries += ", " + bindings.libraries();
  key.workload = workload_key(workload);
  return key;
}

}  // namespace tessera
