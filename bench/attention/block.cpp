// SPDX-License-Identifier: Apache-2.0
// bench_attention_block <out.json> <about.json> gpt3|llama <size>...: an attention block, one GPU's share of
// eight, in turns: the library's products around our attention in stream order; the same with cuDNN's
// attention, and with one of ours that starts early; what the planner chooses; and the best plans of our own
// products. Each plan's stages are compared with plain arithmetic first.
// A size is the tokens of a prompt, those of several of unequal length ("900,300"), or cached tokens of so
// many sequences that each get one more ("1024+4").
#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <sstream>
#include <tessera/report/json_text.hpp>

#include "bench/attention/cudnn_binding.hpp"
#include "bench/common/rows.hpp"
#include "kernels/plan_check/layer_tune.hpp"
#include "tessera/describe/workload_json.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/shipped.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/rank.hpp"
#include "tessera/tune/promised.hpp"

namespace {

using namespace tessera;
using bench::check;

struct Model {
  char const* name;
  char const* config;
  bool all_keys;
};
constexpr Model k_models[] = {{"gpt3", "gpt-3-145b", true}, {"llama", "llama-65b", false}};
constexpr int k_share = 8;
constexpr int k_rounds = 15, k_cool_rounds = 6;
constexpr double k_rest = 4;
constexpr double k_graph_us = 1500;  ///< of work in a graph
constexpr int k_own_plans = 6;       ///< of our own products, of each way to look for them

template <class T>
T must(Expected<T> value, char const* what) {
  if (value) return std::move(*value);
  std::fprintf(stderr, "%s: %s\n", what, to_text(value.error()).c_str());
  std::exit(1);
}

MachineProfile profile_here() {
  int device = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return must(machine(std::strstr(properties.name, "H200") != nullptr ? "h200" : "h100"), "machine profile");
}

struct Size {
  std::vector<std::int64_t> tokens;
  std::int64_t cached = 0, sequences = 1;
};

OperatorGraph graph_of(Model const& model, Size const& size) {
  auto const& tokens = size.tokens;
  BlockOptions block;
  block.block = "fused_attention";
  block.tensor_parallel = k_share;
  block.data_type = "bf16";
  block.all_keys = model.all_keys && size.cached == 0;
  block.cached = size.cached, block.sequences = size.sequences;
  if (tokens.size() == 1)
    block.tokens = tokens.front();
  else
    block.prompts = tokens;
  for (auto const& file : shipped_workloads())
    if (file.name == model.config)
      return must(import_hf_config(file.text, std::string(file.name), block), model.config);
  std::fprintf(stderr, "%s is not shipped\n", model.config);
  std::exit(1);
}

bool is_library(Stage const& stage) {
  auto const* kernel = shipped_kernels().find(stage.kernel);
  return kernel != nullptr && kernel->library;
}

/// A plan that takes part. Its time and error are those of a row of the record.
struct Row : bench::RowTimes {
  std::string name, detail;
  Plan plan;
  Launchable ready;
  bench::Timed timed;
  double error = std::nan("");
};

class BlockBench {
 public:
  BlockBench(Model const& model, Size const& size, MachineProfile machine, cudaStream_t stream)
      : graph_(graph_of(model, size)), machine_(std::move(machine)), stream_(stream) {
    library_ = must(priced_library_plan(graph_, shipped_kernels(), machine_), "the library's plan");
    subject_ = must(plan_check::layer_subject(graph_, library_, stream), "operands");
    subject_.about_us = std::max(library_.predicted_us, 1.0);
    per_graph_ = std::clamp(static_cast<int>(k_graph_us / subject_.about_us), 2, 24);
  }

  void measure(JsonWriter& json) {
    bench::Timer timer(stream_, subject_.sets, per_graph_);
    find_algorithms();
    collect();
    std::vector<bench::Timed*> running;
    for (auto& row : rows_) {
      row.error = row.ready.error();
      // What is wrong is not timed.
      if (row.error <= k_allowed_error && timer.capture(row.timed)) running.push_back(&row.timed);
    }
    bench::time_rows(timer, running, rows_, k_rounds, k_cool_rounds, k_rest);
    for (auto const& row : rows_)
      if (row.ready.stalled()) std::fprintf(stderr, "%s: a wait gave up\n", row.name.c_str());
    write(json);
  }

