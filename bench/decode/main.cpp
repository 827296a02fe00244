// SPDX-License-Identifier: Apache-2.0
// bench_decode <model> <cached>[,...] <batch>[,...] [quick] [--rings <list>] [<out.json> [<about.json>]]: a
// generated token of random weights: all layers in one launch and the head in a second one, in one graph,
// with several rings; both parts alone; a token that is drawn; and the reading of the same bytes, in one run
// for each size; then where a layer's time is, by stamps, and, with the first number of cached tokens, how
// long prompts take to be read, many tokens at once and one by one. "llama-65b:8" is one GPU's share of
// eight: sums over GPUs are not in it. A list of rings is kilobytes of a slot (0: what follows from the
// sequences), in flight at a tile's beginning and within (0: all), late slots and kilobytes of these (0: what
// follows), warps that fill them (0: 1), parts of the cache (0: what follows) and 1 for a head that starts
// early, 1 for semaphores where words would do, positions of a page of the cache (0: none), 1 for persistent
// launches, 2 for a launch for each operator, 3 for these with cuBLASLt's products alone; what is left out is
// 0: 32:2:4,24:2:4:8:4. A record is made with the decoder's own choice alone, --rings 0, or with these three
// ways of steps, --rings both; 4 is launches with our products alone.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <tessera/report/json_text.hpp>

#include "bench/common/program.hpp"
#include "bench/common/rows.hpp"
#include "bench/skinny_mlp/floor.hpp"
#include "kernels/decode/device_weights.hpp"
#include "kernels/decode/hf_model.hpp"
#include "kernels/decode/operator_times.hpp"
#include "src/bench/matrices.hpp"
#include "src/bench/timer.hpp"
#include "tessera/measure/statistics.hpp"

