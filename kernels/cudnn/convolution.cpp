// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/convolution.hpp"

#include <algorithm>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "kernels/cudnn/plan_building.hpp"

namespace tessera::cudnn {

bool available() { return own_handle() != nullptr; }

std::string version() {
  if (!available()) return "no cuDNN: libcudnn.so.9 was not found";
  auto const v = library().version();
  return "cuDNN " + std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
         std::to_string(v % 100);
}

Problem problem_of(convolution::LayerChain const& chain, std::size_t layer) {
  auto const sizes = sizes_of(chain);
  Problem result{chain.images, sizes[layer], chain.layers[layer], chain.type};
  auto& residual = result.layer.residual;
  residual = residual == -1 ? -1 : 0;
  return result;
}

struct Plans::State {
  std::vector<Plan> plans;
  int offered = 0;
};

namespace {

/// That which the fewest threads are at; null: nothing is left to do.
Building* next_of(std::deque<Building>& all, std::mutex& mutex) {
  std::lock_guard const lock(mutex);
  Building* least = nullptr;
  int fewest = 0;
  for (auto& one : all)
    if (int const builders = one.builders(); builders >= 0 && (least == nullptr || builders < fewest))
      least = &one, fewest = builders;
  if (least != nullptr) least->enter();
  return least;
}

constexpr int k_most_threads = 16;

}  // namespace

Plans::Plans() : state_(std::make_unique<State>()) {}

Plans::Plans(Problem const& problem, int most, double seconds)
    : Plans(std::move(of_all({problem}, most, seconds, 1).front())) {}

std::vector<Plans> Plans::of_all(std::vector<Problem> const& problems, int most, double seconds,
                                 int threads) {
  std::deque<Building> all;
  for (auto const& problem : problems) all.emplace_back(problem, most, seconds);
  std::mutex mutex;
  auto const work = [&](Handle const& handle) {
    if (handle == nullptr) return;
    while (auto* const one = next_of(all, mutex)) one->join(handle);
  };
  int const processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  int const useful = most == 1 ? static_cast<int>(problems.size()) : k_most_threads;
  int const wanted = std::min({threads > 0 ? threads : processors, k_most_threads, std::max(1, useful)});
  int device = 0;
  bool const has_device = cudaGetDevice(&device) == cudaSuccess;
  std::vector<std::thread> others;
  if (available() && has_device)
    for (int i = 1; i < wanted; ++i) try {
        others.emplace_back([&] {
          if (cudaSetDevice(device) == cudaSuccess) work(make_handle());
        });
      } catch (std::system_error const&) {
        break;  // no more threads here: fewer do
      }
  work(own_handle());
  for (auto& one : others) one.join();
  std::vector<Plans> result;
  for (auto& one : all) {
    Plans plans;
    plans.state_->plans = one.plans(), plans.state_->offered = one.offered();
    result.push_back(std::move(plans));
  }
  return result;
}

Plans::~Plans() = default;
Plans::Plans(Plans&&) noexcept = default;
Plans& Plans::operator=(Plans&&) noexcept = default;

int Plans::count() const { return static_cast<int>(state_->plans.size()); }
int Plans::offered() const { return state_->offered; }
std::string Plans::name(int plan) const { return state_->plans[static_cast<std::size_t>(plan)].name; }
std::int64_t Plans::workspace_bytes(int plan) const {
  return state_->plans[static_cast<std::size_t>(plan)].workspace;
}

bool Plans::run(int plan, Buffers const& b, void* workspace, cudaStream_t stream) const {
  try {
    auto const& chosen = state_->plans[static_cast<std::size_t>(plan)];
    ok(library().set_stream(chosen.handle.get(), stream), "stream");
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    std::vector<std::int64_t> ids = {k_x, k_w, k_y};
    std::vector<void*> memory = {const_cast<void*>(b.input), const_cast<void*>(b.filter), b.output};
    for (auto const& [id, at] : {std::pair{k_bias, b.bias}, {k_residual, b.residual}})
      if (at != nullptr) ids.push_back(id), memory.push_back(const_cast<void*>(at));
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, memory);
    pack.set<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, {workspace});
    pack = std::move(pack).finished();
    ok(library().execute(chosen.handle.get(), chosen.plan.get(), pack.get()), "execute");
    return true;
  } catch (Refused const&) {
    return false;
  }
}

}  // namespace tessera::cudnn