 private:
  /// The library's plan with the algorithms with which the block is fastest.
  void find_algorithms() {
    library_ = with_fastest_variants(std::move(library_), subject_, stream_);
    for (std::size_t s = 0; s < library_.stages.size(); ++s)
      if (is_library(library_.pipeline.stages[s]))
        algorithms_[library_.pipeline.stages[s].name] = library_.stages[s].variant;
  }

  static std::function<cudaError_t(cudaStream_t, int)> work_of(Launchable const& ready) {
    return [launch = ready.launch](cudaStream_t stream, int set) {
      return static_cast<cudaError_t>(launch(stream, set));
    };
  }

  /// The plan with the library's best algorithms.
  Plan with_algorithms(Plan plan) const {
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
      if (auto const found = algorithms_.find(plan.pipeline.stages[s].name);
          found != algorithms_.end() && is_library(plan.pipeline.stages[s]))
        plan.stages[s].variant = found->second;
    return plan;
  }

  void add(std::string name, Plan plan) { add(std::move(name), plan_name(plan), subject_, plan); }
  void add(std::string name, std::string detail, Subject const& subject, Plan const& plan) {
    auto const same = [&](Row const& row) { return row.detail == detail; };
    if (auto const known = std::find_if(rows_.begin(), rows_.end(), same); known != rows_.end()) {
      known->name += ", " + name;
      return;
    }
    auto ready = subject.make(plan);
    if (!ready) {
      std::fprintf(stderr, "%s (%s): %s\n", name.c_str(), detail.c_str(), to_text(ready.error()).c_str());
      return;
    }
    Row row;
    row.name = std::move(name);
    row.detail = std::move(detail);
    row.plan = plan;
    row.timed.work = work_of(*ready);
    row.ready = std::move(*ready);
    rows_.push_back(std::move(row));
  }

  std::vector<Plan> ranked(Registry const& kernels, std::vector<Mechanism> mechanisms,
                           bool chained = false) const {
    PlanOptions options;
    options.chained = chained;
    options.mechanisms = std::move(mechanisms);
    options.keep = k_own_plans;
    auto plans = rank_by_simulation(graph_, kernels, machine_, options);
    return plans ? std::move(*plans) : std::vector<Plan>();
  }

  /// The library's products around cuDNN's attention.
  void add_cudnn() {
#ifdef TESSERA_CUDNN_ATTENTION
    auto made = plan_check::layer_subject(graph_, library_, stream_, bench::bindings_with_cudnn());
    if (!made) {
      std::fprintf(stderr, "cuDNN's attention: %s\n", to_text(made.error()).c_str());
      return;
    }
    cudnn_ = std::move(*made);
    auto plan = library_;
    plan.predicted_us = std::nan("");  // of our attention
    add("conventional, cuDNN", plan_name(library_) + ", attention by cuDNN", cudnn_, plan);
#endif
  }

  void collect() {
    rows_.reserve(64);  // rows are pointed to
    add("conventional", library_);
    if (!generates(graph_)) add_cudnn();
    Registry libraries, own;
    for (auto const& kernel : shipped_kernels().kernels()) {
      bool const product = kernel.kind == OperatorKind::gemm;
      if (!product || kernel.library) (void)libraries.add(kernel);
      if (!product || !kernel.library) (void)own.add(kernel);
    }
    for (auto const& plan : ranked(libraries, {})) add("library, early", with_algorithms(plan));
    auto const chosen = ranked(shipped_kernels(), {});
    if (!chosen.empty()) {
      add("planned", generates(graph_) ? with_fastest_variants(chosen.front(), subject_, stream_)
                                       : with_algorithms(chosen.front()));
      add("planned, untuned", chosen.front());
    }
    if (generates(graph_)) {
      // As blocks follow one another in a model.
      auto const chained = ranked(shipped_kernels(), {}, true);
      if (!chained.empty())
        add("planned, chained", with_fastest_variants(chained.front(), subject_, stream_));
    }
    for (auto const& mechanisms : {std::vector<Mechanism>{},
                                   {Mechanism::stream_order},
                                   {Mechanism::stream_order, Mechanism::pdl},
                                   {Mechanism::pdl_tiles}})
      for (auto const& plan : ranked(own, mechanisms)) add("own", plan);
  }

