// SPDX-License-Identifier: Apache-2.0
// What docs/tile-operations.md shows of operations with roles and has no program of its own: it compiles, and
// tests/docs/check compares the page with it.
#include "tessera/run/run_roles.hpp"

namespace tessera::tile_operations_page {

struct ProductArguments {
  void const* weights;  // in device memory, as a tensor map
  int slots;
};

struct Product {
  static constexpr bool has_roles = true;
  static constexpr int threads = 128;          // that compute; a multiple of 32
  static constexpr int loader_registers = 56;  // of a thread that loads; may be left out
  static constexpr int shared_bytes = 4096;    // beside the rings; may be left out
  using Arguments = ProductArguments;          // of a stage: at most 256 bytes, a multiple of 8
  ProductArguments const* of_stages;
  TESSERA_HOST_DEVICE Arguments const* arguments(int stage) const { return of_stages + stage; }

  template <class L>
  __device__ void load_early(L& loader) const {
    auto const& p = loader.template arguments<Product>();
    acquire_map(p.weights);
    for (int k = 0; k < p.slots; ++k) {
      RingSlot slot;
      if (loader.take(64 * 128, slot))  // a box of 64 rows of 128 bytes; all three warps call it for each
        load_box(slot.address, p.weights, 64 * k, 64 * loader.job->tile, slot.barrier, streaming_policy());
    }
  }
  template <class L>
  __device__ void load_late(L& loader) const;
  template <class C, class V>
  __device__ void compute(C& computer, V& view) const;
};

static_assert(detail::has_roles<Product>(0), "");

/// What the page leaves out is not called; what it shows is compiled.
__global__ void loads(Product product, EarlyLoader<DeadlineWatch<>>* loader) { product.load_early(*loader); }

Expected<LoopPlan> planned_by_price(Loop const& loop, MachineProfile const& machine, RoleRings const& rings) {
  LoadAhead ahead;
  ahead.in_flight_bytes = 1.0 * (rings.in_flight > 0 ? rings.in_flight : rings.slots) * rings.slot_bytes;
  ahead.room_bytes = 1.0 * rings.slots * rings.slot_bytes;
  return plan_loop_by_price(loop, machine, {{"scores"}, ahead}, machine.sms);
}

}  // namespace tessera::tile_operations_page
