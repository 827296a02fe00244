// SPDX-License-Identifier: Apache-2.0
#include "decode_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "commands.hpp"
#include "companion.hpp"
#include "files.hpp"
#include "kernels/decode/cache.hpp"
#include "kernels/decode/hf_model.hpp"
#include "kernels/decode/layer_plan.hpp"
#include "kernels/decode/logits_file.hpp"
#include "kernels/decode/sampling.hpp"
#include "load.hpp"
#include "prompt_ids.hpp"
#include "tessera/measure/generation.hpp"
#include "tessera/report/generation.hpp"
#include "tessera/report/report.hpp"
#include "token_prediction.hpp"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

constexpr int k_usual_new_tokens = 128;
constexpr std::uint64_t k_usual_seed = 1;
constexpr std::int64_t k_usual_cached = 1024;
constexpr int k_most_usual_gpus = 64;  ///< that a refusal names

/// "Llama-3.2-1B" of "Llama-3.2-1B/config.json".
std::string name_of_config(std::string const& path) {
  fs::path const whole(path);
  auto const file = whole.filename().string();
  if (file != "config.json") return whole.extension() == ".json" ? whole.stem().string() : file;
  std::error_code error;
  auto const folder = fs::absolute(whole, error).lexically_normal().parent_path().filename().string();
  return folder.empty() ? file : folder;
}

struct NamedModel {
  decode::Model model;         ///< or one GPU's share of it
  std::string config;          ///< its config.json
  std::int64_t positions = 0;  ///< that it was made for
  std::string name = {};       ///< the whole model's
  DecoderConfig of = {};       ///< as it was read
};

Expected<NamedModel> load_model(std::string const& name_or_path, int gpus = 1) {
  auto source = load_workload_text(name_or_path);
  if (!source) return tl::make_unexpected(source.error());
  if (source->summary.kind != DocumentKind::hf_config)
    return wrong_kind(source->file, source->summary, "a model's config.json",
                      "name a model (llama-3.2-1b), or the config.json of one");
  auto const config = import_hf_decoder(source->text, source->file);
  if (!config) return tl::make_unexpected(config.error());
  auto name = name_of_config(source->file);
  auto model = decode::model_of(*config, name, gpus);
  if (!model) return tl::make_unexpected(model.error());
  return NamedModel{std::move(*model), std::move(source->text), config->positions, std::move(name), *config};
}

/// E0566 where memory does not suffice. Where weights are what is too large, the way out is a share that
/// fits, if there is one.
Expected<void> check_memory(NamedModel const& named, MachineProfile const& machine, int sequences,
                            int capacity, bool random) {
  double const bytes = 1e9 * machine.dram_gb;
  if (bytes <= 0) return {};
  auto const needed = decode::memory_of(named.model, sequences, capacity, random);
  auto fits = decode::check_memory(needed, bytes, fmt::format("{} ({})", machine.name, machine.gpu));
  if (fits || needed.cache > needed.packed) return fits;
  for (int gpus = 2; gpus <= k_most_usual_gpus; gpus *= 2) {
    auto const share = decode::model_of(named.of, named.name, gpus);
    if (!share || decode::memory_of(*share, sequences, capacity, true).sum() > bytes) continue;
    fits.error().front().suggestion = fmt::format(
        "take a smaller model, or one GPU's share of this one, with random weights: --tp {}", gpus);
    break;
  }
  return fits;
}

/// What stands in the folder is the model's: its config where it has one, and its weights' names and shapes.
Expected<void> check_weights(std::string const& path, decode::Model const& model) {
  auto const config = (fs::path(path) / "config.json").string();
  std::error_code error;
  if (fs::exists(config, error)) {
    auto const in_folder = load_model(config);
    if (!in_folder) return tl::make_unexpected(in_folder.error());
    if (auto same = decode::check_same(model, in_folder->model, config); !same) return same;
  }
  auto const files = WeightFiles::open(path);
  if (!files) return tl::make_unexpected(files.error());
  return check_tensors(*files, decode::tensors_of(model, decode::prefix_of(model, *files)));
}

