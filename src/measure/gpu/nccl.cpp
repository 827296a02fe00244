// SPDX-License-Identifier: Apache-2.0
#include "measure/gpu/methods/nccl.hpp"

#include <dlfcn.h>

#include <stdexcept>

namespace tessera::probe {
namespace {

using Result = int;  // ncclResult_t; 0: success
constexpr int k_float64 = 8, k_sum = 0;

template <class Function>
bool find(void* library, char const* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

struct Nccl::Calls {
  void* library = nullptr;
  Result (*version)(int*) = nullptr;
  Result (*init_all)(void**, int, int const*) = nullptr;
  Result (*destroy)(void*) = nullptr;
  Result (*all_reduce)(void const*, void*, std::size_t, int, int, void*, cudaStream_t) = nullptr;
  Result (*group_begin)() = nullptr;
  Result (*group_end)() = nullptr;
  char const* (*text)(Result) = nullptr;

  void ok(Result result, char const* call) const {
    if (result != 0) throw std::runtime_error(std::string(call) + ": " + text(result));
  }
};

std::unique_ptr<Nccl> Nccl::open(Team const& team, std::string& why) {
  auto calls = std::make_unique<Calls>();
  calls->library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (calls->library == nullptr) {
    why = dlerror();
    return nullptr;
  }
  void* const library = calls->library;
  if (!find(library, "ncclGetVersion", calls->version) ||
      !find(library, "ncclCommInitAll", calls->init_all) ||
      !find(library, "ncclCommDestroy", calls->destroy) ||
      !find(library, "ncclAllReduce", calls->all_reduce) ||
      !find(library, "ncclGroupStart", calls->group_begin) ||
      !find(library, "ncclGroupEnd", calls->group_end) || !find(library, "ncclGetErrorString", calls->text)) {
    why = "libnccl.so.2 lacks a function";
    dlclose(library);
    return nullptr;
  }
  std::unique_ptr<Nccl> nccl(new Nccl);
  nccl->calls_ = std::move(calls);
  auto const& call = *nccl->calls_;
  call.ok(call.version(&nccl->version_), "ncclGetVersion");
  std::vector<int> devices;
  for (int rank = 0; rank < team.size(); ++rank) devices.push_back(team.device(rank));
  std::vector<void*> ranks(devices.size(), nullptr);
  call.ok(call.init_all(ranks.data(), team.size(), devices.data()), "ncclCommInitAll");
  nccl->ranks_ = std::move(ranks);
  team.select(0);
  return nccl;
}

Nccl::~Nccl() {
  for (void* rank : ranks_) calls_->destroy(rank);
  // The library stays loaded: its threads may outlive the communicators for a moment.
}

void Nccl::all_reduce(int rank, double const* from, double* to, std::size_t count,
                      cudaStream_t stream) const {
  calls_->ok(
      calls_->all_reduce(from, to, count, k_float64, k_sum, ranks_[static_cast<std::size_t>(rank)], stream),
      "ncclAllReduce");
}
void Nccl::group_begin() const { calls_->ok(calls_->group_begin(), "ncclGroupStart"); }
void Nccl::group_end() const { calls_->ok(calls_->group_end(), "ncclGroupEnd"); }

}  // namespace tessera::probe
