// SPDX-License-Identifier: Apache-2.0
#include "tessera/describe/workload.hpp"

namespace tessera {

std::string const& name_of(Workload const& workload) {
  return std::visit([](auto const& value) -> std::string const& { return value.name; }, workload);
}

}  // namespace tessera