tl::unexpected<Diagnostics> wrong(char const* code, std::string message, std::string way_out) {
  return tl::make_unexpected(complaint(code, std::move(message), std::move(way_out)));
}

/// E0566 for what nobody can draw by; E0906 for options that would say nothing.
Expected<void> check_drawing(DecodeArguments const& a, decode::Model const& model) {
  decode::Sampling sampling;
  sampling.temperature = a.temperature.value_or(0);
  sampling.top_k = a.top_k.value_or(0), sampling.top_p = a.top_p.value_or(1);
  if (auto ok = decode::check_sampling(sampling); !ok) return ok;
  for (auto const& [option, given] :
       {std::pair{"--top-k", a.top_k.has_value()}, {"--top-p", a.top_p.has_value()}})
    if (given && !sampling.draws())
      return wrong("E0906",
                   fmt::format("{} is for tokens that are drawn; without a temperature the most likely "
                               "one is taken",
                               option),
                   fmt::format("add --temperature 0.7, or leave {} out", option));
  for (int const id : a.stop_ids)
    if (id < 0 || id >= model.vocabulary)
      return wrong("E0917",
                   fmt::format("--stop-id: token {} is not one of {}'s {}", id, model.name, model.vocabulary),
                   fmt::format("ids are 0 to {}", model.vocabulary - 1));
  return {};
}

/// Sizes of a run, which fit each other.
struct Sizes {
  int longest = 0;  ///< prompt
  int new_tokens = 0, capacity = 0;
};
Expected<Sizes> sizes_of(DecodeArguments const& a, decode::Model const& model,
                         std::vector<std::vector<int>> const& prompts) {
  Sizes sizes;
  std::size_t longest = 0;
  for (auto const& prompt : prompts) longest = std::max(longest, prompt.size());
  sizes.new_tokens = a.new_tokens.value_or(k_usual_new_tokens);
  auto const needed = static_cast<long long>(longest) + sizes.new_tokens;
  auto const capacity = a.capacity ? *a.capacity : needed;
  if (needed > capacity)
    return wrong("E0566",
                 fmt::format("{} tokens of a prompt and {} new ones, with room for {}", longest,
                             sizes.new_tokens, capacity),
                 fmt::format("--capacity {} holds them; or ask for fewer --new-tokens", needed));
  auto const most = static_cast<int>(decode::most_capacity(model));
  if (!a.capacity && needed > most)
    return wrong("E0566",
                 fmt::format("a prompt of {} and {} new tokens, and {} takes sequences of {}", longest,
                             sizes.new_tokens, model.name, most),
                 static_cast<long long>(longest) < most
                     ? fmt::format("ask for --new-tokens {} at most", most - static_cast<long long>(longest))
                     : fmt::format("give prompts of fewer than {} tokens", most));
  constexpr long long longest_int = std::numeric_limits<int>::max();
  if (auto ok = decode::check_sequences(static_cast<int>(std::min<std::size_t>(prompts.size(), 1 << 20)),
                                        static_cast<int>(std::min(capacity, longest_int)), most);
      !ok)
    return tl::make_unexpected(ok.error());
  sizes.longest = static_cast<int>(longest), sizes.capacity = static_cast<int>(capacity);
  return sizes;
}

/// What a file of logits may be, and where: numbers for programs are nothing for a terminal.
Expected<void> check_logits_file(DecodeArguments const& a, decode::LogitsShape const& shape) {
  if (a.logits.empty()) return {};
  if (a.logits == "-") return wrong("E0902", "cannot write -: logits are not text", "--logits logits.npy");
  return decode::check_logits(shape);
}

