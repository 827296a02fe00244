// SPDX-License-Identifier: Apache-2.0
// One run of a decoder: weights, prompts, new tokens by the stopwatch, the reading of as many bytes, the
// stamps of one more step, and logits where they are asked for.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <tessera/describe/decoder_config.hpp>
#include <tessera/measure/generation.hpp>
#include <tessera/measure/statistics.hpp>
#include <tessera/run/run_loop.hpp>
#include <tessera/timeline_json.hpp>

#include "arguments.hpp"
#include "bench/skinny_mlp/floor.hpp"
#include "files/whole_files.hpp"
#include "kernels/decode/captured.hpp"
#include "kernels/decode/device_weights.hpp"
#include "kernels/decode/hf_model.hpp"
#include "kernels/decode/logits_file.hpp"
#include "kernels/decode/operator_times.hpp"
#include "measure/gpu/list.hpp"
#include "src/bench/record.hpp"

namespace tessera::command {
namespace {

using decode::Decoder;
using decode::Model;

tl::unexpected<Diagnostics> no_more(Diagnostics why) { return tl::make_unexpected(std::move(why)); }

Expected<std::string> read_text(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file) return text;
  Diagnostic failed;
  failed.code = "E0901";
  failed.message = fmt::format("cannot read {}", path);
  return refuse(std::move(failed));
}

/// As `tessera` writes them.
std::vector<std::vector<int>> prompts_in(std::string const& text) {
  std::vector<std::vector<int>> prompts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    prompts.emplace_back();
    for (std::string word; std::getline(words, word, ',');) prompts.back().push_back(std::stoi(word));
  }
  return prompts;
}

/// A line on standard error that is redrawn, where that is a terminal.
class Progress {
 public:
  explicit Progress(bool silent) : shown_(!silent && isatty(fileno(stderr)) != 0) {}
  Progress(Progress const&) = delete;
  Progress& operator=(Progress const&) = delete;
  ~Progress() { show(""); }
  void show(std::string const& line) const {
    if (shown_) std::fprintf(stderr, "\r\033[K%.100s", line.c_str());
  }

 private:
  bool shown_;
};

