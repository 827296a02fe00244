// SPDX-License-Identifier: Apache-2.0
// run gemm-all-reduce, gemm-reduce-scatter, all-gather-gemm: a product with its collective on the GPUs of
// this host. Everything that can be known without a GPU is refused here; the rest is tessera-peers'.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "gpu_files.hpp"
#include "session.hpp"

namespace tessera::cli {

struct ProductsArguments {
  std::optional<long long> rows, columns, depth;
  std::optional<int> gpus;  ///< --gpus, which flows have, too
  bool without_peer_access = false;
  std::string record;
};

/// What `tessera run` takes in place of a workload's name.
bool is_product(std::string const& name);

void add_products_options(CLI::App& command, ProductsArguments& arguments);

/// E0906 for each of these that is given for something else.
Diagnostics unused_without_products(ProductsArguments const& arguments);

int run_products(Session const& session, GpuArguments const& common, ProductsArguments const& arguments);

}  // namespace tessera::cli
