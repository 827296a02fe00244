// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/attention.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/common/refusal.hpp"
#include "kernels/cudnn/backend.hpp"
#include "kernels/cudnn/ragged.hpp"

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the frontend asks for it to be defined where it loads the library
}

namespace tessera::cudnn {
namespace {

namespace fe = cudnn_frontend;
using attention_sm90::Problem;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

enum Place : std::int64_t {
  k_q = 1,
  k_k,
  k_v,
  k_out,
  k_query_lengths,
  k_key_lengths,
  k_query_places,
  k_key_places,
  k_value_places,
  k_out_places
};

tl::unexpected<Diagnostics> refused(std::string const& why) {
  return kernels::refusal("E0590", "attention by cuDNN: " + why,
                          "take kernels/attention_sm90, which needs no cuDNN");
}

/// Rows of the longest sequence, which are read from the device where they are not all alike.
Expected<std::int64_t> longest_of(Problem const& p) {
  if (p.query_offsets == nullptr) return p.query_rows / p.sequences;
  std::vector<int> offsets(static_cast<std::size_t>(p.sequences) + 1);
  auto const error =
      cudaMemcpy(offsets.data(), p.query_offsets, offsets.size() * sizeof(int), cudaMemcpyDeviceToHost);
  if (error != cudaSuccess) return kernels::cuda_failed(error, "reading where prompts begin");
  std::int64_t longest = 1;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i)
    longest = std::max<std::int64_t>(longest, offsets[i + 1] - offsets[i]);
  return longest;
}

/// The graph's tensors of one problem.
class Builder {
 public:
  Builder(Problem const& p, std::int64_t longest) : p_(p), longest_(longest) {
    graph_->set_io_data_type(p.type == gpu::ElementType::fp16 ? fe::DataType_t::HALF
                                                              : fe::DataType_t::BFLOAT16);
    graph_->set_intermediate_data_type(fe::DataType_t::FLOAT).set_compute_data_type(fe::DataType_t::FLOAT);
  }

  std::shared_ptr<fe::graph::Graph> graph() {
    auto const q = rows(k_q, "q", p_.heads, p_.q, k_query_places);
    auto const k = rows(k_k, "k", p_.key_heads, p_.k, k_key_places);
    auto const v = rows(k_v, "v", p_.key_heads, p_.v, k_value_places);
    fe::graph::SDPA_attributes how;
    how.set_name("attention").set_generate_stats(false).set_attn_scale(p_.scale);
    if (p_.causal) how.set_causal_mask(true);
    if (p_.query_offsets != nullptr)
      how.set_padding_mask(true)
          .set_seq_len_q(integers(k_query_lengths, "query lengths", p_.sequences))
          .set_seq_len_kv(integers(k_key_lengths, "key lengths", p_.sequences));
    auto const out = graph_->sdpa(q, k, v, how)[0];
    out->set_output(true).set_uid(k_out).set_dim(sizes(p_.heads)).set_stride(strides(p_.out));
    if (p_.query_offsets != nullptr)
      out->set_ragged_offset(integers(k_out_places, "places of out", p_.sequences + 1));
    return graph_;
  }

 private:
  std::vector<std::int64_t> sizes(int heads) const { return {p_.sequences, heads, longest_, p_.head_size}; }
  std::vector<std::int64_t> strides(attention_sm90::Strides const& of) const {
    return {longest_ * of.row, of.head, of.row, 1};
  }
  Tensor rows(Place place, char const* name, int heads, attention_sm90::Strides const& of, Place places) {
    auto const tensor = graph_->tensor(fe::graph::Tensor_attributes().set_name(name).set_uid(place));
    tensor->set_dim(sizes(heads)).set_stride(strides(of));
    if (p_.query_offsets != nullptr)
      tensor->set_ragged_offset(integers(places, std::string("places of ") + name, p_.sequences + 1));
    return tensor;
  }
  Tensor integers(Place place, std::string const& name, std::int64_t count) {
    return graph_->tensor(fe::graph::Tensor_attributes()
                              .set_name(name)
                              .set_uid(place)
                              .set_dim({count, 1, 1, 1})
                              .set_stride({1, 1, 1, 1})
                              .set_data_type(fe::DataType_t::INT32));
  }