  void write(JsonWriter& json) const {
    json.member("sets", subject_.sets).member("per_graph", per_graph_);
    json.key("variants").begin_array();
    for (auto const& row : rows_) {
      json.begin_object().member("variant", row.name).member("detail", row.detail);
      json.member("us", bench::with_decimals(row.median, 2));
      json.member("us_p10", bench::with_decimals(row.low, 2));
      json.member("us_p90", bench::with_decimals(row.high, 2));
      json.member("us_cool", bench::with_decimals(row.cool, 2));
      json.member("us_predicted", bench::with_decimals(row.plan.predicted_us, 2));
      json.member("relative_error", bench::with_digits(row.error, 3)).end_object();
      std::printf("  %9.2f us  cool %9.2f  predicted %9.2f  error %.2e  %s: %s\n", row.median, row.cool,
                  row.plan.predicted_us, row.error, row.name.c_str(), row.detail.substr(0, 160).c_str());
    }
    json.end_array();
    std::fflush(stdout);
  }

  OperatorGraph graph_;
  MachineProfile machine_;
  cudaStream_t stream_;
  Plan library_;
  Subject subject_, cudnn_;
  int per_graph_ = 2;
  std::map<std::string, std::string> algorithms_;  ///< of the library, by operator
  std::vector<Row> rows_;
};

/// "512", "900,300,130" or "1024+4"; no tokens: not that.
Size size_of(std::string const& text) {
  Size size;
  if (auto const plus = text.find('+'); plus != std::string::npos) {
    size.cached = std::atoll(text.substr(0, plus).c_str());
    size.sequences = std::atoll(text.substr(plus + 1).c_str());
    if (size.cached > 0 && size.sequences > 0) size.tokens = {1};
    return size;
  }
  auto& lengths = size.tokens;
  std::stringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    auto const length = std::atoll(word.c_str());
    if (length < 1) return {};
    lengths.push_back(length);
  }
  return size;
}

}  // namespace

int main(int argc, char** argv) {
  Model const* model = nullptr;
  for (Model const& one : k_models)
    if (argc > 3 && std::strcmp(one.name, argv[3]) == 0) model = &one;
  std::vector<Size> sizes;
  for (int i = 4; i < argc; ++i) sizes.push_back(size_of(argv[i]));
  if (model == nullptr || sizes.empty() ||
      std::any_of(sizes.begin(), sizes.end(), [](auto const& size) { return size.tokens.empty(); })) {
    std::fprintf(
        stderr,
        "usage: %s <out.json> <about.json> gpt3|llama <tokens>[,<tokens>...]|<cached>+<sequences>...\n",
        argv[0]);
    return 2;
  }
  if (auto const why = gpu::why_no_hopper(); !why.empty()) {
    std::fputs(gpu::refusal_text(why).c_str(), stderr);
    return 3;
  }
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  auto const machine = profile_here();
  JsonWriter json;
  json.begin_object().key("about").raw(bench::about(argv[2])).member("model", model->config);
  json.member("share", k_share).member("all_keys", model->all_keys).member("profile", machine.name);
  json.member("unit", "microseconds for one block, bf16; medians; cool: after rests of 4 times the work");
  json.member("samples", k_rounds).key("sizes").begin_array();
  for (auto const& size : sizes) {
    auto const& tokens = size.tokens;
    if (model->all_keys && tokens.size() > 1) continue;  // prompts of unequal length are causal
    json.begin_object().key("tokens").begin_array();
    for (auto const one : tokens) json.value(one);
    json.end_array();
    if (size.cached > 0) json.member("cached", size.cached).member("sequences", size.sequences);
    std::printf("%s, %lld tokens%s behind %lld cached, %lld sequences\n", model->name,
                static_cast<long long>(tokens.front()), tokens.size() > 1 ? " and others" : "",
                static_cast<long long>(size.cached), static_cast<long long>(size.sequences));
    BlockBench(*model, size, machine, stream).measure(json);
    json.end_object();
    // After each size: what was measured is not lost if something stops the rest.
    auto whole = json;
    if (!bench::write_file(argv[1], whole.end_array().end_object().text() + '\n')) return 1;
  }
  return 0;
}