/// What the user could type to get the same again.
std::string command_text(GpuArguments const& gpu, DecodeArguments const& a) {
  auto text = fmt::format("tessera run {} --decode", gpu.workload.workload);
  for (auto const& prompt : a.prompts) text += " --prompt-ids " + prompt;
  if (gpu.workload.tensor_parallel) text += fmt::format(" --tp {}", *gpu.workload.tensor_parallel);
  if (a.new_tokens) text += fmt::format(" --new-tokens {}", *a.new_tokens);
  if (a.weights) text += " --weights " + *a.weights;
  if (a.capacity) text += fmt::format(" --capacity {}", *a.capacity);
  if (a.page_size) text += fmt::format(" --page-size {}", *a.page_size);
  if (a.steps) text += " --step-by " + *a.steps;
  if (a.seed) text += fmt::format(" --seed {}", *a.seed);
  if (a.temperature) text += fmt::format(" --temperature {}", *a.temperature);
  if (a.top_k) text += fmt::format(" --top-k {}", *a.top_k);
  if (a.top_p) text += fmt::format(" --top-p {}", *a.top_p);
  for (int const id : a.stop_ids) text += fmt::format(" --stop-id {}", id);
  if (!a.logits.empty()) text += " --logits " + a.logits;
  return text;
}

std::vector<std::string> companion_words(DecodeArguments const& a, Sizes const& sizes) {
  std::vector<std::string> words{"--new-tokens", std::to_string(sizes.new_tokens),
                                 "--capacity",   std::to_string(sizes.capacity),
                                 "--seed",       std::to_string(a.seed.value_or(k_usual_seed))};
  auto const add = [&](char const* option, std::string const& value) {
    words.insert(words.end(), {option, value});
  };
  if (a.page_size) add("--page-size", std::to_string(*a.page_size));
  if (a.steps) add("--step-by", *a.steps);
  if (a.weights) add("--weights", *a.weights);
  if (a.temperature) add("--temperature", fmt::format("{}", *a.temperature));
  if (a.top_k) add("--top-k", std::to_string(*a.top_k));
  if (a.top_p) add("--top-p", fmt::format("{}", *a.top_p));
  for (int const id : a.stop_ids) add("--stop", std::to_string(id));
  if (!a.logits.empty()) add("--logits", a.logits);
  if (!a.commit.empty()) add("--commit", a.commit);
  return words;
}

std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    auto const end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// Shows and writes what the companion has found.
int put_out(Session const& session, DecodeArguments const& a, GpuArguments const& gpu,
            MachineProfile const& machine, std::string const& record, std::string const& timeline) {
  auto const text = read_file(record);
  if (!text) return session.fail(text.error());
  auto const generation = parse_generation(*text, record);
  if (!generation) return session.fail(generation.error());
  std::vector<OutputFile> files;
  auto const printed = print_generation(*generation);
  if (!a.output.empty()) files.push_back({a.output, printed});
  if (!timeline.empty()) {
    auto const measured = read_file(timeline);
    if (!measured) return session.fail(measured.error());
    auto const parsed = parse_timeline(*measured, timeline);
    if (!parsed) return session.fail(parsed.error());
    if (!gpu.timeline.empty()) files.push_back({gpu.timeline, print_timeline(*parsed)});
    if (!gpu.html.empty()) files.push_back({gpu.html, timeline_html(*parsed)});
  }
  if (auto const written = write_files(session, files); !written) return session.fail(written.error());
  if (!a.logits.empty()) session.say("wrote " + a.logits);
  if (fill_standard_output(files)) return k_ok;
  session.print(session.json ? printed : new_tokens(*generation));
  if (!session.json)
    for (auto const& line : lines_of(summary(*generation))) session.say(line);
  if (!session.json && generation->floor_us == 0)
    session.say(fmt::format("reading alone was not measured; at the {:.0f} GB/s of {} it takes {:.1f} us",
                            machine.dram_gbps, machine.name,
                            generation->step_bytes / machine.dram_gbps / 1e3));
  return k_ok;
}

}  // namespace

