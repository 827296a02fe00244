// SPDX-License-Identifier: Apache-2.0
#include "tessera/check/check.hpp"
#include "tessera/describe/dsl.hpp"

namespace tessera {

Expected<CheckedPipeline> check(PipelineBuilder const& builder) {
  auto const pipeline = builder.build();
  if (!pipeline) return tl::make_unexpected(pipeline.error());
  return check(*pipeline);
}

}  // namespace tessera
