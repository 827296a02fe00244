// SPDX-License-Identifier: Apache-2.0
// The catalogue says of every compiled kernel what the kernel says of itself; no GPU is asked.
#include "kernels/gemm_sm90/catalogue.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "kernels/gemm_sm90/gemm.hpp"

namespace tessera::gemm_sm90 {
namespace {

struct Form {
  KernelEntry kernel;
  KernelForm form;
};

/// Every form of the catalogue under its compiled name.
std::map<std::string, Form> forms() {
  std::map<std::string, Form> result;
  for (auto const& kernel : catalogue())
    for (auto const& form : kernel.forms)
      for (auto const type : form.types) {
        auto const name = compiled_name(kernel, form.epilogues.front(), type);
        EXPECT_TRUE(result.emplace(name, Form{kernel, form}).second) << name << " is there twice";
      }
  return result;
}

TEST(GemmCatalogue, HasEveryCompiledKernelAndNoOther) {
  auto const all = forms();
  for (auto const& [name, form] : all) EXPECT_NE(find_kernel(name.c_str()), nullptr) << name;
  for (Kernel const& kernel : kernels()) EXPECT_EQ(all.count(kernel.info.name), 1U) << kernel.info.name;
  EXPECT_EQ(all.size(), kernels().size());
}

TEST(GemmCatalogue, SaysWhatTheCompiledKernelsAre) {
  for (auto const& [name, form] : forms()) {
    Kernel const* const compiled = find_kernel(name.c_str());
    ASSERT_NE(compiled, nullptr) << name;
    KernelInfo const& info = compiled->info;
    auto const& kernel = form.kernel;
    EXPECT_EQ(info.tile_rows, kernel.tile_m) << name;
    EXPECT_EQ(info.tile_columns, kernel.tile_n) << name;
    EXPECT_EQ(info.tile_depth, kernel.tile_k) << name;
    EXPECT_EQ(info.cluster_rows, kernel.cluster_m) << name;
    EXPECT_EQ(info.cluster_columns, kernel.cluster_n) << name;
    EXPECT_EQ(info.swapped, kernel.swapped) << name;
    EXPECT_EQ(info.pingpong, kernel.alternates) << name;
    EXPECT_EQ(info.splits, kernel.splits) << name;
    EXPECT_EQ(info.stages, form.form.pipeline_stages) << name;
    EXPECT_EQ(info.threads, form.form.resources.threads) << name;
    EXPECT_EQ(info.shared_bytes, form.form.resources.shared_bytes) << name;
    EXPECT_EQ(info.gated, form.form.epilogues == std::vector{Epilogue::swiglu}) << name;
  }
}

TEST(GemmCatalogue, NamesNoKernelForAFormThatIsNotCompiled) {
  for (auto const& kernel : catalogue())
    if (kernel.name == "gemm_256x144x64_1x2") {
      EXPECT_EQ(compiled_name(kernel, Epilogue::gelu, tessera::ElementType::bf16), "256x144x64_1x2");
      EXPECT_EQ(compiled_name(kernel, Epilogue::swiglu, tessera::ElementType::bf16), "");
      EXPECT_EQ(compiled_name(kernel, Epilogue::none, tessera::ElementType::fp16), "");
    }
}

}  // namespace
}  // namespace tessera::gemm_sm90