  Problem const& p_;
  std::int64_t longest_;
  std::shared_ptr<fe::graph::Graph> graph_ = std::make_shared<fe::graph::Graph>();
};

constexpr std::size_t k_alignment = 256;

}  // namespace

struct Attention::State {
  Problem problem;
  std::shared_ptr<fe::graph::Graph> graph;
  std::size_t graph_bytes = 0;

  /// Bytes of one array of Ragged; 0: there are none.
  std::size_t array_bytes() const {
    if (problem.query_offsets == nullptr) return 0;
    auto const bytes = sizeof(int) * (static_cast<std::size_t>(problem.sequences) + 1);
    return (bytes + k_alignment - 1) / k_alignment * k_alignment;
  }
  static constexpr std::size_t arrays = 5;
};

Attention::Attention() : state_(std::make_unique<State>()) {}
Attention::~Attention() = default;

Expected<std::shared_ptr<Attention const>> Attention::make(Problem const& problem) {
  auto const p = completed(problem);
  if (auto fine = check(p); !fine) return tl::make_unexpected(fine.error());
  int const group = p.heads / p.key_heads;
  if (p.window > 0 || p.drop > 0 || p.key_lengths != nullptr || p.turned_keys || p.query_step != 0 ||
      p.key_step != 0 || p.key_rows != p.query_rows || p.key_offsets != p.query_offsets ||
      p.q.group != group * p.q.head || p.out.group != group * p.out.head)
    return refused("cached keys, windows, dropout and heads in groups are not built here");
  long long const widest = std::max({p.q.row, p.k.row, p.v.row, p.out.row});
  if (p.query_offsets != nullptr && p.query_rows * widest > std::numeric_limits<int>::max())
    return refused("places in " + std::to_string(p.query_rows) + " rows of " + std::to_string(widest) +
                   " elements are more than 32 bits count");
  if (own_handle() == nullptr) return refused("libcudnn.so.9 was not found");
  auto const longest = longest_of(p);
  if (!longest) return tl::make_unexpected(longest.error());
  fe::cudnn_dlhandle = library().file;
  std::shared_ptr<Attention> made(new Attention);
  auto& state = *made->state_;
  state.problem = p;
  try {
    state.graph = Builder(p, *longest).graph();
    if (auto built = state.graph->build(own_handle().get(), {fe::HeurMode_t::A}); built.is_bad())
      return refused(built.get_message());
    std::int64_t bytes = 0;
    if (auto asked = state.graph->get_workspace_size(bytes); asked.is_bad())
      return refused(asked.get_message());
    state.graph_bytes = static_cast<std::size_t>(bytes);
  } catch (std::exception const& error) {
    return refused(error.what());
  }
  return made;
}

std::size_t Attention::workspace_bytes() const {
  return state_->array_bytes() * State::arrays + state_->graph_bytes;
}

cudaError_t Attention::run(void const* q, void const* k, void const* v, void* out, void* workspace,
                           cudaStream_t stream) const {
  auto const& p = state_->problem;
  auto const own = [](void const* at) { return const_cast<void*>(at); };
  std::unordered_map<std::int64_t, void*> places{{k_q, own(q)}, {k_k, own(k)}, {k_v, own(v)}, {k_out, out}};
  auto* free = static_cast<char*>(workspace);
  if (p.query_offsets != nullptr) {
    auto const next = [&] {
      auto* const at = reinterpret_cast<int*>(free);
      free += state_->array_bytes();
      return at;
    };
    Ragged const to{next(), next(), next(), next(), next()};
    RowElements const elements{static_cast<int>(p.q.row), static_cast<int>(p.k.row),
                               static_cast<int>(p.v.row), static_cast<int>(p.out.row)};
    if (auto const error = find_ragged(p.query_offsets, p.sequences, elements, to, stream);
        error != cudaSuccess)
      return error;
    places[k_query_lengths] = places[k_key_lengths] = to.lengths;
    places[k_query_places] = to.queries, places[k_key_places] = to.keys;
    places[k_value_places] = to.values, places[k_out_places] = to.out;
  }
  if (library().set_stream(own_handle().get(), stream) != CUDNN_STATUS_SUCCESS) return cudaErrorUnknown;
  return state_->graph->execute(own_handle().get(), places, free).is_good() ? cudaSuccess
                                                                            : cudaErrorLaunchFailure;
}

}  // namespace tessera::cudnn
