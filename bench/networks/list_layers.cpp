// SPDX-License-Identifier: Apache-2.0
// list_layers: network, name and kind of each convolution of all networks, for bench/networks/layer_table.
#include <cstdio>

#include "kernels/networks/network_time.hpp"

int main() {
  using namespace tessera::networks;
  for (auto const& name : network_names()) {
    auto const network = network_named(name);
    if (!network) return 1;
    auto const sizes = sizes_of(*network);
    for (auto const& layer : network->layers)
      if (layer.kind == Kind::convolution)
        std::printf("%s %s %s\n", name.c_str(), layer.name.c_str(),
                    kind_of(sizes[static_cast<std::size_t>(layer.input)], layer.layer).c_str());
  }
  return 0;
}
