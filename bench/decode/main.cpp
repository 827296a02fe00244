// SPDX-License-Identifier: Apache-2.0
// bench_decode <model> <cached> <batch> [quick] [--rings <list>] [<out.json> [<about.json>]]: a generated
// token of random weights: all layers in one launch and the head in a second one, in one graph, with several
// rings; both parts alone; a token that is drawn; and the reading of the same bytes, in one run; then where a
// layer's time is, by stamps, and how long prompts take to be read, many tokens at once and one by one. A
// list of rings is kilobytes of a slot, in flight at a tile's beginning and within (0: all), late slots and
// kilobytes of these (0: what follows), warps that fill them (0: 1), parts of the cache (0: what follows) and
// 1 for a head that starts early; what is left out is 0: 32:2:4,24:2:4:8:4.
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
#include "kernels/decode/decoder.hpp"
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
constexpr int rounds = 40;
constexpr int cool_rounds = 12;
constexpr double rest = 8;

/// Memory that lives to the end of the program.
void* device_memory(std::size_t bytes) {
  void* at = nullptr;
  check(cudaMalloc(&at, bytes), "memory");
  return at;
}
void* random_matrix(int rows, int columns, unsigned seed, double times, cudaStream_t stream) {
  auto const count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  auto* const at = device_memory(2 * count);
  bench::fill_random(at, count, bench::ElementType::bf16, seed,
                     static_cast<float>(times / std::sqrt(static_cast<double>(columns))), stream);
  return at;
}

/// One layer's random weights for all: the decoder makes copies of its own.
decode::Weights random_weights(Model const& m, cudaStream_t stream) {
  decode::Weights weights;
  decode::LayerWeights layer;
  auto* const gains = random_matrix(1, m.hidden, 1, std::sqrt(static_cast<double>(m.hidden)), stream);
  layer.attention_norm = layer.mlp_norm = weights.norm = gains;
  layer.q = random_matrix(m.attended(), m.hidden, 2, 1, stream);
  layer.k = random_matrix(m.kv_heads * m.head_size, m.hidden, 3, 1, stream);
  layer.v = random_matrix(m.kv_heads * m.head_size, m.hidden, 4, 1, stream);
  layer.o = random_matrix(m.hidden, m.attended(), 5, 1, stream);
  layer.gate = random_matrix(m.intermediate, m.hidden, 6, 1, stream);
  layer.up = random_matrix(m.intermediate, m.hidden, 7, 1, stream);
  layer.down = random_matrix(m.hidden, m.intermediate, 8, 1, stream);
  weights.layers.assign(static_cast<std::size_t>(m.layers), layer);
  weights.embedding =
      random_matrix(m.vocabulary, m.hidden, 9, std::sqrt(static_cast<double>(m.hidden)), stream);
  if (!m.tied) weights.head = random_matrix(m.vocabulary, m.hidden, 10, 1, stream);
  return weights;
}

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
  int splits = 0, head_early = 0;
};

constexpr char const* usual_rings =
    "32:2:4,32:2,32:3,32:2:4:4,32:2:4:0:4,32:2:4:0:8,32:2:4:0:1,32:2:4:0:1:4,48:1:2,48:1:2:0:1:4,"
    "28:2:4,24:2:4,24:3:5,16:4,16:4:8,16:4:0:0:1:4,32:2:4:0:0:0:8,32:2:4:0:0:0:0:1";

