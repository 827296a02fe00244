// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/device_weights.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string_view>
#include <tessera/weights/bf16.hpp>
#include <tuple>

#include "kernels/decode/decoder_checks.hpp"
#include "kernels/decode/hf_model.hpp"
#include "kernels/decode/pack.hpp"
#include "src/bench/matrices.hpp"

namespace tessera::decode {
namespace {

constexpr std::uint64_t k_piece = std::uint64_t{32} << 20;

/// Two pieces of host memory, one of which is filled while the other is copied.
class Staging {
 public:
  Expected<void> make() {
    for (auto& one : pieces_) {
      if (auto ok = check_call(cudaMallocHost(&one.memory, k_piece), "cudaMallocHost"); !ok) return ok;
      if (auto ok =
              check_call(cudaEventCreateWithFlags(&one.copied, cudaEventDisableTiming), "cudaEventCreate");
          !ok)
        return ok;
    }
    return {};
  }
  Staging() = default;
  Staging(Staging const&) = delete;
  Staging& operator=(Staging const&) = delete;
  ~Staging() {
    for (auto& one : pieces_) {
      // A copy may be on its way where reading has failed.
      if (one.copied != nullptr) {
        (void)cudaEventSynchronize(one.copied);
        (void)cudaEventDestroy(one.copied);
      }
      if (one.memory != nullptr) (void)cudaFreeHost(one.memory);
    }
  }

  /// `fill` writes into the piece's memory.
  template <class Fill>
  Expected<void> copy(void* to, std::size_t bytes, cudaStream_t stream, Fill const& fill) {
    auto& piece = pieces_[next_++ % pieces_.size()];
    if (auto ok = check_call(cudaEventSynchronize(piece.copied), "copying weights"); !ok) return ok;
    if (auto ok = fill(piece.memory); !ok) return ok;
    if (auto ok = check_call(cudaMemcpyAsync(to, piece.memory, bytes, cudaMemcpyHostToDevice, stream),
                             "copying weights");
        !ok)
      return ok;
    return check_call(cudaEventRecord(piece.copied, stream), "cudaEventRecord");
  }

