// SPDX-License-Identifier: Apache-2.0
// Weights from files, as a decoder reads them: the same bits as those that were handed over in memory.
#include <cstdlib>
#include <filesystem>

#include "decode_gpu/small_decoder.hpp"
#include "kernels/decode/device_weights.hpp"
#include "kernels/decode/hf_model.hpp"
#include "support/safetensors_writer.hpp"

namespace tessera::decode {
namespace {

namespace fs = std::filesystem;
using reference::Numbers;
using support::WrittenTensor;

std::string bytes_of(Numbers const& values, std::string const& type) {
  std::string bytes;
  for (float const value : values) {
    auto const narrow = reference::to_bf16(value);
    auto const* const from =
        type == "F32" ? reinterpret_cast<char const*>(&value) : reinterpret_cast<char const*>(&narrow);
    bytes.append(from, type == "F32" ? 4 : 2);
  }
  return bytes;
}

/// [in][out] of [out][in].
Numbers transposed(Numbers const& matrix, std::vector<std::int64_t> const& shape) {
  Numbers result(matrix.size());
  auto const in = static_cast<std::size_t>(shape[0]), out = static_cast<std::size_t>(shape[1]);
  for (std::size_t i = 0; i < in; ++i)
    for (std::size_t o = 0; o < out; ++o) result[i * out + o] = matrix[o * in + i];
  return result;
}
Numbers joined(std::initializer_list<Numbers const*> parts) {
  Numbers result;
  for (auto const* one : parts) result.insert(result.end(), one->begin(), one->end());
  return result;
}
std::vector<Numbers> values_of_joined(reference::Weights const& w) {
  std::vector<Numbers> values = {w.embedding, w.norm};
  for (auto const& l : w.layers)
    for (auto const& one :
         {l.attention_norm, joined({&l.q, &l.k, &l.v}), l.o, l.mlp_norm, joined({&l.gate, &l.up}), l.down})
      values.push_back(one);
  if (!w.model.tied) values.push_back(w.head);
  return values;
}
std::vector<Numbers> values_of_gpt2(reference::Weights const& w) {
  std::vector<Numbers> values = {w.embedding, w.norm, w.norm_bias, w.positions};
  for (auto const& l : w.layers)
    for (auto const& one : {l.attention_norm, l.attention_norm_bias, joined({&l.q, &l.k, &l.v}),
                            joined({&l.q_bias, &l.k_bias, &l.v_bias}), l.o, l.o_bias, l.mlp_norm,
                            l.mlp_norm_bias, l.up, l.up_bias, l.down, l.down_bias})
      values.push_back(one);
  if (!w.model.tied) values.push_back(w.head);
  return values;
}

/// In the order of tensors_of(), in which the head stands last.
std::vector<Numbers> values_of(reference::Weights const& w) {
  if (w.model.learned_positions > 0) return values_of_gpt2(w);
  if (w.model.joined_files) return values_of_joined(w);
  std::vector<Numbers> values = {w.embedding, w.norm};
  for (auto const& l : w.layers)
    for (auto const* one : {&l.attention_norm, &l.q, &l.k, &l.v, &l.o, &l.mlp_norm, &l.gate, &l.up, &l.down,
                            &l.q_bias, &l.k_bias, &l.v_bias, &l.o_bias, &l.q_norm, &l.k_norm})
      if (!one->empty()) values.push_back(*one);
  if (!w.model.tied) values.push_back(w.head);
  return values;
}

class WeightsFromFiles : public testing::Test {
 protected:
  WeightsFromFiles() {
    auto pattern = (fs::temp_directory_path() / "tessera-weights-XXXXXX").string();
    folder = mkdtemp(pattern.data());
    gpu::ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  ~WeightsFromFiles() override {
    fs::remove_all(folder);
    cudaStreamDestroy(stream);
  }
  /// Alternately in two files, if `shards`.
  void write(reference::Weights const& weights, std::string const& type, bool shards,
             std::string const& prefix) const {
    auto const wanted = tensors_of(weights.model, prefix).tensors;
    auto const values = values_of(weights);
    ASSERT_EQ(wanted.size(), values.size());
    std::vector<WrittenTensor> parts[2];
    std::string map;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      auto const part = shards ? i % 2 : 0;
      auto const stored = wanted[i].transposed ? transposed(values[i], wanted[i].shape) : values[i];
      parts[part].push_back({wanted[i].name, type, wanted[i].shape, bytes_of(stored, type)});
      map += (map.empty() ? "\"" : ",\"") + wanted[i].name + "\":\"part" + std::to_string(part) + "\"";
    }
    if (!shards) {
      support::write_bytes(folder + "/model.safetensors", support::safetensors_of(parts[0]));
      return;
    }
    for (int const part : {0, 1})
      support::write_bytes(folder + "/part" + std::to_string(part), support::safetensors_of(parts[part]));
    support::write_bytes(folder + "/model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  }
  Numbers logits_by(Model const& model, Weights const& weights) const {
    gpu::ok(cudaDeviceSynchronize());  // uploads go by another stream
    Options options;
    options.capacity = 16;
    options.keep_logits = true;
    auto decoder = Decoder::make(model, weights, options, stream);
    EXPECT_TRUE(decoder) << to_text(decoder.error());
    if (!decoder) return {};
    EXPECT_TRUE(decoder->prefill(stream, {{5, 17, 300}}));
    EXPECT_TRUE(decoder->decode(stream, 4));
    EXPECT_TRUE(decoder->finish());
    return logits_of(*decoder, model, 1).front();
  }
  void check(Model const& model, std::string const& type, bool shards,
             std::string const& prefix = k_usual_prefix) const {
    for (auto const& old : fs::directory_iterator(folder)) fs::remove(old);
    reference::Weights const weights(model, 3);
    write(weights, type, shards, prefix);
    auto const files = WeightFiles::open(folder);
    ASSERT_TRUE(files) << to_text(files.error());
    std::uint64_t said = 0;
    auto const read =
        read_weights(model, *files, stream, [&](std::uint64_t done, std::uint64_t) { said = done; });
    ASSERT_TRUE(read) << to_text(read.error());
    EXPECT_GT(said, 0u);
    WeightsOnDevice const in_memory(weights);
    auto const found = logits_by(model, read->weights), expected = logits_by(model, in_memory.weights);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], expected[i]) << i;
  }
  std::string folder;
  cudaStream_t stream = nullptr;
};

TEST_F(WeightsFromFiles, AreTheSameAsThoseInMemory) {
  for (bool const tied : {false, true})
    for (auto const* type : {"BF16", "F32"})
      for (bool const shards : {false, true}) {
        SCOPED_TRACE(std::string(type) + (tied ? ", tied" : "") + (shards ? ", two files" : ", one file"));
        auto model = reference::small_model();
        model.tied = tied;
        check(model, type, shards);
      }
}
TEST_F(WeightsFromFiles, WithBiasesAndNormsAreTheSameToo) {
  auto const biased = reference::with_biases(reference::small_model());
  auto both = reference::with_norms(biased);
  both.out_biases = true;
  for (auto const& model : {biased, reference::with_norms(reference::small_model()), both})
    check(model, "BF16", true);
}
TEST_F(WeightsFromFiles, OfGPT2AreTransposed) {
  auto model = reference::small_gpt2();
  for (auto const* prefix : {"", "transformer."})
    for (auto const* type : {"BF16", "F32"}) check(model, type, false, prefix);
  model.tied = false;
  check(model, "BF16", true);
}
TEST_F(WeightsFromFiles, OfPhi3AreTakenApart) {
  for (auto const* type : {"BF16", "F32"}) check(reference::small_phi3(), type, true);
}
TEST_F(WeightsFromFiles, RandomOnesOfGPT2AreNumbers) {
  auto const model = reference::small_gpt2();
  auto const made = random_weights(model, 1, stream);
  ASSERT_TRUE(made) << to_text(made.error());
  for (float const logit : logits_by(model, made->weights)) ASSERT_TRUE(std::isfinite(logit));
}
TEST_F(WeightsFromFiles, RandomOnesAreTheSameForASeed) {
  auto const model = reference::with_norms(reference::with_biases(reference::small_model()));
  auto const logits = [&](unsigned long long seed) {
    auto const made = random_weights(model, seed, stream);
    EXPECT_TRUE(made) << to_text(made.error());
    return logits_by(model, made->weights);
  };
  auto const one = logits(1);
  EXPECT_EQ(one, logits(1));
  EXPECT_NE(one, logits(2));
  for (float const logit : one) ASSERT_TRUE(std::isfinite(logit));
}

}  // namespace
}  // namespace tessera::decode