/// False: no such list.
bool parse_rings(char const* text, std::vector<Rings>& to) {
  while (*text != 0) {
    Rings rings;
    for (int* const number : {&rings.kilobytes, &rings.in_flight, &rings.within, &rings.late_slots,
                              &rings.late_kilobytes, &rings.late_warps, &rings.splits, &rings.head_early}) {
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
  auto const or_none = [](char const* what, int number) {
    return number > 0 ? ", " + std::string(what) + " " + std::to_string(number) : std::string();
  };
  return "slots of " + std::to_string(r.kilobytes) + " KB, " + std::to_string(r.in_flight) + " and " +
         std::to_string(r.within) + " in flight" + or_none("late slots", r.late_slots) +
         or_none("late KB", r.late_kilobytes) + or_none("late warps", r.late_warps) +
         or_none("parts", r.splits) + (r.head_early > 0 ? ", head early" : "");
}

std::vector<few_tokens::TileTimes> times_of(Decoder const& decoder, int stage, int layers) {
  auto const tiles = decoder.tiles().of[static_cast<std::size_t>(stage)];
  std::vector<few_tokens::TileTimes> result(static_cast<std::size_t>(layers) *
                                            static_cast<std::size_t>(tiles));
  check(cudaMemcpy(result.data(), decoder.tile_times(static_cast<decode::Stage>(stage)),
                   result.size() * sizeof(result[0]), cudaMemcpyDeviceToHost),
        "times");
  return result;
}

/// Where a layer's time is, by stamps of one step: means over layers and tiles, which add up to a layer.
/// waits: from the last store of the stage before to the mean tile's first input; reads: until all is
/// multiplied; ends: until it is stored; apart: the last tile behind the mean one.
void print_times(Decoder const& decoder, Model const& model, std::string const& rings) {
  constexpr char const* names[] = {"qkv", "attention", "out", "gate_up", "down"};
  std::printf("  %s, by stamps, us:\n", rings.c_str());
  std::vector<std::vector<few_tokens::TileTimes>> all;
  for (int s = 0; s < decode::k_stages; ++s) all.push_back(times_of(decoder, s, model.layers));
  for (int s = 0; s < decode::k_stages; ++s) {
    double waits = 0, reads = 0, ends = 0, apart = 0;
    auto const last_store = [&](int stage, int layer) {
      auto const& of = all[static_cast<std::size_t>(stage)];
      auto const tiles = of.size() / static_cast<std::size_t>(model.layers);
      unsigned long long last = 0;
      for (std::size_t t = 0; t < tiles; ++t)
        last = std::max(last, of[static_cast<std::size_t>(layer) * tiles + t].stored);
      return last;
    };
    // The first layer waits for no stage.
    for (int layer = 1; layer < model.layers; ++layer) {
      auto const& of = all[static_cast<std::size_t>(s)];
      auto const tiles = of.size() / static_cast<std::size_t>(model.layers);
      auto const before = s == 0 ? last_store(decode::k_down, layer - 1) : last_store(s - 1, layer);
      auto const end = last_store(s, layer);
      auto const since = [](unsigned long long from, unsigned long long to) {
        return static_cast<double>(static_cast<long long>(to - from)) / 1e3;
      };
      for (std::size_t t = 0; t < tiles; ++t) {
        auto const& one = of[static_cast<std::size_t>(layer) * tiles + t];
        waits += since(before, one.fed) / static_cast<double>(tiles);
        reads += since(one.fed, one.read) / static_cast<double>(tiles);
        ends += since(one.read, one.stored) / static_cast<double>(tiles);
        apart += since(one.stored, end) / static_cast<double>(tiles);
      }
    }
    double const n = model.layers - 1;
    std::printf("    %-10s waits %6.2f  reads %6.2f  ends %6.2f  apart %6.2f  all %6.2f\n", names[s],
                waits / n, reads / n, ends / n, apart / n, (waits + reads + ends + apart) / n);
  }
}

struct Bench {
  Model model;
  int cached, batch;
  cudaStream_t stream;
  std::vector<std::unique_ptr<Decoder>> decoders = {};
  std::vector<std::pair<decode::Options, std::string>> made_with = {};

  std::vector<decode::Sequence> sequences() const {
    std::vector<decode::Sequence> result;
    for (int i = 0; i < batch; ++i) result.push_back({{1 + i}, cached});
    return result;
  }
  void add_rows(std::vector<Row>& rows, std::vector<Rings> const& to_try) {
    auto const weights = random_weights(model, stream);
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
      options.prompt_rows = 1;  // tokens alone
      auto made = decoders.empty() ? Decoder::make(model, weights, options, stream)
                                   : decoders.front()->another(options, stream);
      if (!made) {
        std::printf("  not here: %s\n%s\n", to_string(rings).c_str(), to_text(made.error()).c_str());
        continue;
      }
      decoders.push_back(std::make_unique<Decoder>(std::move(*made)));
      made_with.emplace_back(options, to_string(rings));
      auto* const decoder = decoders.back().get();
      fill_cache(*decoder);
      done(decoder->begin(stream, sequences()));
      add(rows, "token", to_string(rings), decoder, Part::all);
      add(rows, "layers", to_string(rings), decoder, Part::layers);
      add(rows, "head", to_string(rings), decoder, Part::head);
    }
    if (!decoders.empty()) add_drawn(rows);
  }
  /// As the first of the others, but for what is behind the head.
  void add_drawn(std::vector<Row>& rows) {
    for (auto const& [sampling, name] : {std::pair{decode::Sampling{1, 0, 1, 1}, "of all tokens"},
                                         {{1, 50, 0.95, 1}, "of 50, and of 0.95"}}) {
      auto options = made_with.front().first;
      options.sampling = sampling;
      decoders.push_back(std::make_unique<Decoder>(taken(decoders.front()->another(options, stream))));
      auto* const decoder = decoders.back().get();
      fill_cache(*decoder);
      done(decoder->begin(stream, sequences()));
      add(rows, "drawn", name, decoder, Part::all);
    }
  }
  /// Prompts of each sequence, begun anew each time: medians of times on the stream, with the token behind.
  void print_prompts(std::vector<int> const& lengths) const {
    for (int const length : lengths)
      for (int const prompt_rows : {0, 16, 1}) {
        auto options = made_with.front().first;
        options.prompt_rows = prompt_rows;
        options.capacity = std::max(length + 1, options.capacity);
        auto decoder = taken(decoders.front()->another(options, stream));
        std::vector<decode::Sequence> prompts;
        for (int i = 0; i < batch; ++i) {
          prompts.emplace_back();
          for (int p = 0; p < length; ++p) prompts.back().tokens.push_back((i + 7 * p) % model.vocabulary);
        }
        std::vector<double> times;
        for (int round = 0; round < 7; ++round) {
          done(decoder.begin(stream, prompts));
          times.push_back(time_of([&] { done(decoder.prefill(stream)); }));
        }
        done(decoder.finish());
        auto const typical = median(times);
        std::printf("  prompts of %d tokens, %s: %.0f us, %.1f us a token\n", length,
                    prompt_rows == 0   ? "64 rows to a step"
                    : prompt_rows == 1 ? "token by token"
                                       : "16 rows to a step",
                    typical, typical / length / batch);
      }
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
  void print_stamps() const {
    for (auto [options, name] : made_with) {
      options.keep_times = true;
      auto decoder = taken(decoders.front()->another(options, stream));
      fill_cache(decoder);
      done(decoder.begin(stream, sequences()));
      done(decoder.decode(stream, 3));
      done(decoder.finish());
      print_times(decoder, model, name);
    }
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

}  // namespace

int main(int count, char** arguments) {
  auto const model = count > 1 ? decode::model_of(arguments[1]) : decode::model_of("");
  int const cached = count > 2 ? std::atoi(arguments[2]) : 0, batch = count > 3 ? std::atoi(arguments[3]) : 0;
  int files = 4;
  bool const quick = count > files && std::strcmp(arguments[files], "quick") == 0;
  files += quick ? 1 : 0;
  char const* list = quick ? "32:2:4" : usual_rings;
  if (count > files + 1 && std::strcmp(arguments[files], "--rings") == 0) {
    list = arguments[files + 1];
    files += 2;
  }
  std::vector<Rings> rings;
  if (!model || cached < 1 || batch < 1 || !parse_rings(list, rings)) {
    std::fprintf(
        stderr,
        "usage: %s <model> <cached> <batch> [quick] [--rings <list>] [<out.json> [<about.json>]]\n%s\n",
        arguments[0], model ? "" : to_text(model.error()).c_str());
    return 2;
  }
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  Bench run{*model, cached, batch, stream};
  std::vector<Row> rows;
  auto const bytes =
      static_cast<std::size_t>(model->weight_bytes() + double(batch) * cached * model->cache_bytes());
  auto* const memory = device_memory(bytes + 16384);
  check(cudaMemsetAsync(memory, 1, bytes, stream), "memory");
  for (int const blocks : {128, 132}) {
    Row row;
    row.name = "floor", row.detail = "reads the same bytes with " + std::to_string(blocks) + " blocks";
    row.timed.work = [=](cudaStream_t on, int) { return bench::stream_through(memory, bytes, blocks, on); };
    rows.push_back(std::move(row));
  }
  run.add_rows(rows, rings);
  check(cudaStreamSynchronize(stream), "filling");
  bench::Timer timer(stream, steps, steps);
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
      model->name.c_str(), cached, batch, floor, double(bytes) / 1e6, token, token / floor,
      least(rows, "layers") / model->layers, least(rows, "head"));
  for (Row const& row : rows)
    std::printf("  %-7s %8.2f (%.2f...%.2f) %.3f  cool %.2f  %s\n", row.name.c_str(), row.median, row.low,
                row.high, row.median / floor, row.cool, row.detail.c_str());
  run.print_stamps();
  run.print_prompts(quick ? std::vector<int>{512} : std::vector<int>{16, 64, 512, 2048});
  if (count <= files) return 0;
  JsonWriter json;
  json.begin_object().key("about").raw(bench::about(count > files + 1 ? arguments[files + 1] : ""));
  json.member("model", model->name).member("cached", cached).member("batch", batch);
  json.member("unit", "microseconds for a token; medians; cool: after rests of 8 times the work");
  json.member("samples", rounds)
      .member("floor_us", bench::with_digits(floor, 6))
      .key("variants")
      .begin_array();
  bench::write_rows(json, rows);
  return bench::write_file(arguments[files], json.end_array().end_object().text() + '\n') ? 0 : 1;
}