 private:
  struct Piece {
    void* memory = nullptr;
    cudaEvent_t copied = nullptr;
  };
  std::array<Piece, 2> pieces_;
  std::size_t next_ = 0;
};

/// As [out][in]. Waits: what was read may be given back.
Expected<Memory> transposed(WantedTensor const& wanted, void const* from, cudaStream_t stream) {
  auto const rows = static_cast<int>(wanted.shape[0]), columns = static_cast<int>(wanted.shape[1]);
  auto memory = zeroed_memory(2 * times(rows, columns), stream);
  if (!memory) return memory;
  auto error = transpose(from, memory->get(), rows, columns, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  if (auto ok = check_call(error, "transposing weights"); !ok) return tl::make_unexpected(ok.error());
  return memory;
}

struct Reader {
  WeightFiles const& files;
  cudaStream_t stream;
  LoadProgress const& progress;
  std::uint64_t all;
  std::uint64_t done = 0;
  Staging staging = {};

  Expected<Memory> read(WantedTensor const& wanted) {
    auto const& tensor = *files.find(wanted.name);  // check_tensors() has seen it
    auto const bytes = tensor.end - tensor.begin;
    std::uint64_t const each = tensor.type == "F32" ? 4 : 2, count = bytes / each;
    if (progress) progress(done, all);
    auto memory = zeroed_memory(2 * count, stream);
    if (!memory) return memory;
    for (std::uint64_t at = 0; at < bytes; at += k_piece) {
      auto const piece = std::min(k_piece, bytes - at);
      auto const fill = [&](void* host) -> Expected<void> {
        if (auto ok = files.read(tensor, at, piece, host); !ok) return ok;
        convert_to_bf16(host, tensor.type, piece / each, host);
        return {};
      };
      if (auto ok = staging.copy(memory->get() + at / each * 2, piece / each * 2, stream, fill); !ok)
        return tl::make_unexpected(ok.error());
    }
    done += bytes;
    return wanted.transposed ? transposed(wanted, memory->get(), stream) : memory;
  }
};

/// From a row of a matrix on.
void const* from_row(void const* matrix, int row, int columns) {
  return static_cast<unsigned char const*>(matrix) + 2 * times(row, columns);
}
/// Queries, keys and values of one matrix, or of one vector of biases.
std::tuple<void const*, void const*, void const*> parts_of_qkv(Model const& model, void const* all,
                                                               int columns) {
  int const keys = model.attended(), values = keys + model.kv_heads * model.head_size;
  return {all, from_row(all, keys, columns), from_row(all, values, columns)};
}

/// In the order of layer_tensors().
LayerWeights layer_of_gpt2(Model const& model, std::vector<void const*> const& m) {
  LayerWeights layer;
  layer.attention_norm = m[0], layer.attention_norm_bias = m[1];
  std::tie(layer.q, layer.k, layer.v) = parts_of_qkv(model, m[2], model.hidden);
  std::tie(layer.q_bias, layer.k_bias, layer.v_bias) = parts_of_qkv(model, m[3], 1);
  layer.o = m[4], layer.o_bias = m[5];
  layer.mlp_norm = m[6], layer.mlp_norm_bias = m[7];
  layer.up = m[8], layer.up_bias = m[9];
  layer.down = m[10], layer.down_bias = m[11];
  return layer;
}

/// Likewise.
LayerWeights layer_of_joined(Model const& model, std::vector<void const*> const& m) {
  LayerWeights layer;
  layer.attention_norm = m[0];
  std::tie(layer.q, layer.k, layer.v) = parts_of_qkv(model, m[1], model.hidden);
  layer.o = m[2], layer.mlp_norm = m[3];
  layer.gate = m[4], layer.up = from_row(m[4], model.intermediate, model.hidden);
  layer.down = m[5];
  return layer;
}

/// In the order of layer_tensors().
LayerWeights layer_of(Model const& model, std::vector<void const*> const& m) {
  if (model.learned_positions > 0) return layer_of_gpt2(model, m);
  if (model.joined_files) return layer_of_joined(model, m);
  LayerWeights layer;
  layer.attention_norm = m[0];
  layer.q = m[1], layer.k = m[2], layer.v = m[3], layer.o = m[4];
  layer.mlp_norm = m[5];
  layer.gate = m[6], layer.up = m[7], layer.down = m[8];
  std::size_t next = 9;
  auto const take = [&](bool has, std::initializer_list<void const**> members) {
    for (auto* const member : members)
      if (has) *member = m[next++];
  };
  take(model.qkv_biases, {&layer.q_bias, &layer.k_bias, &layer.v_bias});
  take(model.out_biases, {&layer.o_bias});
  take(model.norms_heads, {&layer.q_norm, &layer.k_norm});
  return layer;
}

/// All tensors of a model, each made by `make`. `layers`: how many are made; further ones are the last again.
template <class Make>
Expected<DeviceWeights> assembled(Model const& model, int layers, std::string const& prefix,
                                  Make const& make) {
  DeviceWeights result;
  auto const add = [&](WantedTensor const& wanted, void const** to, bool stays) -> Expected<void> {
    auto memory = make(wanted);
    if (!memory) return tl::make_unexpected(memory.error());
    *to = memory->get();
    if (stays)
      result.embedding = *memory;
    else
      result.others.push_back(*memory);
    return {};
  };
  auto& weights = result.weights;
  auto const ends = end_tensors(model, prefix);
  auto ok = add(ends.embedding, &weights.embedding, true);
  void const** const others[] = {&weights.norm, &weights.norm_bias, &weights.positions};
  for (std::size_t i = 0; i < ends.others.size(); ++i)
    if (ok) ok = add(ends.others[i], others[i], false);
  if (ok && ends.head) ok = add(*ends.head, &weights.head, false);
  for (int i = 0; ok && i < layers; ++i) {
    std::vector<void const*> matrices;
    for (auto const& wanted : layer_tensors(model, i, prefix)) {
      matrices.push_back(nullptr);
      if (ok) ok = add(wanted, &matrices.back(), false);
    }
    weights.layers.push_back(layer_of(model, matrices));
  }
  if (!ok) return tl::make_unexpected(ok.error());
  weights.layers.resize(static_cast<std::size_t>(model.layers), weights.layers.back());
  return result;
}

}  // namespace

Expected<DeviceWeights> read_weights(Model const& model, WeightFiles const& files, cudaStream_t stream,
                                     LoadProgress const& progress) {
  if (auto ok = check_model(model); !ok) return tl::make_unexpected(ok.error());
  auto const prefix = prefix_of(model, files);
  auto const wanted = tensors_of(model, prefix);
  if (auto ok = check_tensors(files, wanted); !ok) return tl::make_unexpected(ok.error());
  std::uint64_t all = 0;
  for (auto const& one : wanted.tensors) {
    auto const& tensor = *files.find(one.name);
    all += tensor.end - tensor.begin;
  }
  Reader reader{files, stream, progress, all};
  if (auto ok = reader.staging.make(); !ok) return tl::make_unexpected(ok.error());
  auto result =
      assembled(model, model.layers, prefix, [&](WantedTensor const& one) { return reader.read(one); });
  if (auto ok = check_call(cudaStreamSynchronize(stream), "copying weights"); !ok)
    return tl::make_unexpected(ok.error());
  return result;
}

Expected<DeviceWeights> lent_weights(Model const& model, std::vector<LentTensor> const& tensors,
                                     cudaStream_t stream) {
  if (auto ok = check_model(model); !ok) return tl::make_unexpected(ok.error());
  std::vector<StoredTensor> shapes;
  for (auto const& one : tensors) shapes.push_back({one.name, "BF16", one.shape});
  auto wanted_here = tensors_of(model);
  wanted_here.source = "the model's config";
  if (auto ok = check_tensors(shapes, "the model", wanted_here); !ok) return tl::make_unexpected(ok.error());
  std::map<std::string_view, void const*> places;
  for (auto const& one : tensors) {
    if (one.data == nullptr || reinterpret_cast<std::uintptr_t>(one.data) % 16 != 0)
      return tl::make_unexpected(refused(fmt::format("{} is not there, or not 16-byte aligned", one.name),
                                         "give tensors of their own, in device memory")
                                     .error());
    places[one.name] = one.data;
  }
  return assembled(model, model.layers, k_usual_prefix, [&](WantedTensor const& wanted) -> Expected<Memory> {
    auto const* const at = places.at(wanted.name);  // check_tensors() has seen it
    if (wanted.transposed) return transposed(wanted, at, stream);
    // Owned by the caller, and read alone.
    return Memory(static_cast<unsigned char*>(const_cast<void*>(at)), [](unsigned char*) {});
  });
}

Expected<DeviceWeights> random_weights(Model const& model, unsigned long long seed, cudaStream_t stream) {
  if (auto ok = check_model(model); !ok) return tl::make_unexpected(ok.error());
  unsigned long long number = 0;
  auto const make = [&](WantedTensor const& wanted) -> Expected<Memory> {
    // Vectors and rows of the embedding are as large as what they make; matrices add up as many numbers.
    auto const columns = static_cast<double>(wanted.transposed ? wanted.shape.front() : wanted.shape.back());
    auto const ends = end_tensors(model);
    bool const matrix = wanted.shape.size() == 2 && wanted.name != ends.embedding.name &&
                        wanted.name != ends.others.back().name;
    std::size_t count = 1;
    for (auto const extent : wanted.shape) count *= static_cast<std::size_t>(extent);
    auto memory = zeroed_memory(2 * count, stream);
    if (!memory) return memory;
    constexpr unsigned long long k_apart = 64;  // more than there are tensors
    bench::fill_random(memory->get(), count, bench::ElementType::bf16, k_apart * seed + ++number,
                       static_cast<float>(matrix ? 1 / std::sqrt(columns) : 1), stream);
    return memory;
  };
  auto result = assembled(model, 1, k_usual_prefix, make);
  if (auto ok = check_call(cudaStreamSynchronize(stream), "making weights"); !ok)
    return tl::make_unexpected(ok.error());
  return result;
}

}  // namespace tessera::decode
