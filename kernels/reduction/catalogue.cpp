// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include "kernels/common/whole_launch.hpp"

namespace tessera::reduction {

std::vector<KernelEntry> catalogue() {
  KernelEntry kernel;
  kernel.name = "sum";
  kernel.family = "reduction";
  kernel.architectures = {"sm_90"};
  kernel.kind = OperatorKind::sum;
  kernel.whole = true;
  // results/h200/reduction.json: 1 GiB in 234 us, 4.6 TB/s, which is all that reading alone reaches.
  kernel.efficiency = 1;
  KernelForm form;
  form.types = {ElementType::fp32, ElementType::fp64, ElementType::int32};
  form.epilogues = {Epilogue::none};
  kernel.forms = {form};
  kernel.can = kernels::whole_launch();
  return {kernel};
}

}  // namespace tessera::reduction
