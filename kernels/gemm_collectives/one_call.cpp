// SPDX-License-Identifier: Apache-2.0
#include "one_call.hpp"

#include <map>
#include <optional>
#include <utility>

#include "kernels/common/per_stream.hpp"
#include "kernels/common/refusal.hpp"

namespace tessera::gemm_collectives {
namespace {

using Sized = std::pair<PeerGroup const*, Problem>;

struct Kept {
  std::optional<GemmCollective> product;
  int options = 0;  ///< the number of those it was made with
};
struct Remembered {
  Options options;
  int number = 0;
};

/// One product for all calls of a group's sizes, which the group keeps apart whatever their streams, and one
/// for each capture: its graph may be replayed beside calls that follow. Never destroyed: when statics are,
/// the driver may be gone.
struct All {
  kernels::PerStream<Sized, Kept> kept;
  std::map<Sized, Remembered> options;
  /// What later captures no longer use. To free it would wait, which CUDA refuses in a capture.
  std::vector<std::pair<PeerGroup const*, GemmCollective>> retired;
};
All& all() {
  static auto& one = *new All;
  return one;
}

/// Of a call: the capture that its streams are in, or none.
Expected<kernels::StreamNow> place_of(std::vector<cudaStream_t> const& streams) {
  kernels::StreamNow place;
  for (auto* const stream : streams) {
    kernels::StreamNow now;
    if (auto const error = kernels::look_at(stream, now); error != cudaSuccess)
      return kernels::cuda_failed(error, "a look at a stream");
    if (place.graph != nullptr || now.graph == nullptr) continue;
    place.place.capture = now.place.capture;
    place.graph = now.graph;
  }
  return place;
}

Expected<void> call(Collective collective, std::shared_ptr<PeerGroup> const& group, Sizes const& sizes,
                    std::vector<Operands> const& operands, std::vector<cudaStream_t> const& streams) {
  Problem const problem{collective, sizes.rows, sizes.columns, sizes.depth, sizes.type, group->size()};
  auto& here = all();
  std::lock_guard const lock(here.kept.mutex);
  auto const place = place_of(streams);
  if (!place) return tl::make_unexpected(place.error());
  Sized const key{group.get(), problem};
  Kept *found = nullptr, *outside = nullptr;
  (void)here.kept.find(kernels::StreamNow{}, key, outside);
  bool const captured = place->graph != nullptr;
  if (captured && !outside->product)
    return kernels::refusal("E0581", "the first call of these sizes is in a capture",
                            "make one call outside of it first, which loads kernels", {to_string(problem)});
  if (auto const error = here.kept.find(*place, key, found); error != cudaSuccess)
    return kernels::cuda_failed(error, "a look for what a capture has kept");
  auto const known = here.options.find(key);
  auto const wanted = known != here.options.end() ? known->second : Remembered{};
  if (found->product && found->options != wanted.number && found != outside) {
    // Of a graph that is gone, or of calls that this capture holds from before remember().
    here.retired.emplace_back(group.get(), std::move(*found->product));
    found->product.reset();
  }
  if (!found->product) {
    auto made = GemmCollective::make(group, problem, wanted.options);
    if (!made) return tl::make_unexpected(made.error());
    found->product.emplace(std::move(*made));
    found->options = wanted.number;
  }
  return found->product->run(operands, streams);
}

}  // namespace

Expected<void> gemm_all_reduce(std::shared_ptr<PeerGroup> const& group, Sizes const& sizes,
                               std::vector<Operands> const& operands,
                               std::vector<cudaStream_t> const& streams) {
  return call(Collective::all_reduce, group, sizes, operands, streams);
}
Expected<void> gemm_reduce_scatter(std::shared_ptr<PeerGroup> const& group, Sizes const& sizes,
                                   std::vector<Operands> const& operands,
                                   std::vector<cudaStream_t> const& streams) {
  return call(Collective::reduce_scatter, group, sizes, operands, streams);
}
Expected<void> all_gather_gemm(std::shared_ptr<PeerGroup> const& group, Sizes const& sizes,
                               std::vector<Operands> const& operands,
                               std::vector<cudaStream_t> const& streams) {
  return call(Collective::all_gather, group, sizes, operands, streams);
}

Expected<void> remember(std::shared_ptr<PeerGroup> const& group, Problem const& problem,
                        Options const& options) {
  auto& here = all();
  std::lock_guard const lock(here.kept.mutex);
  Sized key{group.get(), problem};
  key.second.ranks = group->size();
  auto& known = here.options[key];
  known = {options, known.number + 1};
  Kept* outside = nullptr;
  (void)here.kept.find(kernels::StreamNow{}, key, outside);
  if (!outside->product) return {};
  auto ended = outside->product->finish();
  // Kernels are loaded for captures as soon as there is a product: the new one is made here.
  outside->product.reset();
  auto made = GemmCollective::make(group, key.second, options);
  if (!made) return tl::make_unexpected(made.error());
  outside->product.emplace(std::move(*made));
  outside->options = known.number;
  return ended;
}

Expected<void> finish_all(std::shared_ptr<PeerGroup> const& group, bool release) {
  auto& here = all();
  std::lock_guard const lock(here.kept.mutex);
  Diagnostics missed;
  auto const finish = [&](GemmCollective& product) {
    if (auto ended = product.finish(); !ended)
      missed.insert(missed.end(), ended.error().begin(), ended.error().end());
  };
  here.kept.for_all([&](Sized const& key, Kept& one, bool) {
    if (key.first != group.get() || !one.product) return;
    finish(*one.product);
    if (release) one.product.reset();
  });
  for (auto& [of, product] : here.retired)
    if (of == group.get()) finish(product);
  if (release) {
    std::erase_if(here.retired, [&](auto const& one) { return one.first == group.get(); });
    std::erase_if(here.options, [&](auto const& one) { return one.first.first == group.get(); });
  }
  if (!missed.empty()) return tl::make_unexpected(std::move(missed));
  return {};
}

}  // namespace tessera::gemm_collectives
