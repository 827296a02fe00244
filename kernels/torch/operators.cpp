// SPDX-License-Identifier: Apache-2.0
// Operators for torch, registered without torch's headers; their schemas are defined in Python, and these two
// functions are what Python calls.
#include "operators.hpp"

#include <exception>
#include <mutex>
#include <set>
#include <string>

#include "kernels/c/tessera_c.h"
#include "tensors.hpp"
#include "tessera_torch.h"

namespace tessera::torch {
namespace {

struct Operator {
  char const* name;
  BoxedFunction function;
};
constexpr Operator operators[] = {{"attention", &attention},
                                  {"attention_out", &attention_out},
                                  {"convolution_chain", &convolution_chain},
                                  {"convolution_chain_out", &convolution_chain_out},
                                  {"mlp", &mlp},
                                  {"mlp_out", &mlp_out}};

void register_for(std::string const& key) {
  static std::mutex mutex;
  static std::set<std::string> known;
  std::lock_guard const lock(mutex);
  if (known.count(key) != 0) return;
  auto const& torch = torch_here();
  // Never deleted: operators are there until the process ends.
  LibraryHandle library = nullptr;
  check(torch.library_init_impl("tessera", key.c_str(), __FILE__, __LINE__, &library),
        "open the namespace tessera");
  for (auto const& [name, function] : operators)
    check(torch.library_impl(library, name, function, abi_version), "take an operator");
  known.insert(key);
}

}  // namespace
}  // namespace tessera::torch

namespace {

/// Null, or why `function` threw.
template <class Function>
char const* reason_of(Function const& function) noexcept {
  thread_local std::string reason;
  try {
    function();
    return nullptr;
  } catch (std::exception const& error) {
    reason = error.what();
  } catch (...) {
    reason = "unknown";
  }
  return reason.c_str();
}

}  // namespace

char const* tessera_torch_register(char const* key) {
  return reason_of([&] { tessera::torch::register_for(key == nullptr ? "CUDA" : key); });
}

char const* tessera_torch_check(int device, void* stream) {
  return reason_of([&] {
    tessera::torch::OnDevice const here(tessera::torch::torch_here(), device);
    tessera::torch::named("mlp", [&] { tessera::torch::done(tessera_finish(stream)); });
  });
}
