// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution/conv_chain.hpp"

#include <optional>
#include <tessera/run/bindings.hpp>
#include <tessera/run/device.hpp>

#include "kernels/common/refusal.hpp"
#include "kernels/convolution/conv_loop.hpp"
#include "kernels/convolution/layer_binding.hpp"
#include "kernels/convolution/layer_cut.hpp"

namespace tessera::convolution {
namespace {

using Memory = std::vector<std::shared_ptr<void const>>;

Expected<void*> allocate(std::size_t bytes, char const* what, Memory& memory) {
  void* at = nullptr;
  if (auto const e = cudaMalloc(&at, bytes); e != cudaSuccess) return kernels::cuda_failed(e, what);
  memory.emplace_back(at, [](void const* of) { cudaFree(const_cast<void*>(of)); });
  return at;
}

/// The chain's input and what each layer writes; memory of the chain where the caller has none.
Expected<std::vector<void const*>> find_activations(LayerChain const& chain, ConvBuffers const& buffers,
                                                    Memory& memory) {
  auto const sizes = sizes_of(chain);
  std::vector<void const*> result = {buffers.input};
  for (std::size_t l = 0; l < chain.layers.size(); ++l) {
    result.push_back(buffers.layers[l].output);
    if (result.back() != nullptr) continue;
    auto const bytes = 2 * static_cast<std::size_t>(activation_elements(chain, sizes[l + 1]));
    auto const own = allocate(bytes, "memory for activations", memory);
    if (!own) return tl::make_unexpected(own.error());
    result.back() = *own;
  }
  return result;
}

/// A launch's stages with what they read and write, in device memory. `activations` and `layers` begin with
/// the launch's own; `times`: of each layer, or none.
Expected<ConvStage const*> describe(ChainPart const& part, void const* const* activations,
                                    LayerBuffers const* layers,
                                    std::vector<few_tokens::TileTimes*> const& times, Memory& memory) {
  auto stages = part.cut.stages;
  std::vector<CUtensorMap> maps(2 * stages.size());
  for (std::size_t l = 0; l < stages.size(); ++l) {
    auto& s = stages[l];
    s.output = const_cast<void*>(activations[l + 1]);
    s.bias = layers[l].bias;
    s.residual = layers[l].residual;
    if (!times.empty()) s.times = times[part.first + l];
    if (int const residual = part.chain.layers[l].residual; residual >= 0) s.residual = activations[residual];
    if (!filter_map(&maps[2 * l], part.chain.type, layers[l].filter, s) ||
        !input_map(&maps[2 * l + 1], part.chain.type, activations[l], s))
      return tl::make_unexpected(not_described(part.first + l));
  }
  auto const maps_at =
      copy_on_device(maps.data(), maps.size() * sizeof(CUtensorMap), "descriptions of a chain's memory");
  if (!maps_at) return tl::make_unexpected(maps_at.error());
  memory.push_back(*maps_at);
  for (std::size_t l = 0; l < stages.size(); ++l) {
    auto const* const first = static_cast<CUtensorMap const*>(maps_at->get()) + 2 * l;
    stages[l].filter_map = first, stages[l].input_map = first + 1;
  }
  auto const at = copy_on_device(stages.data(), stages.size() * sizeof(ConvStage), "a chain's layers");
  if (!at) return tl::make_unexpected(at.error());
  memory.push_back(*at);
  return static_cast<ConvStage const*>(at->get());
}

/// Behind another launch of the chain a launch starts early: what it loads then nobody writes.
Expected<ConvLoop> launch_of(ChainPart const& part, ConvStage const* stages, MachineProfile const& machine,
                             ConvOptions const& options, StallGroup* stalls) {
  auto const plan = plan_chain(part.cut, machine, part.first);
  if (!plan) return tl::make_unexpected(plan.error());
  RoleOptions role;
  role.rings = part.cut.rings;
  role.cluster_blocks = part.cut.splits;
  role.starts_early = options.starts_early || part.first > 0;
  role.chain.deadline_seconds = options.deadline_seconds;
  role.chain.stalls_with = stalls;
  return part.chain.type == ElementType::bf16 ? loop_of_bf16(*plan, role, stages)
                                              : loop_of_fp16(*plan, role, stages);
}

/// Runs of several launches, one behind the other on whatever streams: the first launch of one writes what
/// the last of the one before may still read. Graphs that are captured are the caller's to order.
class RunOrder {
 public:
  RunOrder() = default;
  RunOrder(RunOrder const&) = delete;
  RunOrder& operator=(RunOrder const&) = delete;
  ~RunOrder() {
    if (done_ != nullptr) cudaEventDestroy(done_);
  }

  Expected<void> before(cudaStream_t stream) {
    auto status = cudaStreamCaptureStatusNone;
    if (auto const e = cudaStreamIsCapturing(stream, &status); e != cudaSuccess)
      return kernels::cuda_failed(e, "a stream for a chain");
    captured_ = status != cudaStreamCaptureStatusNone;
    if (captured_) return {};
    unsigned long long id = 0;  // of a stream, unlike its handle, never used again
    auto e = cudaStreamGetId(stream, &id);
    if (e == cudaSuccess && done_ == nullptr) e = cudaEventCreateWithFlags(&done_, cudaEventDisableTiming);
    if (e == cudaSuccess && last_ && *last_ != id) e = cudaStreamWaitEvent(stream, done_, 0);
    last_ = id;
    if (e != cudaSuccess) return kernels::cuda_failed(e, "the order of a chain's runs");
    return {};
  }
  Expected<void> behind(cudaStream_t stream) const {
    if (captured_) return {};
    if (auto const e = cudaEventRecord(done_, stream); e != cudaSuccess)
      return kernels::cuda_failed(e, "the order of a chain's runs");
    return {};
  }

