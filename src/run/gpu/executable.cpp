// SPDX-License-Identifier: Apache-2.0
#include "run/gpu/own_stream.hpp"
#include "run/gpu/stall_group.hpp"
#include "tessera/run/bindings.hpp"

namespace tessera {

namespace {

/// At once.
Expected<void> zero(void* memory, std::size_t bytes) {
  auto const stream = run::own_stream();
  if (!stream) return tl::make_unexpected(stream.error());
  auto error = cudaMemsetAsync(memory, 0, bytes, *stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(*stream);
  return run::check_call(error, "cudaMemsetAsync");
}

}  // namespace

Expected<std::shared_ptr<void>> Scratch::get(std::string const& name, std::size_t bytes, bool zeroed) {
  if (lending_ && !zeroed) return std::shared_ptr<void>(std::shared_ptr<void>(), lent_.place(name, bytes));
  auto& known = memory_[name];
  if (known.data != nullptr && known.bytes >= bytes) return known.data;
  void* memory = nullptr;
  if (auto ok = run::check_call(cudaMalloc(&memory, bytes), "cudaMalloc",
                                fmt::format("for {} bytes of {}", bytes, name));
      !ok)
    return tl::make_unexpected(ok.error());
  std::shared_ptr<void> owner(memory, [](void* data) { (void)cudaFree(data); });
  if (zeroed)
    if (auto ok = zero(memory, bytes); !ok) return tl::make_unexpected(ok.error());
  if (known.data != nullptr) outgrown_.push_back(std::move(known.data));
  known = {std::move(owner), bytes};
  return known.data;
}

Expected<StallGroup*> Scratch::stalls() {
  if (stalls_ == nullptr) {
    auto const made = StallGroup::make(true);
    if (!made) return tl::make_unexpected(made.error());
    stalls_ = std::shared_ptr<StallGroup>(*made, [](StallGroup* group) { group->release(); });
  }
  return stalls_.get();
}

bool Scratch::stalled() const { return stalls_ != nullptr && stalls_->told(); }
Expected<void> Scratch::nothing_else_stalled(std::string const& called) const {
  return stalls_ == nullptr ? Expected<void>{} : stalls_->nothing_else_stalled(called);
}
unsigned Scratch::restarts() const { return stalls_ == nullptr ? 0 : stalls_->restarts(); }

Expected<Executable> Executable::make(Plan const& plan, Registry const& kernels, Bindings const& bindings,
                                      Tensors const& tensors, ChainOptions const& options,
                                      std::shared_ptr<Scratch> scratch) {
  if (scratch == nullptr) scratch = std::make_shared<Scratch>();
  auto bound = bind_kernels(plan, kernels, bindings, tensors, *scratch);
  if (!bound) return tl::make_unexpected(bound.error());
  auto const stalls = scratch->stalls();
  if (!stalls) return tl::make_unexpected(stalls.error());
  auto own = options;
  own.stalls_with = *stalls;
  auto chain = Chain::make(plan, *bound, own);
  if (!chain) return tl::make_unexpected(chain.error());
  return Executable(std::move(*chain), std::move(scratch));
}

Expected<int> Executable::add_set(Registry const& kernels, Bindings const& bindings, Tensors const& tensors,
                                  int in_place_of) {
  auto bound = bind_kernels(chain_.plan(), kernels, bindings, tensors, *scratch_);
  if (!bound) return tl::make_unexpected(bound.error());
  return chain_.add_set(*bound, in_place_of);
}

}  // namespace tessera