namespace {

using namespace tessera;
using bench::check;
using decode::Decoder;
using decode::Model;
using decode::Part;

constexpr int steps = 8;  ///< to a graph
constexpr int rounds = 24;
constexpr int cool_rounds = 8;
constexpr double rest = 8;

struct Row : bench::RowTimes {
  std::string name, detail;
  bench::Timed timed;
  double error = 0;
};

void refused(Diagnostics const& why) {
  std::fprintf(stderr, "%s\n", to_text(why).c_str());
  std::exit(1);
}
template <class T>
T taken(Expected<T> outcome) {
  if (!outcome) refused(outcome.error());
  return std::move(*outcome);
}
void done(Expected<void> const& outcome) {
  if (!outcome) refused(outcome.error());
}

struct Rings {
  int kilobytes = 0, in_flight = 0, within = 0, late_slots = 0, late_kilobytes = 0, late_warps = 0;
  int splits = 0, head_early = 0, semaphores = 0, page = 0, by = 0;
};
/// 1: persistent; 2: by launches; 3: by launches, with the library's products alone, the strongest that
/// libraries and our attention come to in one graph.
constexpr char const* both_ways = "0:0:0:0:0:0:0:0:0:0:1,0:0:0:0:0:0:0:0:0:0:2,0:0:0:0:0:0:0:0:0:0:3";

/// Pages in another order than positions, one after the other.
struct Pages {
  Pages(int batch, int capacity, int positions) {
    std::vector<int> numbers;
    for (int i = batch * decode::pages_of(capacity, positions); i > 0; --i) numbers.push_back(i - 1);
    check(cudaMalloc(&table, 4 * numbers.size()), "cudaMalloc");
    check(cudaMemcpy(table, numbers.data(), 4 * numbers.size(), cudaMemcpyHostToDevice), "pages");
    paged.positions = positions, paged.pages = static_cast<int>(numbers.size()),
    paged.table = static_cast<int const*>(table);
  }
  Pages(Pages const&) = delete;
  Pages& operator=(Pages const&) = delete;
  ~Pages() { cudaFree(table); }
  void* table = nullptr;
  decode::PagedCache paged;
};

constexpr char const* usual_rings =
    "32:2:4,32:2,32:3,32:2:4:4,32:2:4:0:4,32:2:4:0:8,32:2:4:0:1,32:2:4:0:1:4,48:1:2,48:1:2:0:1:4,"
    "28:2:4,24:2:4,24:3:5,16:4,16:4:8,16:4:0:0:1:4,32:2:4:0:0:0:8,32:2:4:0:0:0:0:1";

/// False: no such list.
bool parse_rings(char const* text, std::vector<Rings>& to) {
  while (*text != 0) {
    Rings rings;
    for (int* const number :
         {&rings.kilobytes, &rings.in_flight, &rings.within, &rings.late_slots, &rings.late_kilobytes,
          &rings.late_warps, &rings.splits, &rings.head_early, &rings.semaphores, &rings.page, &rings.by}) {
      char* end = nullptr;
      auto const value = std::strtol(text, &end, 10);
      if (end == text || value < 0 || value > 1000) return false;
      *number = static_cast<int>(value);
      text = end;
      if (*text != ':') break;
      ++text;
    }
    to.push_back(rings);
    if (*text == ',')
      ++text;
    else if (*text != 0)
      return false;
  }
  return !to.empty();
}
std::string to_string(Rings const& r) {
  constexpr char const* k_ways[] = {"", ", persistent", ", all by launches",
                                    ", all by launches, cuBLASLt's products",
                                    ", all by launches, our products"};
  std::string const pages =
      (r.page > 0 ? ", pages of " + std::to_string(r.page) : "") + k_ways[std::clamp(r.by, 0, 4)];
  if (r.kilobytes == 0) return "rings of the decoder's choice" + pages;
  auto const or_none = [](char const* what, int number) {
    return number > 0 ? ", " + std::string(what) + " " + std::to_string(number) : std::string();
  };
  return "slots of " + std::to_string(r.kilobytes) + " KB, " + std::to_string(r.in_flight) + " and " +
         std::to_string(r.within) + " in flight" + or_none("late slots", r.late_slots) +
         or_none("late KB", r.late_kilobytes) + or_none("late warps", r.late_warps) +
         or_none("parts", r.splits) + (r.head_early > 0 ? ", head early" : "") +
         (r.semaphores > 0 ? ", semaphores" : "") + pages;
}

/// What the decoder chooses where nothing is asked for.
std::string chosen_ways(decode::Options const& options, int by) {
  if (by != 0 || !decode::head_by_launches(options)) return "";
  return decode::by_launches(options) ? ", launches" : ", the head by launches";
}

decode::StepTimes times_of(Decoder const& decoder, int layers) {
  decode::StepTimes result;
  for (std::size_t s = 0; s < decode::k_stages; ++s) {
    result[s].resize(static_cast<std::size_t>(layers) * static_cast<std::size_t>(decoder.tiles().of[s]));
    check(cudaMemcpy(result[s].data(), decoder.tile_times(static_cast<decode::Stage>(s)),
                     result[s].size() * sizeof(result[s][0]), cudaMemcpyDeviceToHost),
          "times");
  }
  return result;
}

/// Where a layer's time is, by stamps of one step; the means add up to a layer.
struct Stamps {
  std::string rings;
  std::vector<OperatorTimes> operators;
};
void print(Stamps const& stamps) {
  std::printf("  %s, by stamps, us:\n", stamps.rings.c_str());
  for (auto const& one : stamps.operators)
    std::printf("    %-10s waits %6.2f  reads %6.2f  ends %6.2f  apart %6.2f  all %6.2f\n", one.name.c_str(),
                one.waits, one.reads, one.ends, one.apart, one.all());
  std::printf("    attention block: qkv, attention and out together %.2f, a sum by stamps\n",
              decode::attention_block_us(stamps.operators));
}

/// Prompts of so many tokens, all sequences together, so many tokens to a step (0: as many as are of use).
struct PromptTime {
  int tokens = 0, rows = 0;
  double us = 0;
};

/// One size. `first`, once made, has the weights for all.
struct Bench {
  Model model;
  int cached, batch;
  cudaStream_t stream;
  std::unique_ptr<Decoder>& first;
  std::vector<std::unique_ptr<Decoder>> decoders = {};
  std::vector<std::pair<decode::Options, std::string>> made_with = {};
  std::vector<std::unique_ptr<Pages>> pages = {};

