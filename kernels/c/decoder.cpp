// SPDX-License-Identifier: Apache-2.0
// The C interface of kernels/decode: values are checked here, exceptions end here.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/c/answer.hpp"
#include "kernels/decode/device_weights.hpp"
#include "kernels/decode/hf_model.hpp"
#include "tessera_decoder.h"

using tessera::Expected;
using tessera::c::answer;
using tessera::c::refused;
using tessera::decode::Decoder;

struct tessera_decoder {
  Decoder decoder;
  tessera::decode::Model model;
  tessera::decode::Options options;
  int device;
};

namespace {

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

Expected<int> current_device() {
  int device = 0;
  if (auto ok = tessera::decode::check_call(cudaGetDevice(&device), "cudaGetDevice"); !ok)
    return tl::make_unexpected(ok.error());
  return device;
}

/// The decoder's device is the current one while `function` runs.
template <class Function>
int on_device(tessera_decoder* decoder, Function const& function) {
  return answer([&]() -> Expected<void> {
    if (decoder == nullptr) return refused("decoder is null", "take what tessera_decoder_make() gives");
    auto const before = current_device();
    if (!before) return tl::make_unexpected(before.error());
    if (*before == decoder->device) return function(decoder->decoder);
    if (auto ok = tessera::decode::check_call(cudaSetDevice(decoder->device), "cudaSetDevice"); !ok)
      return ok;
    auto const result = function(decoder->decoder);
    (void)cudaSetDevice(*before);
    return result;
  });
}

template <class Struct>
Expected<void> check_size(Struct const* given, char const* name) {
  if (given == nullptr) return refused(fmt::format("{} is null", name), "give its address");
  if (given->size != sizeof(Struct))
    return refused(
        fmt::format("size is {}, this library's {} has {} bytes", given->size, name, sizeof(Struct)),
        fmt::format("set it to sizeof(struct tessera_{}), and use the header of this library", name));
  return {};
}

Expected<tessera::decode::Options> options_of(tessera_decoder_options const& given) {
  if (!(given.deadline_seconds >= 0))
    return refused(fmt::format("deadline_seconds is {}", given.deadline_seconds), "give seconds, or 0");
  if (given.usual_cached < 0)
    return refused(fmt::format("usual_cached is {}", given.usual_cached), "give tokens, or 0");
  if (given.stop_count < 0 || (given.stop_count > 0 && given.stop_tokens == nullptr))
    return refused(fmt::format("{} stop tokens, or null", given.stop_count),
                   "give as many as stop_count says");
  auto const steps = tessera::decode::step_by(given.step_by == nullptr ? "fastest" : given.step_by);
  if (!steps)
    return refused(fmt::format("step_by is \"{}\"", given.step_by),
                   fmt::format("give one of {}, or null", fmt::join(tessera::decode::k_step_names, ", ")));
  tessera::decode::Options options;
  options.steps = *steps;
  options.batch = given.batch;
  options.capacity = given.capacity;
  options.prompt_rows = given.prompt_rows;
  options.keep_logits = given.keep_logits != 0;
  if (given.usual_cached > 0) options.usual_cached = given.usual_cached;
  options.usual_cached = std::min(options.usual_cached, std::max(given.capacity, 1));
  options.sampling.temperature = given.temperature;
  options.sampling.top_k = given.top_k;
  options.sampling.top_p = given.top_p == 0 ? 1 : given.top_p;
  options.sampling.seed = given.seed;
  if (given.deadline_seconds > 0) options.deadline_seconds = given.deadline_seconds;
  if (given.stop_count > 0)
    options.stop_tokens.assign(given.stop_tokens, given.stop_tokens + given.stop_count);
  return options;
}

Expected<std::vector<tessera::decode::LentTensor>> lent(tessera_tensor const* tensors, std::size_t count) {
  std::vector<tessera::decode::LentTensor> all;
  for (std::size_t i = 0; i < count; ++i) {
    auto const& one = tensors[i];
    if (one.name == nullptr)
      return refused(fmt::format("tensor {} has no name", i), "name it as in Hugging Face's files");
    all.push_back({one.name, {one.rows}, one.data});
    if (one.columns != 0) all.back().shape.push_back(one.columns);
  }
  return all;
}

Expected<void> give(Decoder decoder, tessera::decode::Model model, tessera::decode::Options options,
                    int device, tessera_decoder** to) {
  *to = std::make_unique<tessera_decoder>(
            tessera_decoder{std::move(decoder), std::move(model), std::move(options), device})
            .release();
  return {};
}

}  // namespace

int tessera_decoder_make(tessera_decoder_options const* options, tessera_tensor const* tensors, size_t count,
                         void* stream, tessera_decoder** decoder) {
  return answer([&]() -> Expected<void> {
    if (auto ok = check_size(options, "decoder_options"); !ok) return ok;
    if (options->config == nullptr || tensors == nullptr || decoder == nullptr)
      return refused("an argument is null", "give config, tensors and decoder");
    auto const config = tessera::import_hf_decoder(options->config, "config.json");
    if (!config) return tl::make_unexpected(config.error());
    auto const model = tessera::decode::model_of(*config, "the model");
    if (!model) return tl::make_unexpected(model.error());
    auto const how = options_of(*options);
    if (!how) return tl::make_unexpected(how.error());
    auto const given = lent(tensors, count);
    if (!given) return tl::make_unexpected(given.error());
    auto const weights = tessera::decode::lent_weights(*model, *given, stream_of(stream));
    if (!weights) return tl::make_unexpected(weights.error());
    auto const device = current_device();
    if (!device) return tl::make_unexpected(device.error());
    auto made = Decoder::make(*model, weights->weights, *how, stream_of(stream));
    if (!made) return tl::make_unexpected(made.error());
    // Packing is in the order of the stream, and what was transposed for it goes now.
    if (auto ok = tessera::decode::check_call(cudaStreamSynchronize(stream_of(stream)), "copying weights");
        !ok)
      return ok;
    return give(std::move(*made), *model, *how, *device, decoder);
  });
}

