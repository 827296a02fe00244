// SPDX-License-Identifier: Apache-2.0
// The launch of a decoder's head, for kernels with extras and without: a file each.
#pragma once

#include "kernels/decode/head.cuh"
#include "kernels/decode/launches.cuh"

namespace tessera::decode {

template <bool Extras>
Expected<Launch> head_of(LoopPlan const& plan, RoleOptions const& options, int columns,
                         few_tokens::Product const* product, StepEnd const& end, int parts) {
  using Element = __nv_bfloat16;
  auto const made = [&](auto head) { return launch_of(plan, role_chain(plan, options, head)); };
  if (columns <= 8) return made(HeadColumns<Element, 8, Extras>{{product}, end, parts});
  if (columns <= 16) return made(HeadColumns<Element, 16, Extras>{{product}, end, parts});
  if (columns <= 32) return made(HeadColumns<Element, 32, Extras>{{product}, end, parts});
  return made(HeadColumns<Element, 64, Extras>{{product}, end, parts});
}

/// With extras, in the other file.
Expected<Launch> head_with_extras(LoopPlan const& plan, RoleOptions const& options, int columns,
                                  few_tokens::Product const* product, StepEnd const& end, int parts);

}  // namespace tessera::decode
