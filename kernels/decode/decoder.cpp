// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/decoder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/decode/decoder_checks.hpp"
#include "kernels/decode/decoder_state.hpp"
#include "kernels/decode/pack.hpp"
#include "kernels/decode/sample.hpp"
#include "src/gpu/relaxed_capture.hpp"

namespace tessera::decode {
namespace {

Diagnostics not_finite_logits(std::size_t sequence, int tokens) {
  return refused(fmt::format("the largest logit of sequence {} behind {} tokens is not a finite number",
                             sequence, tokens),
                 "see whether the weights are the model's, and bf16; what was generated from there on says "
                 "nothing")
      .error();
}

Diagnostics wrong_page(std::size_t sequence, int position) {
  return refused(fmt::format("the table has no page for position {} of sequence {}", position, sequence),
                 "give a page from 0 on, below Options::paged.pages, for every position that a step reads or "
                 "writes; what was generated from there on says nothing")
      .error();
}

Diagnostics wrong_token(std::size_t sequence, int position) {
  return refused(fmt::format("what was given to sequence {} for position {} is no token", sequence, position),
                 "give numbers from 0 on, below the size of the vocabulary; what was generated from there on "
                 "says nothing")
      .error();
}

}  // namespace

Expected<void> Decoder::State::check_sequence(Sequence const& sequence) const {
  auto const tokens = static_cast<long long>(sequence.tokens.size());
  if (tokens < 1 || sequence.cached < 0 || sequence.cached + tokens > options.capacity)
    return refused(fmt::format("a sequence of {} tokens behind {} cached ones, with room for {}", tokens,
                               sequence.cached, options.capacity),
                   "give 1 token at least, and a decoder with as much capacity");
  for (int const token : sequence.tokens)
    if (auto ok = check_token(model, token); !ok) return ok;
  return {};
}

Expected<void> Decoder::begin(cudaStream_t stream, std::vector<Sequence> const& sequences) {
  auto& s = *state_;
  s.begun.clear();
  if (auto ok = s.settle(stream); !ok) return ok;
  if (sequences.size() != static_cast<std::size_t>(s.options.batch))
    return refused(fmt::format("{} sequences for a decoder of {}", sequences.size(), s.options.batch),
                   "give as many as Options::batch");
  std::vector<int> cached, known, ids(times(s.options.batch, s.options.capacity));
  for (auto const& one : sequences) {
    if (auto ok = s.check_sequence(one); !ok) return ok;
    auto const first = cached.size() * static_cast<std::size_t>(s.options.capacity);
    std::copy(one.tokens.begin(), one.tokens.end(),
              ids.begin() + static_cast<std::ptrdiff_t>(first) + one.cached);
    cached.push_back(one.cached);
    known.push_back(one.cached + static_cast<int>(one.tokens.size()));
  }
  auto const copy = [&](int* to, std::vector<int> const& from) {
    return cudaMemcpyAsync(to, from.data(), 4 * from.size(), cudaMemcpyHostToDevice, stream);
  };
  if (s.prompts)
    if (auto ok = s.prompts->reset(stream); !ok) return ok;
  auto const of_each = 4 * times(s.options.batch, 1);
  for (auto const error :
       {copy(s.at.cached, cached), copy(s.at.first_cached, cached), copy(s.at.known, known),
        copy(s.at.ids, ids), cudaMemsetAsync(s.at.arrived, 0, s.arrived_bytes(), stream),
        cudaMemsetAsync(s.at.best, 0, 8 * times(s.options.batch, 1), stream),
        cudaMemsetAsync(s.at.ended, 0, of_each, stream), cudaMemsetAsync(s.at.not_finite, 0, of_each, stream),
        s.at.wrong_pages != nullptr ? cudaMemsetAsync(s.at.wrong_pages, 0, of_each, stream) : cudaSuccess,
        cudaMemsetAsync(s.at.wrong_tokens, 0, of_each, stream), begin_step(s.end, stream),
        cudaStreamSynchronize(stream)})
    if (auto ok = check_call(error, "beginning sequences"); !ok) return ok;
  s.begun = sequences, s.layers_alone = false;
  s.begun_at = s.together.restarts();
  s.read = cached;
  return {};
}

Expected<void> Decoder::step(cudaStream_t stream, Part part) {
  auto& s = *state_;
  if (auto ok = s.settle(stream); !ok) return ok;
  if (auto ok = s.check_begun(); !ok) return ok;
  if (part != Part::head)
    if (auto ok = s.enqueue_layers(stream); !ok) return ok;
  bool const behind_layers = part == Part::all || s.layers_alone;
  s.layers_alone = part == Part::layers;
  if (part == Part::layers) return {};
  auto ok = s.enqueue_head(stream, behind_layers);
  if (!ok) s.begun.clear();  // half a step has been enqueued
  return ok;
}

Expected<void> Decoder::only(cudaStream_t stream, LayerOperator which) {
  auto& s = *state_;
  if (!s.launched_layers)
    return refused("an operator alone of a decoder whose steps are persistent launches",
                   "make it with StepBy::launches");
  s.begun.clear();
  if (auto ok = s.launched_layers->only(stream, which); !ok) return ok;
  return s.mark(stream);
}

Expected<void> Decoder::State::enqueue_layers(cudaStream_t stream) {
  if (!launched_layers) return layer_launch.launch(stream, model.layers);
  auto ok = launched_layers->all(stream);
  if (ok) ok = mark(stream);
  if (!ok) begun.clear();
  return ok;
}

Expected<void> Decoder::State::enqueue_head(cudaStream_t stream, bool behind_layers) {
  auto const find = [&] {
    if (!launched_head) return head_launch.launch(stream, 1);
    return launched_head->find(stream,
                               launched_layers && behind_layers ? launched_layers->end() : LayersEnd{});
  };
  if (auto ok = find(); !ok) return ok;
  if (end.draws)
    if (auto ok =
            check_call(sample(end, draws_of(options.sampling, model.vocabulary), stream), "drawing tokens");
        !ok)
      return ok;
  return launched_head || end.draws ? mark(stream) : Expected<void>{};
}

Expected<void> Decoder::State::mark(cudaStream_t stream) {
  auto status = cudaStreamCaptureStatusNone;
  if (auto ok = check_call(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing"); !ok) return ok;
  if (status != cudaStreamCaptureStatusNone) {
    if (!capturing) replayed = true;
    return {};
  }
  if (last == nullptr)
    if (auto ok = check_call(cudaEventCreateWithFlags(&last, cudaEventDisableTiming), "cudaEventCreate"); !ok)
      return ok;
  return check_call(cudaEventRecord(last, stream), "cudaEventRecord");
}

Expected<void> Decoder::rewind(cudaStream_t stream) {
  auto& s = *state_;
  if (auto ok = s.settle(stream); !ok) return ok;
  if (auto ok = s.check_begun(); !ok) return ok;
  s.layers_alone = false;
  auto const bytes = 4 * times(s.options.batch, 1);
  for (auto const error :
       {cudaMemcpyAsync(s.at.cached, s.at.first_cached, bytes, cudaMemcpyDeviceToDevice, stream),
        cudaMemsetAsync(s.at.ended, 0, bytes, stream), begin_step(s.end, stream)})
    if (auto ok = check_call(error, "going back to where sequences began"); !ok) {
      s.begun.clear();  // part of it may have been enqueued
      return ok;
    }
  return {};
}

Expected<void> Decoder::feed(cudaStream_t stream, int const* tokens) {
  auto& s = *state_;
  if (tokens == nullptr) return refused("no tokens to feed", "give one of each sequence, in device memory");
  if (auto ok = s.settle(stream); !ok) return ok;
  if (auto ok = s.check_begun(); !ok) return ok;
  return check_call(begin_step(s.end, {tokens, s.model.vocabulary, s.at.wrong_tokens}, stream),
                    "taking in tokens");
}

Expected<void> Decoder::State::capture(Decoder& decoder, int steps, std::optional<Captured>& graph) {
  if (graph) return {};
  capturing = true;
  auto captured = Captured::of([&](cudaStream_t in) {
    Expected<void> done;
    for (int i = 0; i < steps && done; ++i) done = decoder.step(in);
    return done;
  });
  capturing = false;
  if (!captured) return tl::make_unexpected(captured.error());
  graph = std::move(*captured);
  return {};
}

Expected<void> Decoder::State::check_begun() const {
  if (!begun.empty() && begun_at == together.restarts()) return {};
  return refused("a decoder whose sequences have not begun",
                 "call begin() or prefill() first; after a launch that gave up, again");
}

Expected<void> Decoder::State::check_steps(int steps) const {
  if (auto ok = check_begun(); !ok) return ok;
  int const most = *std::max_element(read.begin(), read.end());
  if (steps < 0 || most + static_cast<long long>(steps) > options.capacity)
    return refused(fmt::format("{} steps behind {} tokens, with room for {}", steps, most, options.capacity),
                   "make a decoder with more capacity");
  return {};
}

Expected<void> Decoder::decode(cudaStream_t stream, int steps) {
  auto& s = *state_;
  if (auto ok = s.settle(stream); !ok) return ok;
  if (auto ok = s.check_steps(steps); !ok) return ok;
  if (steps >= k_steps_together)
    if (auto ok = s.capture(*this, k_steps_together, s.many_steps); !ok) return ok;
  if (steps % k_steps_together > 0)
    if (auto ok = s.capture(*this, 1, s.one_step); !ok) return ok;
  if (steps == 0) return {};
  bool begins = false;
  auto const ok = s.replay(stream, steps, begins);
  if (!ok && begins) s.begun.clear();  // some steps may have been enqueued
  if (!ok) return ok;
  for (auto& read : s.read) read += steps;
  return {};
}

/// `begins`: something has been enqueued.
Expected<void> Decoder::State::replay(cudaStream_t stream, int steps, bool& begins) {
  auto const enqueue = [this, &begins, steps](GpuStream in) {
    begins = true;
    auto error = cudaSuccess;
    for (int left = steps; left > 0 && error == cudaSuccess;) {
      bool const many = left >= k_steps_together;
      error = (many ? many_steps : one_step)->launch(in);
      left -= many ? k_steps_together : 1;
    }
    return static_cast<int>(error);
  };
  layers_alone = false;
  // The layers hold the SMs; the head's launch waits for nobody.
  auto ok = launched_layers ? check_call(static_cast<cudaError_t>(enqueue(stream)), "cudaGraphLaunch")
                            : layer_launch.replay(stream, enqueue);
  return ok && launched_head ? mark(stream) : ok;
}

bool Decoder::State::takes_pass(std::vector<Positions> const& unread) const {
  if (!pass) return false;
  long long tokens = 0;
  for (auto const& of : unread) tokens += of.end - of.begin;
  return !prompts || tokens >= k_least_pass_tokens;
}

Expected<void> Decoder::prefill(cudaStream_t stream) {
  auto& s = *state_;
  std::vector<Positions> unread;
  int longest = 0;
  bool all = true;  // has each sequence a token left to read?
  for (std::size_t i = 0; i < s.begun.size(); ++i) {
    longest = std::max(longest, s.known(i) - s.read[i]);
    all = all && s.read[i] < s.known(i);
    unread.push_back({s.read[i], std::max(s.read[i], s.known(i) - 1)});
  }
  if (auto ok = s.settle(stream); !ok) return ok;
  bool const takes_pass = s.takes_pass(unread);
  if ((!s.prompts && !takes_pass) || longest <= 1) return decode(stream, longest);
  if (auto ok = s.check_steps(1); !ok) return ok;
  // A stall of something else costs no sequences: it is said before anything is enqueued.
  if (auto ok = s.together.nothing_else_stalled("a decoder"); !ok) return ok;
  // Behind a pass the head alone is left; else a step that generates reads the last token of each.
  bool const head_alone = takes_pass && all;
  for (auto& of : unread)
    if (head_alone) ++of.end;
  auto ok = takes_pass ? s.pass->read(stream, unread, head_alone) : s.prompts->read(stream, unread);
  if (ok && takes_pass && !head_alone) ok = check_call(end_prompts(s.end, stream), "ending prompts");
  if (!ok) {
    s.begun.clear();  // some of them may have been enqueued
    return ok;
  }
  if (!head_alone) {
    for (std::size_t i = 0; i < unread.size(); ++i) s.read[i] = unread[i].end;
    return decode(stream, 1);
  }
  s.layers_alone = false;
  if (auto found = s.enqueue_head(stream, false); !found) {
    s.begun.clear();
    return found;
  }
  for (std::size_t i = 0; i < unread.size(); ++i) s.read[i] = unread[i].end;
  return {};
}

Expected<void> Decoder::prefill(cudaStream_t stream, std::vector<std::vector<int>> const& prompts) {
  std::vector<Sequence> sequences;
  for (auto const& prompt : prompts) sequences.push_back({prompt, 0});
  if (auto ok = begin(stream, sequences); !ok) return ok;
  return prefill(stream);
}

Expected<void> Decoder::State::finish() {
  std::vector<Launch const*> launches;
  if (!launched_layers) launches.push_back(&layer_launch);
  if (!launched_head) launches.push_back(&head_launch);
  if (prompts) launches.push_back(&prompts->launch());
  for (auto const* one : launches) {
    auto const result = one->finish();
    if (result) continue;
    // The first to hear of a stall says it of all.
    auto const stalled = std::find_if(launches.begin(), launches.end(),
                                      [](Launch const* each) { return each->last_stall().state != 0; });
    if (stalled == launches.end() || *stalled == &head_launch) return result;
    return tl::make_unexpected(
        with_layer(result.error(), *(*stalled)->plan, (*stalled)->last_stall(), model.layers));
  }
  // What is no persistent launch: steps by launches, and drawings, before which the head's launch ends.
  return wait_for_others();
}

Expected<void> Decoder::State::wait_for_others() const {
  gpu::RelaxedCapture const relaxed;
  if (replayed)
    return check_call(cudaDeviceSynchronize(),
                      "waiting for replays of graphs with steps; not while another stream is captured");
  return last != nullptr ? check_call(cudaEventSynchronize(last), "waiting for steps") : Expected<void>{};
}

Expected<void> Decoder::State::settle(cudaStream_t stream) {
  if (!together.stalled()) return {};
  begun.clear();
  auto status = cudaStreamCaptureStatusNone;
  if (auto ok = check_call(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing"); !ok) return ok;
  // A launch refuses by itself there: nothing can be waited for.
  if (status != cudaStreamCaptureStatusNone) return layer_launch.launch(stream, model.layers);
  auto said = finish();
  if (!said)
    for (auto& diagnostic : said.error())
      diagnostic.notes.push_back(
          "found when more was asked for, which was not enqueued: begin sequences again");
  return said;
}

bool Decoder::stalled() const { return state_->together.stalled(); }
Expected<void> Decoder::finish() { return state_->finish(); }

Expected<std::vector<std::vector<int>>> Decoder::tokens() {
  auto& s = *state_;
  if (auto ok = finish(); !ok) return tl::make_unexpected(ok.error());
  if (auto ok = s.check_begun(); !ok) return tl::make_unexpected(ok.error());
  std::vector<int> ids(times(s.options.batch, s.options.capacity)), ended(times(s.options.batch, 1)),
      not_finite(ended.size()), wrong_pages(ended.size()), wrong_tokens(ended.size()), cached(ended.size());
  for (auto const& [to, from] : {std::pair{&ids, s.at.ids},
                                 {&cached, s.at.cached},
                                 {&ended, s.at.ended},
                                 {&wrong_tokens, s.at.wrong_tokens},
                                 {&not_finite, s.at.not_finite},
                                 {&wrong_pages, s.at.wrong_pages}})
    if (from == nullptr)
      continue;
    else if (auto ok = check_call(cudaMemcpy(to->data(), from, 4 * to->size(), cudaMemcpyDeviceToHost),
                                  "reading tokens");
             !ok)
      return tl::make_unexpected(ok.error());
  std::vector<std::vector<int>> result;
  for (std::size_t i = 0; i < s.begun.size(); ++i) {
    auto const row = ids.begin() + static_cast<std::ptrdiff_t>(i) * s.options.capacity;
    if (wrong_pages[i] != 0) return tl::make_unexpected(wrong_page(i, wrong_pages[i] - 1));
    if (wrong_tokens[i] != 0) return tl::make_unexpected(wrong_token(i, wrong_tokens[i] - 1));
    if (not_finite[i] != 0) return tl::make_unexpected(not_finite_logits(i, not_finite[i]));
    // Steps of a caller's graph are counted on the device alone.
    int const read = std::max(s.read[i], cached[i]);
    int const all = std::min(std::max(read + 1, s.known(i)), s.options.capacity);
    int const end = ended[i] != 0 ? std::min(ended[i], all) : all;
    result.emplace_back(row + s.begun[i].cached, row + end);
  }
  return result;
}

Expected<std::vector<bool>> Decoder::ended() {
  auto& s = *state_;
  if (auto ok = finish(); !ok) return tl::make_unexpected(ok.error());
  if (auto ok = s.check_begun(); !ok) return tl::make_unexpected(ok.error());
  std::vector<int> behind(times(s.options.batch, 1));
  if (auto ok = check_call(cudaMemcpy(behind.data(), s.at.ended, 4 * behind.size(), cudaMemcpyDeviceToHost),
                           "reading ends");
      !ok)
    return tl::make_unexpected(ok.error());
  std::vector<bool> result;
  for (int const tokens : behind) result.push_back(tokens != 0);
  return result;
}

int const* Decoder::ids() const { return state_->at.ids; }
int const* Decoder::cached() const { return state_->at.cached; }
float const* Decoder::logits() const { return state_->at.logits; }
few_tokens::TileTimes const* Decoder::tile_times(Stage stage) const { return state_->at.times[stage]; }
void* Decoder::keys() const { return state_->at.keys; }
void* Decoder::values() const { return state_->at.values; }
CacheShape const& Decoder::cache() const { return state_->cache; }
std::size_t Decoder::weight_bytes() const { return state_->weights.bytes; }
Tiles const& Decoder::tiles() const { return state_->tiles; }
Options const& Decoder::options() const { return state_->asked; }

}  // namespace tessera::decode