  std::vector<decode::Sequence> sequences() const {
    std::vector<decode::Sequence> result;
    for (int i = 0; i < batch; ++i) result.push_back({{1 + i}, cached});
    return result;
  }
  void add_rows(std::vector<Row>& rows, std::vector<Rings> const& to_try) {
    for (auto const& rings : to_try) {
      decode::Options options;
      options.batch = batch;
      options.capacity = cached + 2 * steps;
      options.usual_cached = cached;
      options.cut.slot_bytes = 1024 * rings.kilobytes;
      options.cut.in_flight = rings.in_flight, options.cut.in_flight_within = rings.within;
      options.cut.late_slots = rings.late_slots, options.cut.late_slot_bytes = 1024 * rings.late_kilobytes;
      options.cut.late_warps = std::max(rings.late_warps, 1);
      options.cut.splits = rings.splits;
      options.head_starts_early = rings.head_early > 0;
      if (rings.semaphores > 0) options.cut.exchange = Exchange::semaphore;
      options.prompt_rows = 1;  // tokens alone
      options.steps = static_cast<decode::StepBy>(std::min(rings.by, 2));
      if (rings.by == 3) options.products_of = decode::ProductsOf::library;
      if (rings.by == 4) options.products_of = decode::ProductsOf::ours;
      if (rings.page > 0) {
        pages.push_back(std::make_unique<Pages>(batch, options.capacity, rings.page));
        options.paged = pages.back()->paged;
      }
      auto made = first->another(options, stream);
      if (!made) {
        std::printf("  not here: %s\n%s\n", to_string(rings).c_str(), to_text(made.error()).c_str());
        continue;
      }
      decoders.push_back(std::make_unique<Decoder>(std::move(*made)));
      options.steps = decoders.back()->options().steps;
      made_with.emplace_back(options, to_string(rings) + chosen_ways(options, rings.by));
      auto* const decoder = decoders.back().get();
      fill_cache(*decoder);
      done(decoder->begin(stream, sequences()));
      auto const& detail = made_with.back().second;
      add(rows, "token", detail, decoder, Part::all);
      add(rows, "layers", detail, decoder, Part::layers);
      add(rows, "head", detail, decoder, Part::head);
    }
    // Beside ways that were asked for there may be no memory for it.
    if (!decoders.empty() && to_try.front().by == 0) add_drawn(rows);
    add_operators(rows);
  }
  /// Of the first decoder whose steps are launches, behind all that needs its sequences: captured last.
  void add_operators(std::vector<Row>& rows) {
    for (auto [options, name] : made_with) {
      if (!decode::by_launches(options)) continue;
      decoders.push_back(std::make_unique<Decoder>(taken(first->another(options, stream))));
      auto* const decoder = decoders.back().get();
      fill_cache(*decoder);
      done(decoder->begin(stream, sequences()));
      for (auto const which : decode::k_layer_operators) {
        Row row;
        row.name = "operator", row.detail = decode::operator_name(which);
        row.timed.work = [decoder, which](cudaStream_t on, int) {
          return decoder->only(on, which) ? cudaSuccess : cudaErrorLaunchFailure;
        };
        rows.push_back(std::move(row));
      }
      return;
    }
  }
  /// As the first of the others, but for what is behind the head.
  void add_drawn(std::vector<Row>& rows) {
    for (auto const& [sampling, name] : {std::pair{decode::Sampling{1, 0, 1, 1}, "of all tokens"},
                                         {{1, 50, 0.95, 1}, "of 50, and of 0.95"}}) {
      auto options = made_with.front().first;
      options.sampling = sampling;
      decoders.push_back(std::make_unique<Decoder>(taken(first->another(options, stream))));
      auto* const decoder = decoders.back().get();
      fill_cache(*decoder);
      done(decoder->begin(stream, sequences()));
      add(rows, "drawn", name, decoder, Part::all);
    }
  }
  /// Prompts of each sequence, begun anew each time: medians of times on the stream, with the token behind.
  std::vector<PromptTime> prompts(std::vector<int> const& lengths) const {
    std::vector<PromptTime> result;
    constexpr int k_longest_by_tokens = 512;
    for (int const length : lengths)
      for (int const prompt_rows : {0, 16, 1}) {
        if (made_with.empty() || (prompt_rows == 16 && decode::by_launches(made_with.front().first)) ||
            (prompt_rows == 1 && length > k_longest_by_tokens))
          continue;
        auto options = made_with.front().first;
        options.prompt_rows = prompt_rows;
        options.capacity = std::max(length + 1, options.capacity);
        auto decoder = taken(first->another(options, stream));
        std::vector<decode::Sequence> prompts;
        for (int i = 0; i < batch; ++i) {
          prompts.emplace_back();
          for (int p = 0; p < length; ++p) prompts.back().tokens.push_back((i + 7 * p) % model.vocabulary);
        }
        std::vector<double> times;
        for (int round = 0; round < (prompt_rows == 1 ? 3 : 7); ++round) {
          done(decoder.begin(stream, prompts));
          times.push_back(time_of([&] { done(decoder.prefill(stream)); }));
        }
        done(decoder.finish());
        result.push_back({length, prompt_rows, median(times)});
      }
    return result;
  }
  template <class Work>
  double time_of(Work const& work) const {
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin), "cudaEventCreate"), check(cudaEventCreate(&end), "cudaEventCreate");
    check(cudaEventRecord(begin, stream), "cudaEventRecord");
    work();
    check(cudaEventRecord(end, stream), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    check(cudaEventDestroy(begin), "cudaEventDestroy"), check(cudaEventDestroy(end), "cudaEventDestroy");
    return 1e3 * static_cast<double>(milliseconds);
  }
  /// One more step of each, by a decoder with stamps: behind all that is timed.
  std::vector<Stamps> stamps() const {
    std::vector<Stamps> result;
    for (auto [options, name] : made_with) {
      if (decode::by_launches(options)) continue;  // they have no tiles
      options.keep_times = true;
      auto decoder = taken(first->another(options, stream));
      fill_cache(decoder);
      done(decoder.begin(stream, sequences()));
      done(decoder.decode(stream, 3));
      done(decoder.finish());
      result.push_back({name, decode::operator_times(times_of(decoder, model.layers), model.layers)});
    }
    return result;
  }
  void fill_cache(Decoder const& decoder) const {
    auto const count = decoder.cache().elements();
    bench::fill_random(decoder.keys(), count, bench::ElementType::bf16, 21, 1, stream);
    bench::fill_random(decoder.values(), count, bench::ElementType::bf16, 22, 1, stream);
  }
  void add(std::vector<Row>& rows, char const* name, std::string const& detail, Decoder* decoder,
           Part part) const {
    Row row;
    row.name = name, row.detail = detail;
    row.timed.work = [decoder, part](cudaStream_t on, int set) {
      auto ok = set == 0 ? decoder->rewind(on) : Expected<void>{};
      if (ok) ok = decoder->step(on, part);
      if (!ok) std::printf("%s\n", to_text(ok.error()).c_str());
      return ok ? cudaSuccess : cudaErrorLaunchFailure;
    };
    rows.push_back(std::move(row));
  }
};

