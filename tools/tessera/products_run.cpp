// SPDX-License-Identifier: Apache-2.0
#include "products_run.hpp"

#include <fmt/format.h>

#include <vector>

#include "commands.hpp"
#include "companion.hpp"
#include "files.hpp"
#include "kernels/gemm_collectives/problem.hpp"

namespace tessera::cli {
namespace {

namespace products = gemm_collectives;

constexpr int k_usual_gpus = 2;
constexpr long long k_most_size = 1 << 20;
constexpr char const* k_group =
    "Products on several GPUs (gemm-all-reduce, gemm-reduce-scatter, all-gather-gemm)";

}  // namespace

bool is_product(std::string const& name) { return products::collective_named(name).has_value(); }

std::vector<std::string> const& product_names() {
  static std::vector<std::string> const names{"gemm-all-reduce", "gemm-reduce-scatter", "all-gather-gemm"};
  return names;
}

void add_product_gpus(CLI::App& command, ProductsArguments& arguments) {
  command.add_option("--gpus", arguments.gpus, "The first so many GPUs of this host (2 to 16, default 2)")
      ->check(CLI::Range(1, k_most_ranks))
      ->option_text("N")
      ->group(k_group);
}

void add_product_sizes(CLI::App& command, ProductsArguments& arguments) {
  auto const size = [&](std::string const& name, std::optional<long long>& to, std::string const& what) {
    command.add_option(name, to, what)->check(CLI::Range(1LL, k_most_size))->option_text("N")->group(k_group);
  };
  size("--rows", arguments.rows, "Of the whole product");
  size("--columns", arguments.columns, "Of the whole product");
  size("--depth", arguments.depth, "Of the whole product");
}

void add_products_options(CLI::App& command, ProductsArguments& arguments) {
  add_product_sizes(command, arguments);
  command
      .add_flag("--without-peer-access", arguments.without_peer_access,
                "As if no GPU reached another's memory: NCCL alone")
      ->group(k_group);
  command.add_option("--record", arguments.record, "The measurements as JSON")
      ->option_text("FILE")
      ->group(k_group);
}

Diagnostics unused_without_products(ProductsArguments const& a) {
  Diagnostics found;
  for (auto const& [option, given] : {std::pair{"--rows", a.rows.has_value()},
                                      {"--columns", a.columns.has_value()},
                                      {"--depth", a.depth.has_value()},
                                      {"--without-peer-access", a.without_peer_access},
                                      {"--record", !a.record.empty()}})
    if (given) {
      auto one = complaint("E0906", fmt::format("{} is for products on several GPUs", option),
                           fmt::format("leave {} out", option));
      found.insert(found.end(), one.begin(), one.end());
    }
  return found;
}

int run_products(Session const& session, std::string const& verb, GpuArguments const& common,
                 ProductsArguments const& a) {
  auto const& name = common.workload.workload;
  auto others = common;
  others.workload.data_type.reset();
  others.quick = false;
  others.cache.clear();
  if (auto const unused = unused_gpu_options(others, name); !unused.empty()) return session.fail(unused);
  for (auto const& [option, given] :
       {std::pair{"--rows", a.rows}, {"--columns", a.columns}, {"--depth", a.depth}})
    if (!given)
      return session.fail(
          complaint("E0906", fmt::format("{} needs {}", name, option),
                    "give the sizes of the whole product: --rows 8 --columns 8192 --depth 8192"));
  if (a.gpus == 1)
    return session.fail(complaint("E0908", fmt::format("--gpus 1: {} is a product on several GPUs", name),
                                  fmt::format("ask for 2 to {}", k_most_ranks)));
  auto const type = common.workload.data_type.value_or("bf16");
  if (type != "bf16" && type != "fp16")
    return session.fail(complaint("E0906", fmt::format("--dtype: no product on several GPUs is of {}", type),
                                  "one of bf16, fp16"));
  products::Problem const problem{*products::collective_named(name),
                                  static_cast<int>(*a.rows),
                                  static_cast<int>(*a.columns),
                                  static_cast<int>(*a.depth),
                                  type == "fp16" ? gpu::ElementType::fp16 : gpu::ElementType::bf16,
                                  a.gpus.value_or(k_usual_gpus)};
  if (auto const fine = products::check_problem(problem); !fine) return session.fail(fine.error());
  if (auto const fit = check_outputs({a.record}); !fit) return session.fail(fit.error());
  // What is measured is kept where somebody asks for it.
  auto const cache = verb == "bench" && common.cache.empty() ? "-" : common.cache;
  std::vector<std::string> words{verb,
                                 name,
                                 std::to_string(problem.rows),
                                 std::to_string(problem.columns),
                                 std::to_string(problem.depth),
                                 type,
                                 std::to_string(problem.ranks),
                                 common.quick ? "quick" : "full",
                                 a.without_peer_access ? "apart" : "reach",
                                 cache};
  if (!a.record.empty()) words.push_back(a.record);
  return run_companion(session, fmt::format("tessera {} {}", verb, name), "tessera-peers", words);
}

}  // namespace tessera::cli