int tessera_decoder_another(tessera_decoder* decoder, tessera_decoder_options const* options, void* stream,
                            tessera_decoder** another) {
  return on_device(decoder, [&](Decoder& of) -> Expected<void> {
    if (auto ok = check_size(options, "decoder_options"); !ok) return ok;
    if (another == nullptr) return refused("another is null", "give the address of a tessera_decoder*");
    auto const how = options_of(*options);
    if (!how) return tl::make_unexpected(how.error());
    auto made = of.another(*how, stream_of(stream));
    if (!made) return tl::make_unexpected(made.error());
    return give(std::move(*made), decoder->model, *how, decoder->device, another);
  });
}

int tessera_decoder_free(tessera_decoder* decoder) {
  return on_device(decoder, [&](Decoder& of) {
    auto finished = of.finish();
    delete decoder;
    return finished;
  });
}

int tessera_decoder_about(tessera_decoder* decoder, struct tessera_decoder_places* places) {
  return on_device(decoder, [&](Decoder& of) -> Expected<void> {
    if (auto ok = check_size(places, "decoder_places"); !ok) return ok;
    auto const& model = decoder->model;
    places->batch = decoder->options.batch;
    places->capacity = decoder->options.capacity;
    places->vocabulary = model.vocabulary;
    places->layers = model.layers;
    places->kv_heads = model.kv_heads;
    places->head_size = model.head_size;
    places->tokens = of.ids();
    places->lengths = of.cached();
    places->logits = of.logits();
    places->keys = of.keys();
    places->values = of.values();
    places->weight_bytes = of.weight_bytes();
    places->layers_by_launches = tessera::decode::by_launches(of.options());
    places->head_by_launches = tessera::decode::head_by_launches(of.options());
    return {};
  });
}

int tessera_decoder_begin(tessera_decoder* decoder, int32_t const* tokens, int32_t const* counts,
                          int32_t const* cached, void* stream) {
  return on_device(decoder, [&](Decoder& of) -> Expected<void> {
    if (tokens == nullptr || counts == nullptr)
      return refused("tokens or counts are null", "give the tokens of each sequence, and how many they are");
    std::vector<tessera::decode::Sequence> sequences(static_cast<std::size_t>(decoder->options.batch));
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      if (counts[i] < 1 || counts[i] > decoder->options.capacity)
        return refused(fmt::format("{} tokens of sequence {}, with room for {}", counts[i], i,
                                   decoder->options.capacity),
                       "give 1 token at least, and a decoder with as much capacity");
      sequences[i].tokens.assign(tokens, tokens + counts[i]);
      sequences[i].cached = cached == nullptr ? 0 : cached[i];
      tokens += counts[i];
    }
    return of.begin(stream_of(stream), sequences);
  });
}

int tessera_decoder_prefill(tessera_decoder* decoder, void* stream) {
  return on_device(decoder, [&](Decoder& of) { return of.prefill(stream_of(stream)); });
}

int tessera_decoder_decode(tessera_decoder* decoder, int32_t steps, void* stream) {
  return on_device(decoder, [&](Decoder& of) -> Expected<void> {
    auto status = cudaStreamCaptureStatusNone;
    if (auto ok = tessera::decode::check_call(cudaStreamIsCapturing(stream_of(stream), &status),
                                              "cudaStreamIsCapturing");
        !ok)
      return ok;
    if (status == cudaStreamCaptureStatusNone) return of.decode(stream_of(stream), steps);
    if (steps < 0) return refused(fmt::format("{} steps", steps), "ask for 0 or more");
    for (int i = 0; i < steps; ++i)
      if (auto ok = of.step(stream_of(stream)); !ok) return ok;
    return {};
  });
}

int tessera_decoder_feed(tessera_decoder* decoder, int32_t const* tokens, void* stream) {
  return on_device(decoder, [&](Decoder& of) { return of.feed(stream_of(stream), tokens); });
}

int tessera_decoder_rewind(tessera_decoder* decoder, void* stream) {
  return on_device(decoder, [&](Decoder& of) { return of.rewind(stream_of(stream)); });
}

int tessera_decoder_finish(tessera_decoder* decoder) {
  return on_device(decoder, [&](Decoder& of) { return of.finish(); });
}

int tessera_decoder_tokens(tessera_decoder* decoder, int32_t* tokens, int32_t* counts) {
  return on_device(decoder, [&](Decoder& of) -> Expected<void> {
    if (tokens == nullptr || counts == nullptr)
      return refused("tokens or counts are null", "give room for [batch][capacity] and for [batch]");
    auto const found = of.tokens();
    if (!found) return tl::make_unexpected(found.error());
    for (std::size_t i = 0; i < found->size(); ++i) {
      auto const& one = (*found)[i];
      counts[i] = static_cast<int32_t>(one.size());
      std::copy(one.begin(), one.end(), tokens + i * static_cast<std::size_t>(decoder->options.capacity));
    }
    return {};
  });
}