class Event {
 public:
  Event() { (void)cudaEventCreate(&event_); }
  Event(Event const&) = delete;
  Event& operator=(Event const&) = delete;
  ~Event() { (void)cudaEventDestroy(event_); }
  Expected<void> record(cudaStream_t stream) {
    return decode::check_call(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  Expected<void> wait() { return decode::check_call(cudaEventSynchronize(event_), "waiting for steps"); }
  /// Both have been waited for.
  double us_since(Event const& before) const {
    float ms = 0;
    return cudaEventElapsedTime(&ms, before.event_, event_) == cudaSuccess ? 1e3 * static_cast<double>(ms)
                                                                           : 0;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

struct Run {
  DecodeRun const& asked;
  Model model;
  std::vector<std::vector<int>> prompts;
  cudaStream_t stream;
  Progress const& progress;
  Generation result = {};
  decode::PagedCache paged = {};                         ///< of the decoder that generates
  std::vector<std::shared_ptr<void const>> tables = {};  ///< in device memory

  int longest() const {
    std::size_t most = 0;
    for (auto const& prompt : prompts) most = std::max(most, prompt.size());
    return static_cast<int>(most);
  }
  /// Cached tokens of a sequence in the middle of the run.
  int usual_cached() const { return longest() + asked.new_tokens / 2; }
  decode::Options options() const {
    decode::Options options;
    options.batch = static_cast<int>(prompts.size());
    options.capacity = asked.capacity;
    options.usual_cached = usual_cached();
    options.sampling = asked.sampling;
    options.stop_tokens = asked.stop_tokens;
    options.paged = paged;
    options.steps = asked.steps;
    // A timeline is of persistent layers, with the head that is usual beside them: a cut keeps a prediction
    // from deciding, where it changes nothing else.
    if (!asked.timeline.empty() && decode::decided_by_prediction(asked.steps, options.batch)) {
      if (decode::head_launched(asked.steps, options.batch))
        options.cut.exchange = Exchange::semaphore;
      else
        options.steps = decode::StepBy::persistent;
    }
    return options;
  }
  /// A table for so many tokens of each sequence: pages are dealt in turns, as sequences that grow together
  /// get them.
  Expected<decode::PagedCache> deal_pages(int capacity) {
    decode::PagedCache dealt;
    if (asked.page_size == 0) return dealt;
    int const sequences = static_cast<int>(prompts.size());
    int const of_each = decode::pages_of(capacity, asked.page_size);
    std::vector<int> numbers;
    for (int sequence = 0; sequence < sequences; ++sequence)
      for (int page = 0; page < of_each; ++page) numbers.push_back(page * sequences + sequence);
    auto const table = copy_on_device(numbers.data(), numbers.size() * sizeof(int), "a table of pages");
    if (!table) return tl::make_unexpected(table.error());
    tables.push_back(*table);
    dealt.positions = asked.page_size, dealt.pages = sequences * of_each;
    dealt.table = static_cast<int const*>(table->get());
    return dealt;
  }

  Expected<decode::DeviceWeights> load() {
    if (asked.weights.empty()) {
      result.weights = fmt::format("random weights of seed {}", asked.seed);
      if (model.gpus > 1)
        result.weights += fmt::format(
            ", one GPU's share of {} with the whole head, without the sums over GPUs", model.gpus);
      return decode::random_weights(model, asked.seed, stream);
    }
    auto const files = WeightFiles::open(asked.weights);
    if (!files) return no_more(files.error());
    auto const wanted = decode::tensors_of(model, decode::prefix_of(model, *files));
    result.weights = fmt::format("{}: {}", asked.weights, conversion_text(*files, wanted));
    return decode::read_weights(model, *files, stream, [&](std::uint64_t done, std::uint64_t all) {
      progress.show(fmt::format("weights: {:.1f} of {:.1f} GB", static_cast<double>(done) / 1e9,
                                static_cast<double>(all) / 1e9));
    });
  }
  Expected<void> check_memory(std::string const& gpu) const {
    std::size_t free = 0, all = 0;
    if (auto ok = decode::check_call(cudaMemGetInfo(&free, &all), "cudaMemGetInfo"); !ok) return ok;
    auto const needed =
        decode::memory_of(model, static_cast<int>(prompts.size()), asked.held(), asked.weights.empty());
    return decode::check_memory(needed, static_cast<double>(free), gpu + " (what is free of it)");
  }

  /// Prompts, and as many steps as there are new tokens behind the first, some of them on their way while the
  /// host waits for earlier ones; where tokens end sequences, it looks in between.
  Expected<void> generate(Decoder& decoder) {
    struct Part {
      Event begin, end;
    };
    // Once without a stopwatch: the first time graphs are made and kernels loaded. Tokens are the same again.
    int const steps = asked.new_tokens - 1;
    if (auto ok = decoder.prefill(stream, prompts); !ok) return ok;
    if (auto ok = decoder.decode(stream, std::min(steps, decode::k_steps_together + 1)); !ok) return ok;
    if (auto ok = decoder.finish(); !ok) return ok;
    Part prompt;
    if (auto ok = prompt.begin.record(stream); !ok) return ok;
    if (auto ok = decoder.prefill(stream, prompts); !ok) return ok;
    if (auto ok = prompt.end.record(stream); !ok) return ok;
    constexpr int k_most_graphs = 4, k_samples = 16;
    int const of_sample = std::max(steps / k_samples, 1);
    int const together =
        steps < decode::k_steps_together
            ? of_sample
            : std::clamp(of_sample / decode::k_steps_together, 1, k_most_graphs) * decode::k_steps_together;
    std::deque<Part> parts;
    for (int done = 0; done < steps;) {
      int const now = std::min(together, steps - done);
      auto& part = parts.emplace_back();
      if (auto ok = part.begin.record(stream); !ok) return ok;
      if (auto ok = decoder.decode(stream, now); !ok) return ok;
      if (auto ok = part.end.record(stream); !ok) return ok;
      done += now;
      result.steps.push_back(now);
      constexpr std::size_t k_ahead = 2;
      if (parts.size() <= k_ahead) continue;
      if (auto ok = parts[parts.size() - 1 - k_ahead].end.wait(); !ok) return ok;
      progress.show(
          fmt::format("{} of {} tokens", done - static_cast<int>(k_ahead) * together, asked.new_tokens));
      if (asked.stop_tokens.empty()) continue;
      auto const ended = decoder.ended();
      if (!ended) return no_more(ended.error());
      if (std::find(ended->begin(), ended->end(), false) == ended->end()) break;
    }
    // A launch whose wait meets its deadline ends, so this comes; finish() says what happened.
    if (auto ok = (parts.empty() ? prompt : parts.back()).end.wait(); !ok) return ok;
    if (auto ok = decoder.finish(); !ok) return ok;
    result.prompt_us = prompt.end.us_since(prompt.begin);
    for (std::size_t i = 0; i < parts.size(); ++i)
      result.step_us.push_back(
          bench::with_digits(parts[i].end.us_since(parts[i].begin) / result.steps[i], 6));
    return {};
  }
  Expected<void> take_tokens(Decoder& decoder) {
    auto const found = decoder.tokens();
    if (!found) return no_more(found.error());
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      auto const prompt = prompts[i].size();
      auto tokens = (*found)[i];
      // Short prompts may be through earlier, and go on to the end of the others.
      tokens.resize(std::min(tokens.size(), prompt + static_cast<std::size_t>(asked.new_tokens)));
      auto const stop = std::find_first_of(tokens.begin() + static_cast<std::ptrdiff_t>(prompt), tokens.end(),
                                           asked.stop_tokens.begin(), asked.stop_tokens.end());
      if (stop != tokens.end()) tokens.erase(stop + 1, tokens.end());
      result.sequences.push_back({std::move(tokens), static_cast<int>(prompt)});
    }
    return {};
  }

  /// Generates the same tokens once more, by another decoder that keeps logits: what was timed stays as it
  /// was. Rows behind the end of a sequence are no numbers.
  Expected<void> write_logits(Decoder const& decoder) const {
    auto with_logits = options();
    with_logits.keep_logits = true;
    auto other = decoder.another(with_logits, stream);
    if (!other) return no_more(other.error());
    auto const new_tokens = [&](std::size_t i) {
      return static_cast<int>(result.sequences[i].tokens.size()) - result.sequences[i].prompt;
    };
    decode::LogitsShape shape{0, static_cast<int>(prompts.size()), model.vocabulary};
    for (std::size_t i = 0; i < prompts.size(); ++i) shape.steps = std::max(shape.steps, new_tokens(i));
    auto text = decode::logits_header(shape);
    text.reserve(text.size() + 4 * shape.elements());
    std::vector<float> logits(shape.step());
    for (int step = 0; step < shape.steps; ++step) {
      if (auto ok = step == 0 ? other->prefill(stream, prompts) : other->decode(stream, 1); !ok) return ok;
      if (auto ok = other->finish(); !ok) return ok;
      if (auto ok = decode::check_call(
              cudaMemcpy(logits.data(), other->logits(), 4 * logits.size(), cudaMemcpyDeviceToHost),
              "reading logits");
          !ok)
        return ok;
      for (std::size_t i = 0; i < prompts.size(); ++i)
        if (step >= new_tokens(i))
          std::fill_n(logits.begin() + static_cast<std::ptrdiff_t>(i * shape.row()), shape.row(),
                      std::numeric_limits<float>::quiet_NaN());
      text.append(reinterpret_cast<char const*>(logits.data()), 4 * logits.size());
      progress.show(fmt::format("logits: {} of {} steps", step + 1, shape.steps));
    }
    return files::write_whole({{asked.logits, text}});
  }

  /// Reads as many bytes as a step, and nothing else; not measured where there is no memory for it.
  void measure_floor(int blocks) {
    progress.show("reading as many bytes alone");
    double const cached = static_cast<double>(prompts.size()) * model.read_of(usual_cached());
    result.step_bytes = decode::step_bytes(model, cached);
    auto const bytes = static_cast<std::size_t>(result.step_bytes) / 256 * 256;
    auto const memory = decode::zeroed_memory(bytes + 16384, stream);
    if (!memory) {
      (void)cudaGetLastError();
      return;
    }
    constexpr int k_warm = 2, k_rounds = 12;
    Event from, to;
    for (int const some : {128, blocks}) {
      std::vector<double> us;
      for (int round = 0; round < k_warm + k_rounds; ++round) {
        if (!from.record(stream) ||
            bench::stream_through(memory->get(), bytes, some, stream) != cudaSuccess || !to.record(stream) ||
            !to.wait())
          return;
        if (round >= k_warm) us.push_back(to.us_since(from));
      }
      double const one = bench::with_digits(median(us), 6);
      result.floor_us = result.floor_us > 0 ? std::min(result.floor_us, one) : one;
    }
  }

  static constexpr int k_warm_steps = 3;
  /// Another decoder, whose sequences have begun behind as many cached tokens as in the middle of the run.
  Expected<Decoder> in_the_middle(Decoder const& decoder, decode::Options with) {
    with.capacity = usual_cached() + k_warm_steps + 1;
    with.sampling = {}, with.stop_tokens = {};
    with.prompt_rows = 1;  // it reads none
    auto const pages = deal_pages(with.capacity);
    if (!pages) return no_more(pages.error());
    with.paged = *pages;
    auto other = decoder.another(with, stream);
    if (!other) return no_more(other.error());
    std::vector<decode::Sequence> sequences;
    for (auto const& prompt : prompts) sequences.push_back({{prompt.front()}, usual_cached()});
    if (auto ok = other->begin(stream, sequences); !ok) return no_more(ok.error());
    return other;
  }

  /// What each operator takes by itself, of all layers one behind the other.
  Expected<void> time_operators(Decoder const& decoder) {
    progress.show("operators of a step");
    auto other = in_the_middle(decoder, options());
    if (!other) return no_more(other.error());
    constexpr int k_rounds = 12;
    decode::Clock clock;
    for (auto const which : decode::k_layer_operators) {
      auto const launches = decode::Captured::of([&](cudaStream_t in) { return other->only(in, which); });
      if (!launches) return tl::make_unexpected(launches.error());
      std::vector<double> us;
      for (int round = 0; round < k_warm_steps + k_rounds; ++round) {
        auto const ms = clock.milliseconds(stream, *launches);
        if (!ms) return decode::check_call(clock.error(), "timing an operator");
        if (round >= k_warm_steps) us.push_back(1e3 * static_cast<double>(*ms) / model.layers);
      }
      result.alone.push_back({decode::operator_name(which), bench::with_decimals(median(us), 3)});
    }
    return {};
  }

  /// Where a step's time is, by another decoder that writes stamps, behind as many cached tokens.
  Expected<void> take_stamps(Decoder const& decoder) {
    progress.show("stamps of a step");
    auto with_stamps = options();
    with_stamps.keep_times = true;
    auto other = in_the_middle(decoder, with_stamps);
    if (!other) return no_more(other.error());
    if (auto ok = other->decode(stream, k_warm_steps); !ok) return ok;
    if (auto ok = other->finish(); !ok) return ok;
    decode::StepTimes times;
    for (std::size_t s = 0; s < decode::k_stages; ++s) {
      auto const count =
          static_cast<std::size_t>(model.layers) * static_cast<std::size_t>(other->tiles().of[s]);
      times[s].resize(count);
      auto const* const from = other->tile_times(static_cast<decode::Stage>(s));
      if (auto ok = decode::check_call(
              cudaMemcpy(times[s].data(), from, count * sizeof(times[s][0]), cudaMemcpyDeviceToHost),
              "reading stamps");
          !ok)
        return ok;
    }
    result.operators = decode::operator_times(times, model.layers);
    for (auto& one : result.operators)
      for (double* const us : {&one.waits, &one.reads, &one.ends, &one.apart})
        *us = bench::with_decimals(*us, 3);
    if (asked.timeline.empty()) return {};
    auto const timeline = decode::step_timeline(times, model.layers, model.name + ", the layers of a token",
                                                result.identity.gpu);
    return files::write_whole({{asked.timeline, print_timeline(timeline)}});
  }
};

}  // namespace

Expected<void> run_decode(DecodeRun const& asked) {
  auto const config_text = read_text(asked.config), prompt_text = read_text(asked.prompts);
  if (!config_text) return no_more(config_text.error());
  if (!prompt_text) return no_more(prompt_text.error());
  auto const config = import_hf_decoder(*config_text, asked.config);
  if (!config) return no_more(config.error());
  auto const model = decode::model_of(*config, asked.name, asked.gpus);
  if (!model) return no_more(model.error());
  probe::Context context;
  if (auto ok = decode::check_call(cudaGetDeviceProperties(&context.device, 0), "cudaGetDeviceProperties");
      !ok)
    return ok;
  cudaStream_t stream = nullptr;
  if (auto ok =
          decode::check_call(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
      !ok)
    return ok;
  context.stream = stream;

  Progress const progress(asked.silent);
  Run run{asked, *model, prompts_in(*prompt_text), stream, progress};
  if (auto ok = run.check_memory(context.device.name); !ok) return ok;
  auto weights = run.load();
  if (!weights) return no_more(weights.error());
  auto const pages = run.deal_pages(asked.capacity);
  if (!pages) return no_more(pages.error());
  run.paged = *pages;
  progress.show("laying out weights");
  auto decoder = Decoder::make(run.model, weights->weights, run.options(), stream);
  if (!decoder) return no_more(decoder.error());
  weights->others.clear();
  if (auto ok = run.generate(*decoder); !ok) return ok;
  if (auto ok = run.take_tokens(*decoder); !ok) return ok;
  if (!asked.logits.empty())
    if (auto ok = run.write_logits(*decoder); !ok) return ok;

  auto& result = run.result;
  Probe identity;
  probe::measure_identity(context, identity);
  result.identity = identity.identity;
  result.identity.commit = asked.commit;
  result.command = asked.command;
  result.model = run.model.name;
  result.layers = run.model.layers, result.capacity = asked.capacity;
  result.prompt_us = bench::with_digits(result.prompt_us, 6);
  run.measure_floor(context.device.multiProcessorCount);
  auto const stamps =
      decode::by_launches(decoder->options()) ? run.time_operators(*decoder) : run.take_stamps(*decoder);
  // Tokens are worth more than where their time went.
  if (auto ok = files::write_whole({{asked.output, print_generation(result)}}); !ok) return ok;
  if (stamps || !asked.timeline.empty()) return stamps;
  progress.show("");
  std::fprintf(stderr, "there are no times by operator:\n%s\n", to_text(stamps.error()).c_str());
  return {};
}

}  // namespace tessera::command