void add_decode_options(CLI::App& command, DecodeArguments& a) {
  auto const group = "Generating tokens";
  command.add_flag("--decode", a.decode, "Generate tokens with the whole model")->group(group);
  command
      .add_option("--prompt-ids", a.prompts,
                  "A prompt: 1,2,3; or a file with one a line, - is standard input. Each\n"
                  "is one more sequence, and all are generated together")
      ->take_all()
      ->expected(1)
      ->group(group);
  command.add_option("--new-tokens", a.new_tokens, "How many, for each prompt (default 128)")
      ->check(CLI::Range(1, decode::k_most_capacity))
      ->group(group);
  command
      .add_option("--weights", a.weights,
                  "A folder with model.safetensors, or with several files and their index\n"
                  "(default: random weights)")
      ->group(group);
  command
      .add_option("--capacity", a.capacity,
                  "Tokens of a sequence that there is room for (default: as many as asked for)")
      ->check(CLI::Range(1, decode::k_most_capacity))
      ->group(group);
  command
      .add_option("--page-size", a.page_size,
                  "Positions of a page of the cache, a multiple of 16 (default: a cache without pages)")
      ->option_text("N")
      ->group(group);
  command
      .add_option("--step-by", a.steps,
                  "How a step is computed: persistent, in two launches; launches, one for each operator;\n"
                  "or fastest (default): from 17 sequences on by launches, of fewer where that is predicted\n"
                  "to be faster; else persistent, from 4 on with the head by launches")
      ->check(CLI::IsMember(
          std::vector<std::string>(std::begin(decode::k_step_names), std::end(decode::k_step_names))))
      ->group(group);
  command.add_option("--seed", a.seed, "Of random weights, and of tokens that are drawn (default 1)")
      ->group(group);
  command.add_option("--temperature", a.temperature, "Draw tokens; 0 (default): take the most likely one")
      ->group(group);
  command.add_option("--top-k", a.top_k, "Draw from the so many most likely ones")
      ->check(CLI::Range(1, 1 << 20))
      ->group(group);
  command
      .add_option("--top-p", a.top_p, "Draw from the most likely ones that have this probability together")
      ->group(group);
  command.add_option("--stop-id", a.stop_ids, "A token that ends a sequence; may be given again")
      ->take_all()
      ->expected(1)
      ->group(group);
  command.add_option("-o,--output", a.output, "What was generated and what it took, as JSON")->group(group);
  command
      .add_option("--logits", a.logits,
                  "Those of all new tokens: fp32 that numpy reads, [step][prompt][vocabulary]")
      ->group(group);
  command
      .add_flag("--predict", a.predict,
                "Instead, without a GPU: what a token takes on --machine, of so many --sequences\n"
                "(default 1) behind so many --cached tokens (default 1024, or as many as the model\n"
                "takes), simulated; what a step of a flow takes there; or what a network takes on an H200")
      ->group(group);
  command.add_option("--commit", a.commit, "What to note there as the commit that was built")->group(group);
}

Diagnostics unused_decode_options(DecodeArguments const& a, std::string const& way_out) {
  Diagnostics found;
  for (auto const& [option, given] : {std::pair{"--prompt-ids", !a.prompts.empty()},
                                      {"--new-tokens", a.new_tokens.has_value()},
                                      {"--weights", a.weights.has_value()},
                                      {"--capacity", a.capacity.has_value()},
                                      {"--page-size", a.page_size.has_value()},
                                      {"--step-by", a.steps.has_value()},
                                      {"--seed", a.seed.has_value()},
                                      {"--temperature", a.temperature.has_value()},
                                      {"--top-k", a.top_k.has_value()},
                                      {"--top-p", a.top_p.has_value()},
                                      {"--stop-id", !a.stop_ids.empty()},
                                      {"--output", !a.output.empty()},
                                      {"--logits", !a.logits.empty()},
                                      {"--predict", a.predict},
                                      {"--commit", !a.commit.empty()}})
    if (given) {
      auto one = complaint("E0906", fmt::format("{} is for generating tokens", option),
                           way_out + fmt::format("leave {} out", option));
      found.insert(found.end(), one.begin(), one.end());
    }
  return found;
}