 private:
  cudaEvent_t done_ = nullptr;
  std::optional<unsigned long long> last_;
  bool captured_ = false;
};

}  // namespace

struct ConvChain::State {
  Scratch together;  ///< its launches stall together: a run is of all of them
  bool by_layer = false;
  std::vector<ChainPart> parts;
  RunOrder order;                             // where there are several
  std::vector<few_tokens::TileTimes*> times;  ///< of each layer
  Memory memory;
  std::vector<ConvLoop> loops;  // before the memory they go: their launches use it
};

Expected<ConvChain> ConvChain::make(LayerChain const& chain, ConvBuffers const& buffers,
                                    ConvOptions const& options) {
  if (auto ok = check_chain(chain); !ok) return tl::make_unexpected(ok.error());
  if (auto ok = check_buffers(chain, buffers); !ok) return tl::make_unexpected(ok.error());
  // What can be refused without a GPU is.
  auto const cut = [&](Places const& places) {
    return options.by_layer ? cut_layers(chain, places.sms, options) : cut_launches(chain, places, options);
  };
  if (auto const any = cut({}); !any) return tl::make_unexpected(any.error());
  auto const machine = with_device();
  if (!machine) return tl::make_unexpected(machine.error());
  auto const places = places_on_device(machine->sms);
  if (!places) return tl::make_unexpected(places.error());
  auto parts = cut(*places);
  if (!parts) return tl::make_unexpected(parts.error());

  auto const state = std::make_shared<State>();
  state->parts = std::move(*parts);
  auto const stalls = state->together.stalls();
  if (!stalls) return tl::make_unexpected(stalls.error());
  auto const activations = find_activations(chain, buffers, state->memory);
  if (!activations) return tl::make_unexpected(activations.error());
  for (auto const& part : state->parts)
    for (auto const& stage : part.cut.stages) {
      if (!options.keep_times) break;
      auto const bytes = static_cast<std::size_t>(stage.tiles()) * sizeof(few_tokens::TileTimes);
      auto const at = allocate(bytes, "times of tiles", state->memory);
      if (!at) return tl::make_unexpected(at.error());
      state->times.push_back(static_cast<few_tokens::TileTimes*>(*at));
    }
  if (state->by_layer = options.by_layer; state->by_layer) {
    for (auto const& part : state->parts) {
      auto loop = layer_launch(part, chain, *activations, buffers.layers[part.first],
                               state->times.empty() ? nullptr : state->times[part.first],
                               options.starts_early || part.first > 0);
      if (!loop) return tl::make_unexpected(loop.error());
      state->loops.push_back(std::move(*loop));
    }
    ConvChain result;
    result.state_ = state;
    return result;
  }
  for (auto const& part : state->parts) {
    auto const stages = describe(part, activations->data() + part.first, buffers.layers.data() + part.first,
                                 state->times, state->memory);
    if (!stages) return tl::make_unexpected(stages.error());
    auto loop = launch_of(part, *stages, *machine, options, *stalls);
    if (!loop) return tl::make_unexpected(loop.error());
    state->loops.push_back(std::move(*loop));
  }
  ConvChain result;
  result.state_ = state;
  return result;
}

Expected<void> ConvChain::run(cudaStream_t stream) {
  auto& state = *state_;
  if (state.loops.size() == 1) return state.loops.front().launch(stream);
  auto result = state.order.before(stream);
  if (!result) return result;
  for (auto const& loop : state.loops)
    if (result = loop.launch(stream); !result) break;
  // Also behind a part of a run.
  if (auto ok = state.order.behind(stream); !ok && result) result = ok;
  return result;
}
Expected<void> ConvChain::finish() {
  if (state_->by_layer) {
    if (auto const e = cudaDeviceSynchronize(); e != cudaSuccess)
      return kernels::cuda_failed(e, "a chain of convolutions");
    return {};
  }
  // The first to hear of a stall says it of all, and names the tile.
  for (auto const& loop : state_->loops)
    if (auto done = loop.finish(); !done) return done;
  return {};
}
bool ConvChain::stalled() const { return state_->together.stalled(); }
std::vector<ChainPart> const& ConvChain::launches() const { return state_->parts; }
std::vector<few_tokens::TileTimes> ConvChain::times(std::size_t layer) const {
  if (layer >= state_->times.size()) return {};
  std::size_t tiles = 0;
  for (auto const& part : state_->parts)
    if (layer >= part.first && layer < part.first + part.cut.stages.size())
      tiles = static_cast<std::size_t>(part.cut.stages[layer - part.first].tiles());
  std::vector<few_tokens::TileTimes> result(tiles);
  // The copy follows no stream that is not blocking.
  if (cudaDeviceSynchronize() != cudaSuccess ||
      cudaMemcpy(result.data(), state_->times[layer], tiles * sizeof(result.front()),
                 cudaMemcpyDeviceToHost) != cudaSuccess)
    return {};
  return result;
}

}  // namespace tessera::convolution
