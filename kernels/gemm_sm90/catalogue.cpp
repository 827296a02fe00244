// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <array>

namespace tessera::gemm_sm90 {
namespace {

/// At launch every thread gets the same registers, 65536 / threads rounded down to 8, and moves them between
/// warp groups later.
constexpr int k_threads = 384, k_registers = 168;

enum Types { none, bf16, both };

/// A tile shape; slices in flight and shared memory are CUTLASS's for it, told by the compiled KernelInfo.
struct Shape {
  int m, n, k, cluster_m, cluster_n;
  bool alternates;
  struct Form {
    Types types;
    int pipeline_stages, shared_bytes;
  } plain, gated;
  bool swapped = false;
  int splits = 1;
};

// Preferred first. 256 x 176 is compiled with a gate only.
constexpr std::array k_shapes{Shape{128, 256, 64, 2, 1, false, {both, 4, 214016}, {both, 4, 214016}},
                              Shape{256, 128, 64, 1, 2, false, {bf16, 4, 214016}, {bf16, 4, 214016}},
                              Shape{128, 192, 64, 2, 1, true, {both, 5, 214016}, {}},
                              Shape{256, 192, 64, 2, 1, false, {both, 3, 189440}, {}},
                              Shape{256, 144, 64, 1, 2, false, {bf16, 3, 190848}, {}},
                              Shape{256, 176, 64, 2, 1, false, {}, {bf16, 3, 211328}},
                              Shape{128, 176, 64, 2, 1, true, {bf16, 5, 217472}, {both, 5, 217472}},
                              Shape{128, 168, 64, 2, 1, true, {bf16, 5, 209280}, {both, 5, 217472}},
                              Shape{128, 160, 64, 2, 1, true, {bf16, 6, 230400}, {}},
                              Shape{128, 144, 64, 2, 1, true, {bf16, 6, 227712}, {}},
                              Shape{128, 128, 64, 2, 1, true, {both, 6, 205824}, {both, 6, 205824}},
                              Shape{128, 96, 64, 2, 1, true, {both, 7, 209920}, {bf16, 7, 205312}},
                              Shape{64, 128, 64, 1, 1, true, {bf16, 9, 230400}, {}},
                              Shape{80, 192, 64, 2, 1, true, {both, 6, 215040}, {}, true},
                              Shape{96, 192, 64, 2, 1, true, {both, 6, 231424}, {}, true},
                              Shape{112, 192, 64, 2, 1, true, {both, 5, 200704}, {}, true},
                              Shape{160, 128, 64, 2, 1, true, {bf16, 6, 231424}, {}, true},
                              Shape{80, 192, 64, 2, 1, true, {bf16, 6, 215040}, {}, true, 2},
                              Shape{112, 192, 64, 2, 1, true, {bf16, 5, 200704}, {}, true, 2}};

constexpr char k_prefix[] = "gemm_";

std::string name_of(Shape const& s) {
  auto const by = [](int a, int b) { return std::to_string(a) + "x" + std::to_string(b); };
  std::string name = k_prefix + by(s.m, s.n) + "x" + std::to_string(s.k) + "_" + by(s.cluster_m, s.cluster_n);
  if (s.swapped) name += "_swapped";
  if (s.splits > 1) name += "_split" + std::to_string(s.splits);
  return name;
}

KernelForm form_of(Shape::Form const& form, std::vector<Epilogue> epilogues) {
  KernelForm result;
  result.types = {ElementType::bf16};
  if (form.types == both) result.types.push_back(ElementType::fp16);
  result.epilogues = std::move(epilogues);
  result.pipeline_stages = form.pipeline_stages;
  result.resources = {k_threads, k_registers, form.shared_bytes};
  return result;
}

KernelEntry entry(Shape const& s) {
  KernelEntry kernel;
  kernel.name = name_of(s);
  kernel.family = "gemm_sm90";
  kernel.architectures = {"sm_90"};
  kernel.kind = OperatorKind::gemm;
  kernel.tile_m = s.m;
  kernel.tile_n = s.n;
  kernel.tile_k = s.k;
  kernel.cluster_m = s.cluster_m;
  kernel.cluster_n = s.cluster_n;
  kernel.swapped = s.swapped;
  kernel.alternates = s.alternates;
  kernel.splits = s.splits;
  kernel.last_split_posts = s.splits > 1;
  if (s.plain.types != none) kernel.forms.push_back(form_of(s.plain, {Epilogue::none, Epilogue::gelu}));
  if (s.gated.types != none) kernel.forms.push_back(form_of(s.gated, {Epilogue::swiglu}));
  kernel.can.run_beside = kernel.can.any_order = false;
  kernel.can.fuse = false;
  // With no registers to spare for a band that is known only when it runs.
  if (s.n == 168) kernel.can.heights = {1, 8};
  return kernel;
}

}  // namespace

std::vector<KernelEntry> catalogue() {
  std::vector<KernelEntry> result;
  for (auto const& shape : k_shapes) result.push_back(entry(shape));
  return result;
}

std::string compiled_name(KernelEntry const& kernel, Epilogue epilogue, tessera::ElementType type) {
  if (find_form(kernel, epilogue, type) == nullptr) return {};
  auto name = kernel.name.substr(sizeof k_prefix - 1);
  if (epilogue == Epilogue::swiglu) name += "_gated";
  if (type == ElementType::fp16) name += "_fp16";
  return name;
}

}  // namespace tessera::gemm_sm90