namespace {

/// What there is to predict, where the machine has the memory for it: as many cached tokens as are asked for,
/// or as usual, or as the model takes.
Expected<TokenSize> size_of(GpuArguments const& gpu, NamedModel const& named, MachineProfile const& machine) {
  auto const& model = named.model;
  auto const most = std::int64_t{decode::most_capacity(model)} - 1;
  auto const usual =
      std::min({k_usual_cached, most, named.positions > 0 ? named.positions - 1 : k_usual_cached});
  TokenSize size{gpu.workload.sequences.value_or(1), gpu.workload.cached.value_or(usual), {}};
  if (size.cached > most)
    return wrong("E0566",
                 fmt::format("a token behind {} cached ones, and {} takes sequences of {}", size.cached,
                             model.name, most + 1),
                 fmt::format("ask for --cached {} at most", most));
  if (size.sequences > decode::k_most_batch) return size;
  int const sequences = static_cast<int>(size.sequences), capacity = static_cast<int>(size.cached) + 1;
  auto fits = check_memory(named, machine, sequences, capacity, true);
  if (fits) return size;
  if (auto const memory = decode::memory_of(model, sequences, capacity, true); memory.cache > memory.packed)
    fits.error().front().suggestion = "ask for fewer --cached tokens or --sequences";
  return tl::make_unexpected(fits.error());
}

/// A warning where so many tokens are more than the model was made for.
void warn_of_positions(Session const& session, NamedModel const& named, std::int64_t tokens) {
  if (named.positions <= 0 || tokens <= named.positions) return;
  auto warning = complaint(
      "E0566", fmt::format("{} tokens, and {} was made for {}", tokens, named.model.name, named.positions),
      "what it says behind them means little");
  warning.front().severity = Severity::warning;
  session.warn(warning);
}

/// E0906: steps by launches have no tiles with stamps.
Expected<void> check_timeline(GpuArguments const& gpu, DecodeArguments const& a, std::size_t sequences) {
  auto const by = decode::step_by(a.steps.value_or("fastest")).value_or(decode::StepBy::fastest);
  if ((gpu.timeline.empty() && gpu.html.empty()) ||
      !decode::layers_by_launches(by, static_cast<int>(sequences)))
    return {};
  return wrong(
      "E0906",
      fmt::format("a timeline is of persistent launches, and steps of {} sequence{} are a launch for "
                  "each operator",
                  sequences, sequences == 1 ? "" : "s"),
      a.steps ? "say --step-by persistent instead, or leave --timeline and --html out"
              : "add --step-by persistent, or leave --timeline and --html out");
}

/// E0906: files have whole matrices, and there is nobody to sum with.
Expected<void> check_share(GpuArguments const& gpu, DecodeArguments const& a) {
  if (gpu.workload.tensor_parallel.value_or(1) == 1 || !a.weights) return {};
  return wrong("E0906",
               "--tp is for random weights: a share's tokens mean nothing, since sums over GPUs are not done",
               "leave --weights out to measure a share, or --tp to generate with the whole model");
}

int run_prediction(Session const& session, GpuArguments const& gpu, DecodeArguments const& a,
                   std::string const& machine_name) {
  auto sizes = gpu;
  sizes.workload.sequences.reset(), sizes.workload.cached.reset(), sizes.workload.tensor_parallel.reset();
  auto others = a;
  others.predict = false, others.output.clear(), others.steps.reset();
  auto found = unused_decode_options(others, "--predict runs nothing: ");
  auto const more = unused_gpu_options(sizes, "--decode --predict");
  found.insert(found.end(), more.begin(), more.end());
  if (!gpu.timeline.empty() || !gpu.html.empty())
    for (auto const& one :
         complaint("E0906", "a prediction of tokens has no timeline", "leave --timeline and --html out"))
      found.push_back(one);
  if (!found.empty()) return session.fail(found);
  auto const model = load_model(gpu.workload.workload, gpu.workload.tensor_parallel.value_or(1));
  if (!model) return session.fail(model.error());
  auto const machine = load_machine(machine_name.empty() ? "h200" : machine_name);
  if (!machine) return session.fail(machine.error());
  auto size = size_of(gpu, *model, *machine);
  if (!size) return session.fail(size.error());
  warn_of_positions(session, *model, size->cached + 1);
  size->output = a.output;
  size->steps = decode::step_by(a.steps.value_or("fastest")).value_or(decode::StepBy::fastest);
  return predict_tokens(session, model->model, *machine, *size);
}

}  // namespace