double least(std::vector<Row> const& rows, char const* name) {
  double result = std::numeric_limits<double>::infinity();
  for (Row const& row : rows)
    if (row.median > 0 && row.name == name) result = std::min(result, row.median);
  return result;
}

/// "1,16,64"; empty: none, or one that is not above 0.
std::vector<int> numbers_of(char const* text) {
  std::vector<int> result;
  while (*text != 0) {
    char* end = nullptr;
    auto const value = std::strtol(text, &end, 10);
    if (end == text || value < 1 || value > decode::k_most_capacity || (*end != ',' && *end != 0)) return {};
    result.push_back(static_cast<int>(value));
    text = *end == 0 ? end : end + 1;
  }
  return result;
}

/// Measures one size, says it, and writes it as an element of "sizes". `prompts`: lengths.
void measure(Bench run, std::vector<Rings> const& rings, std::vector<int> const& prompts, JsonWriter& json) {
  auto const& model = run.model;
  std::vector<Row> rows;
  auto const bytes =
      static_cast<std::size_t>(decode::step_bytes(model, double(run.batch) * model.read_of(run.cached)));
  auto const floor_memory = taken(decode::zeroed_memory(bytes + 16384, run.stream));
  auto* const memory = floor_memory.get();
  check(cudaMemsetAsync(memory, 1, bytes, run.stream), "memory");
  for (int const blocks : {128, 132}) {
    Row row;
    row.name = "floor", row.detail = "reads the same bytes with " + std::to_string(blocks) + " blocks";
    row.timed.work = [=](cudaStream_t on, int) { return bench::stream_through(memory, bytes, blocks, on); };
    rows.push_back(std::move(row));
  }
  run.add_rows(rows, rings);
  if (run.decoders.empty()) {
    std::printf("%s, %d cached, batch %d is left out: none of these rings can be had\n", model.name.c_str(),
                run.cached, run.batch);
    return;
  }
  check(cudaStreamSynchronize(run.stream), "filling");
  bench::Timer timer(run.stream, steps, steps);
  std::vector<bench::Timed*> running;
  for (Row& row : rows)
    if (timer.capture(row.timed))
      running.push_back(&row.timed);
    else
      std::printf("  cannot be captured: %s, %s\n", row.name.c_str(), row.detail.c_str());
  bench::time_rows(timer, running, rows, rounds, cool_rounds, rest);
  for (auto const& decoder : run.decoders) done(decoder->finish());

  double const floor = least(rows, "floor"), token = least(rows, "token");
  std::printf(
      "%s, %d cached, batch %d: floor %.1f us (%.1f MB), token %.1f (%.3f), layers %.2f each, head %.1f\n",
      model.name.c_str(), run.cached, run.batch, floor, double(bytes) / 1e6, token, token / floor,
      least(rows, "layers") / model.layers, least(rows, "head"));
  for (Row const& row : rows)
    std::printf("  %-7s %8.2f (%.2f...%.2f) %.3f  cool %.2f  %s\n", row.name.c_str(), row.median, row.low,
                row.high, row.median / floor, row.cool, row.detail.c_str());
  json.begin_object().member("cached", run.cached).member("batch", run.batch);
  json.member("bytes", bytes).member("floor_us", bench::with_digits(floor, 6)).key("variants").begin_array();
  bench::write_rows(json, rows);
  json.end_array().key("stamps").begin_array();
  for (auto const& one : run.stamps()) {
    print(one);
    json.begin_object().member("detail", one.rings);
    json.member("attention_block_us", bench::with_decimals(decode::attention_block_us(one.operators), 3));
    json.member("attention_block_is",
                "qkv, attention and out of these operators added up: no chain of blocks");
    json.key("operators").begin_array();
    for (auto const& of : one.operators) {
      json.begin_object().member("name", of.name).member("waits_us", bench::with_decimals(of.waits, 3));
      json.member("reads_us", bench::with_decimals(of.reads, 3));
      json.member("ends_us", bench::with_decimals(of.ends, 3));
      json.member("apart_us", bench::with_decimals(of.apart, 3)).end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
  if (!prompts.empty()) json.key("prompts").begin_array();
  for (auto const& one : run.prompts(prompts)) {
    std::printf("  prompts of %d tokens, %s: %.0f us, %.1f us a token\n", one.tokens,
                one.rows == 0   ? "as the decoder chooses"
                : one.rows == 1 ? "token by token"
                                : "16 rows to a step",
                one.us, one.us / one.tokens / run.batch);
    json.begin_object().member("tokens", one.tokens).member("rows", one.rows);
    json.member("us", bench::with_digits(one.us, 6)).end_object();
  }
  if (!prompts.empty()) json.end_array();
  json.end_object();
}

}  // namespace

int main(int count, char** arguments) {
  auto const model = decode::model_of(count > 1 ? arguments[1] : "");
  auto const cached = numbers_of(count > 2 ? arguments[2] : ""),
             batches = numbers_of(count > 3 ? arguments[3] : "");
  int files = 4;
  bool const quick = count > files && std::strcmp(arguments[files], "quick") == 0;
  files += quick ? 1 : 0;
  char const* list = quick ? "0" : usual_rings;
  if (count > files + 1 && std::strcmp(arguments[files], "--rings") == 0) {
    list = std::strcmp(arguments[files + 1], "both") == 0 ? both_ways : arguments[files + 1];
    files += 2;
  }
  std::vector<Rings> rings;
  if (!model || cached.empty() || batches.empty() || !parse_rings(list, rings)) {
    std::fprintf(stderr,
                 "usage: %s <model> <cached>[,...] <batch>[,...] [quick] [--rings <list>] [<out.json> "
                 "[<about.json>]]\n%s\n",
                 arguments[0], model ? "" : to_text(model.error()).c_str());
    return 2;
  }
  if (auto const why = gpu::why_no_hopper(); !why.empty()) {
    std::fputs(gpu::refusal_text(why).c_str(), stderr);
    return 3;
  }
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  auto weights = taken(decode::random_weights(*model, 1, stream));
  decode::Options any;
  any.capacity = std::min(any.capacity, decode::most_capacity(*model));
  auto first = std::make_unique<Decoder>(taken(Decoder::make(*model, weights.weights, any, stream)));
  weights.others.clear();
  JsonWriter json;
  json.begin_object().key("about").raw(bench::about(count > files + 1 ? arguments[files + 1] : ""));
  json.member("model", model->name).member("layers", model->layers);
  json.member("unit",
              "microseconds for a token; medians; cool: after rests of 8 times the work; stamps: of a layer");
  json.member("samples", rounds).key("sizes").begin_array();
  for (int const tokens : cached)
    for (int const batch : batches) {
      std::vector<int> prompts = {512};
      // Token by token they take long where sequences are many.
      if (tokens != cached.front() || (quick && batch != batches.front()))
        prompts.clear();
      else if (batch == 1 && !quick)
        prompts = {16, 64, 512, 2048};
      measure({*model, tokens, batch, stream, first}, rings, prompts, json);
      std::fflush(stdout);
      // After each: what was measured is not lost if something stops the rest.
      auto whole = json;
      if (count > files && !bench::write_file(arguments[files], whole.end_array().end_object().text() + '\n'))
        return 1;
    }
  return 0;
}
