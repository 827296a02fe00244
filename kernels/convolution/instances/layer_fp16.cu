// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution/layer_instances.cuh"

namespace tessera::convolution {

Expected<ConvLoop> layer_of_fp16(ConvStage const& stage, LayerMemory const& memory,
                                 CUtensorMap const& filters, CUtensorMap const& pixels, bool early) {
  return layer_of<__half>(stage, memory, filters, pixels, early);
}

}  // namespace tessera::convolution
