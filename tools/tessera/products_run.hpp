// SPDX-License-Identifier: Apache-2.0
// tune, run and bench of gemm-all-reduce, gemm-reduce-scatter, all-gather-gemm: a product with its collective
// on the GPUs of this host. Everything that can be known without a GPU is refused here; the rest is
// tessera-peers'.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gpu_files.hpp"
#include "session.hpp"

namespace tessera::cli {

struct ProductsArguments {
  std::optional<long long> rows, columns, depth;
  std::optional<int> gpus;  ///< --gpus, which flows have, too
  bool without_peer_access = false;
  std::string record;
};

/// What `tessera tune` and `tessera run` take in place of a workload's name.
bool is_product(std::string const& name);
std::vector<std::string> const& product_names();

/// --rows, --columns, --depth.
void add_product_sizes(CLI::App& command, ProductsArguments& arguments);
/// These, and what `tessera run` has beside them.
void add_products_options(CLI::App& command, ProductsArguments& arguments);
/// --gpus.
void add_product_gpus(CLI::App& command, ProductsArguments& arguments);

/// E0906 for each of these that is given for something else.
Diagnostics unused_without_products(ProductsArguments const& arguments);

/// `verb`: tune, run or bench.
int run_products(Session const& session, std::string const& verb, GpuArguments const& common,
                 ProductsArguments const& arguments);

}  // namespace tessera::cli
