// SPDX-License-Identifier: Apache-2.0
// Two products of a layer that ranks share, and what each rank does alone between them: what an MLP and an
// attention block are made of.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/gemm_collectives/gemm_collective.hpp"

namespace tessera::gemm_collectives {

/// Sizes, which follow from the products, and names.
struct PairShape {
  Problem first;   ///< an all-gather; of whole tokens it is a product alone
  Problem second;  ///< what it multiplies has the first one's rows
  Tokens rows = Tokens::spread;
  /// Nothing stands between: what the first product leaves is what the second multiplies.
  bool adjoined = false;
  std::string name;        ///< of refusals
  std::string weights[2];  ///< as the caller calls them
};

struct PairOptions {
  Options first;   ///< of whole tokens the kernel counts
  Options second;  ///< Way::automatic: what remember() has for the product, or the library's own choice
};

/// Of one rank, as Operands are; of whole tokens the peers may store into `y`.
struct PairOperands {
  void const* x = nullptr;
  void const* w1 = nullptr;
  void const* w2 = nullptr;
  void* y = nullptr;
};

class ProductPair {
 public:
  /// Enqueues what a rank does between the products, on its GPU, which is the current one: `left` is what
  /// the first product has left, `to` what the second one multiplies. Throws where it cannot.
  using Between = std::function<void(int rank, void* left, void* to, cudaStream_t stream)>;

  /// Errors as GemmCollective::make() has; of several processes a call of all ranks. `warm_up` is enqueued
  /// once on each rank, so that its kernels are loaded: one that is first loaded behind one that waits for a
  /// peer would never start.
  static Expected<ProductPair> make(std::shared_ptr<PeerGroup> group, PairShape shape,
                                    PairOptions const& options, Between const& warm_up);

  /// As GemmCollective::run(). `between` is not called where nothing stands between.
  Expected<void> run(std::vector<PairOperands> const& operands, std::vector<cudaStream_t> const& streams,
                     Between const& between);
  /// As GemmCollective's, of both products.
  Expected<void> finish();
  Expected<void> finish_own();
  Expected<void> hear_of_others() const;

  /// "copy, cublaslt(...); add, cublaslt(...), parts: 2".
  std::string name() const;

 private:
  struct State;
  explicit ProductPair(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace tessera::gemm_collectives