int run_decode(Session const& session, GpuArguments const& gpu, DecodeArguments const& a,
               std::string const& machine_name) {
  if (a.predict) return run_prediction(session, gpu, a, machine_name);
  if (gpu.workload.sequences)
    return session.fail(complaint("E0906", "--sequences is for --decode --predict, and a run has its prompts",
                                  "give a prompt for each sequence: --prompt-ids again, or a file with a "
                                  "prompt a line; or add --predict"));
  auto sizes_of_plans = gpu;
  sizes_of_plans.workload.tensor_parallel.reset();
  if (auto const unused = unused_gpu_options(sizes_of_plans, "--decode"); !unused.empty())
    return session.fail(unused);
  if (auto const fine = check_share(gpu, a); !fine) return session.fail(fine.error());
  int const gpus = gpu.workload.tensor_parallel.value_or(1);
  auto const model = load_model(gpu.workload.workload, gpus);
  if (!model) return session.fail(model.error());
  if (a.prompts.empty())
    return session.fail(
        complaint("E0908", "--decode needs a prompt",
                  "--prompt-ids 1,2,3, or a file with a prompt a line: --prompt-ids prompts.txt"));
  auto const prompts = read_prompts(a.prompts, model->model.vocabulary, model->model.name);
  if (!prompts) return session.fail(prompts.error());
  if (auto const fine = check_timeline(gpu, a, prompts->size()); !fine) return session.fail(fine.error());
  auto const sizes = sizes_of(a, model->model, *prompts);
  if (!sizes) return session.fail(sizes.error());
  if (auto const fine = check_drawing(a, model->model); !fine) return session.fail(fine.error());
  int const page = a.page_size.value_or(0);
  if (auto const fine = decode::check_page_size(page); !fine) return session.fail(fine.error());
  if (auto const fit = check_outputs({a.output, a.logits, gpu.timeline, gpu.html}); !fit)
    return session.fail(fit.error());
  decode::LogitsShape const logits{sizes->new_tokens, static_cast<int>(prompts->size()),
                                   model->model.vocabulary};
  if (auto const fine = check_logits_file(a, logits); !fine) return session.fail(fine.error());
  auto const machine = load_machine(machine_name.empty() ? "h200" : machine_name);
  if (!machine) return session.fail(machine.error());
  int const held = page > 0 ? decode::pages_of(sizes->capacity, page) * page : sizes->capacity;
  if (auto const fits = check_memory(*model, *machine, static_cast<int>(prompts->size()), held, !a.weights);
      !fits)
    return session.fail(fits.error());
  if (a.weights)
    if (auto const fine = check_weights(*a.weights, model->model); !fine) return session.fail(fine.error());
  warn_of_positions(session, *model, std::int64_t{sizes->longest} + sizes->new_tokens);
  TemporaryFiles files;
  for (auto const& text : {model->config, print_prompts(*prompts)})
    if (auto const written = files.add(text); !written) return session.fail(written.error());
  auto const record = files.name("record");
  if (!record) return session.fail(record.error());
  auto words = companion_words(a, *sizes);
  if (gpus > 1) words.insert(words.end(), {"--tp", std::to_string(gpus)});
  words.insert(words.end(), {"--config", files.paths()[0], "--name", model->name, "--prompts",
                             files.paths()[1], "--command", command_text(gpu, a), "--output", *record});
  std::string timeline;
  if (!gpu.timeline.empty() || !gpu.html.empty()) {
    auto const name = files.name("timeline");
    if (!name) return session.fail(name.error());
    timeline = *name;
    words.insert(words.end(), {"--timeline", timeline});
  }
  if (session.quiet) words.emplace_back("--silent");
  int const answer = run_companion(session, "tessera run --decode", "tessera-decode", words);
  return answer == k_ok ? put_out(session, a, gpu, *machine, *record, timeline) : answer;
}

}  // namespace tessera::cli
