// SPDX-License-Identifier: Apache-2.0
#include "one_call.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace tessera::gemm_collectives {
namespace {

using Sized = std::pair<PeerGroup const*, Problem>;
using Key = std::pair<Sized, std::vector<cudaStream_t>>;

/// Never destroyed: when statics are, the driver may be gone.
struct Kept {
  std::mutex mutex;
  std::map<Key, GemmCollective> all;
  std::map<Sized, Options> options;
};
Kept& kept() {
  static auto& one = *new Kept;
  return one;
}

Expected<void> call(Collective collective, std::shared_ptr<PeerGroup> const& group, Sizes const& sizes,
                    std::vector<Operands> const& operands, std::vector<cudaStream_t> const& streams) {
  Problem const problem{collective, sizes.rows, sizes.columns, sizes.depth, sizes.type, group->size()};
  auto& here = kept();
  std::lock_guard const lock(here.mutex);
  Key const key{{group.get(), problem}, streams};
  auto found = here.all.find(key);
  if (found == here.all.end()) {
    auto const known = here.options.find(key.first);
    auto made = GemmCollective::make(group, problem, known != here.options.end() ? known->second : Options{});
    if (!made) return tl::make_unexpected(made.error());
    found = here.all.emplace(key, std::move(*made)).first;
  }
  return found->second.run(operands, streams);
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
  auto& here = kept();
  std::lock_guard const lock(here.mutex);
  Sized key{group.get(), problem};
  key.second.ranks = group->size();
  here.options.insert_or_assign(key, options);
  Expected<void> missed;
  for (auto at = here.all.begin(); at != here.all.end();) {
    bool const of_these = at->first.first == key;
    if (of_these)
      if (auto ended = at->second.finish(); !ended) missed = std::move(ended);
    at = of_these ? here.all.erase(at) : std::next(at);
  }
  return missed;
}

Expected<void> finish_all(std::shared_ptr<PeerGroup> const& group, bool release) {
  auto& here = kept();
  std::lock_guard const lock(here.mutex);
  Diagnostics missed;
  for (auto at = here.all.begin(); at != here.all.end();) {
    if (at->first.first.first != group.get()) {
      ++at;
      continue;
    }
    if (auto ended = at->second.finish(); !ended)
      missed.insert(missed.end(), ended.error().begin(), ended.error().end());
    at = release ? here.all.erase(at) : std::next(at);
  }
  if (release) std::erase_if(here.options, [&](auto const& one) { return one.first.first == group.get(); });
  if (!missed.empty()) return tl::make_unexpected(std::move(missed));
  return {};
}

}  // namespace tessera::gemm_collectives
