// SPDX-License-Identifier: Apache-2.0
// run --decode: what is refused without a GPU, and what is done with what a stand-in for tessera-decode
// found.
#include "cli/alone.hpp"
#include "support/safetensors_writer.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using support::counting_tensor;
using support::safetensors_of;
using support::write_bytes;
using support::WrittenTensor;
using testing::HasSubstr;
using Json = nlohmann::json;

/// A model of one layer, small enough to be written down.
struct Decode : AloneInAFolder {
  static Json config() {
    return {{"model_type", "llama"},    {"hidden_size", 64},           {"intermediate_size", 128},
            {"num_attention_heads", 1}, {"num_key_value_heads", 1},    {"num_hidden_layers", 1},
            {"vocab_size", 128},        {"tie_word_embeddings", true}, {"max_position_embeddings", 64}};
  }
  static std::vector<WrittenTensor> tensors() {
    std::string const layer = "model.layers.0.";
    auto const one = [](std::string const& name, std::vector<std::int64_t> const& shape) {
      return counting_tensor(name + ".weight", "F32", shape, 4);
    };
    return {one("model.embed_tokens", {128, 64}),      one("model.norm", {64}),
            one(layer + "input_layernorm", {64}),      one(layer + "self_attn.q_proj", {64, 64}),
            one(layer + "self_attn.k_proj", {64, 64}), one(layer + "self_attn.v_proj", {64, 64}),
            one(layer + "self_attn.o_proj", {64, 64}), one(layer + "post_attention_layernorm", {64}),
            one(layer + "mlp.gate_proj", {128, 64}),   one(layer + "mlp.up_proj", {128, 64}),
            one(layer + "mlp.down_proj", {64, 128})};
  }
  void put_model(std::string const& name, Json const& config,
                 std::vector<WrittenTensor> const& tensors) const {
    fs::create_directory(folder / name);
    write_bytes(folder / name + "/config.json", config.dump(1));
    write_bytes(folder / name + "/model.safetensors", safetensors_of(tensors));
  }
  /// A stand-in that keeps its words, a line each, and writes this as what it found.
  void put_companion(std::string const& more = "") const {
    write_bytes(folder / "found.json", R"({"schema":"tessera.generation/1",
        "identity":{"gpu":"NVIDIA H200","driver":"580.1, CUDA 13.0","sms":132,"commit":"abc"},
        "model":"m","weights":"random weights of seed 1","layers":2,"capacity":8,
        "sequences":[{"prompt":3,"tokens":[1,2,3,40,50]},{"prompt":1,"tokens":[7,8,9]}],
        "prompt_us":3000,"step_us":[[1,100.5]],"step_bytes":1000000,"floor_us":50,
        "operators":[{"name":"qkv","waits_us":1,"reads_us":2,"ends_us":0.5,"apart_us":0.25}]})");
    put_beside("tessera-decode",
               "for word; do echo \"$word\"; done >words\n"
               "while [ $# -gt 0 ]; do case $1 in\n"
               "  --prompts) cat \"$2\" >prompts;; --config) cat \"$2\" >config;;\n"
               "  --output) cp found.json \"$2\";; --timeline) cp t.json \"$2\";; esac; shift; done\n" +
                   more);
  }
  std::string word_behind(std::string const& option) const {
    auto const words = read_text(folder / "words");
    auto const at = words.find(option + "\n");
    if (at == std::string::npos) return "";
    auto const begin = at + option.size() + 1;
    return words.substr(begin, words.find('\n', begin) - begin);
  }
};

TEST_F(Decode, HandsOverWhatItHasChecked) {
  put_companion();
  write_bytes(folder / "p.txt", "5 6\n\n7,8 , 9\r\n");
  auto const said =
      says("run llama-3.2-1b --decode --prompt-ids 1,2,3 --prompt-ids p.txt --new-tokens 2 --seed 9");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_EQ(said.out, "40 50\n8 9\n");
  EXPECT_EQ(said.err,
            "m (random weights of seed 1), 2 prompts of 1 to 3 tokens, 4 tokens new: 3.0 ms until the first\n"
            "19900.5 tokens a second; a step takes 100.5 us (100.5 to 100.5, 1 steps)\n"
            "it reads 1.0 MB, 10 GB/s; reading them alone takes 50.0 us: 2.01 times that\n"
            "a layer of 2, us:     waits  reads   ends  apart    all\n"
            "  qkv                  1.00   2.00   0.50   0.25   3.75\n"
            "                                                   3.75\n"
            "NVIDIA H200, driver 580.1, CUDA 13.0\n");
  EXPECT_EQ(read_text(folder / "prompts"), "1,2,3\n5,6\n7,8,9\n");
  EXPECT_EQ(Json::parse(read_text(folder / "config"))["num_hidden_layers"], 16);
  EXPECT_EQ(word_behind("--name"), "llama-3.2-1b");
  EXPECT_EQ(word_behind("--new-tokens"), "2");
  EXPECT_EQ(word_behind("--capacity"), "5");
  EXPECT_EQ(word_behind("--seed"), "9");
  EXPECT_EQ(word_behind("--temperature"), "");
  EXPECT_EQ(
      word_behind("--command"),
      "tessera run llama-3.2-1b --decode --prompt-ids 1,2,3 --prompt-ids p.txt --new-tokens 2 --seed 9");
}

TEST_F(Decode, AFloorThatWasNotMeasuredIsTheProfiles) {
  put_companion();
  auto text = read_text(folder / "found.json");
  text.replace(text.find("\"floor_us\":50"), 13, "\"floor_us\":0");
  write_bytes(folder / "found.json", text);
  EXPECT_THAT(says("run llama-3.2-1b --decode --prompt-ids 1").err, HasSubstr("it reads 1.0 MB, 10 GB/s\n"));
  EXPECT_THAT(
      says("run llama-3.2-1b --decode --prompt-ids 1 --machine a100").err,
      testing::EndsWith("reading alone was not measured; at the 1750 GB/s of a100 it takes 0.6 us\n"));
}

TEST_F(Decode, OptionsOfSamplingGoOn) {
  put_companion();
  ASSERT_EQ(says("-q run llama-3.2-1b --decode --prompt-ids 1 --temperature 0.7 --top-k 50 --top-p 0.9 "
                 "--stop-id 128001 --stop-id 128009 --capacity 4096 --commit abc")
                .exit,
            0);
  EXPECT_EQ(word_behind("--temperature"), "0.7");
  EXPECT_EQ(word_behind("--top-k"), "50");
  EXPECT_EQ(word_behind("--top-p"), "0.9");
  EXPECT_THAT(read_text(folder / "words"), HasSubstr("--stop\n128001\n--stop\n128009\n"));
  EXPECT_EQ(word_behind("--capacity"), "4096");
  EXPECT_EQ(word_behind("--commit"), "abc");
  EXPECT_THAT(read_text(folder / "words"), HasSubstr("--silent\n"));
}

TEST_F(Decode, RecordsAndTimelinesAreWritten) {
  put_companion();
  write_bytes(folder / "t.json",
              R"({"schema":"tessera.timeline/1","pipeline":"m","machine":"h","mechanism":"x","measured":true,
      "end_ps":1000,"sms":1,"busy":1,"waves":0,"dram_bytes":0,"dram_busy":0,
      "stages":[{"name":"qkv","first_start_ps":0,"last_end_ps":1000,"tiles":1,"splits":1,"extent":[1]}],
      "tile_columns":["stage","split","tile","gpu","sm","slot","started_ps","ready_ps","loaded_ps","stored_ps","posted_ps","waiting_ps"],
      "tiles":[]})");
  auto const said =
      says("run llama-3.2-1b --decode --prompt-ids 1 -o r.json --timeline time.json --html page.html");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_EQ(Json::parse(read_text(folder / "r.json"))["identity"]["commit"], "abc");
  EXPECT_THAT(read_text(folder / "time.json"), HasSubstr("\"qkv\""));
  EXPECT_THAT(read_text(folder / "page.html"), HasSubstr("<html"));
  EXPECT_THAT(said.err, HasSubstr("wrote r.json"));
  auto const json = says("--json run llama-3.2-1b --decode --prompt-ids 1");
  EXPECT_EQ(json.json()["sequences"][1]["tokens"], (std::vector<int>{7, 8, 9}));
}

TEST_F(Decode, LogitsAreTheCompanionsToWrite) {
  put_companion();
  auto said = says("run llama-3.2-1b --decode --prompt-ids 1 --new-tokens 2 --logits l.npy");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_EQ(word_behind("--logits"), "l.npy");
  EXPECT_EQ(word_behind("--command"),
            "tessera run llama-3.2-1b --decode --prompt-ids 1 --new-tokens 2 --logits l.npy");
  EXPECT_THAT(said.err, testing::StartsWith("wrote l.npy\n"));
  said = says("run llama-3.2-1b --decode --prompt-ids 1");
  EXPECT_THAT(read_text(folder / "words"), testing::Not(HasSubstr("--logits")));
  said = says("run llama-3.2-1b --decode --prompt-ids 1 --new-tokens 5000 --logits l.npy");
  EXPECT_EQ(said.exit, 1);
  EXPECT_EQ(
      said.err,
      "error E0566: logits of 1 sequences, 5000 steps and 128256 tokens are 2.6 GB; a file has 2.1 at most\n"
      "   hint: --new-tokens 4185 fits, or fewer prompts at once\n");
  said = says("run llama-3.2-1b --decode --prompt-ids 1 --logits -");
  EXPECT_EQ(said.exit, 3);
  EXPECT_EQ(said.err, "error E0902: cannot write -: logits are not text\n   hint: --logits logits.npy\n");
  EXPECT_EQ(says("run llama-3.2-1b --decode --prompt-ids 1 -o r.json --logits r.json").exit, 2);
  EXPECT_EQ(says("run llama-3.2-1b --decode --prompt-ids 1 --logits nowhere/l.npy").exit, 3);
  EXPECT_THAT(says("run llama-3.2-1b --planned --logits l.npy").err,
              HasSubstr("error E0906: --logits is for generating tokens"));
}

TEST_F(Decode, WeightsAreLookedAtBeforeAGpuIs) {
  put_companion();
  put_model("small", config(), tensors());
  auto const run = [&](std::string const& more) {
    return says("run ./small/config.json --decode --prompt-ids 1,2 --new-tokens 4 --weights " + more);
  };
  auto said = run("small");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_EQ(word_behind("--weights"), "small");
  EXPECT_EQ(word_behind("--name"), "small");
  said = run("nowhere");
  EXPECT_EQ(said.exit, 3);
  EXPECT_EQ(said.err, "error E0901: cannot read nowhere: No such file or directory\n");
  said = run("small/config.json");
  EXPECT_EQ(said.exit, 1);
  EXPECT_EQ(said.err,
            "small/config.json: error E0571: it is the model's config, not its weights\n"
            "   hint: name the folder: small\n");
  EXPECT_EQ(says("run llama-3.2-1b --decode --prompt-ids abc").err,
            "error E0901: cannot read abc: No such file or directory\n"
            "   hint: ids are numbers: --prompt-ids 1,2,3; or name a file with a prompt a line\n");
  auto other = config();
  other["vocab_size"] = 192;
  put_model("other", other, tensors());
  said = run("other");
  EXPECT_EQ(said.exit, 1);
  EXPECT_EQ(said.err,
            "other/config.json: error E0572: the weights are of another model than small\n"
            "   vocabulary: 128 of small, 192 here\n"
            "   hint: name this file in place of small\n");
  auto missing = tensors();
  missing.pop_back();
  put_model("missing", config(), missing);
  EXPECT_EQ(run("missing").err,
            "missing: error E0572: 1 of 11 tensors are missing: model.layers.0.mlp.down_proj.weight\n"
            "   hint: see that the weights are those of this config.json\n");
  auto tied = tensors();
  tied.push_back(counting_tensor("lm_head.weight", "BF16", {128, 64}, 2));
  put_model("tied", config(), tied);
  EXPECT_EQ(run("tied").exit, 0);
  auto apart = config();
  apart["tie_word_embeddings"] = false;
  put_model("apart", apart, tensors());
  EXPECT_THAT(says("run ./apart/config.json --decode --prompt-ids 1 --weights apart --new-tokens 4").err,
              HasSubstr("1 of 12 tensors are missing: lm_head.weight"));
  fs::resize_file(folder / "small/model.safetensors", 5000);
  EXPECT_THAT(run("small").err, HasSubstr("small/model.safetensors: error E0570: the file ends early"));
}

/// Biases and norms that the model has must be there, in their shapes, and no others.
TEST_F(Decode, BiasesAndNormsAreTheModels) {
  put_companion();
  auto const said_of = [&](std::string const& family, std::vector<std::pair<std::string, int>> const& more,
                           Json const& members = Json::object()) {
    auto all = tensors();
    for (auto const& [name, size] : more)
      all.push_back(counting_tensor("model.layers.0.self_attn." + name, "BF16", {size}, 2));
    auto of_family = config();
    of_family["model_type"] = family, of_family["head_dim"] = 64;
    of_family.update(members);
    put_model("m", of_family, all);
    auto const said = says("run ./m/config.json --decode --prompt-ids 1 --new-tokens 4 --weights m");
    EXPECT_EQ(said.exit, said.err.find("error") == std::string::npos ? 0 : 1);
    return said.err;
  };
  using testing::Not;
  std::vector<std::pair<std::string, int>> const biases{
      {"q_proj.bias", 64}, {"k_proj.bias", 64}, {"v_proj.bias", 64}},
      norms{{"q_norm.weight", 64}, {"k_norm.weight", 64}};
  EXPECT_THAT(said_of("qwen2", biases), Not(HasSubstr("error")));
  EXPECT_THAT(said_of("qwen3", norms), Not(HasSubstr("error")));
  EXPECT_EQ(said_of("qwen2", {}),
            "m: error E0572: 3 of 14 tensors are missing: model.layers.0.self_attn.q_proj.bias, "
            "model.layers.0.self_attn.k_proj.bias, model.layers.0.self_attn.v_proj.bias\n"
            "   hint: see that the weights are those of this config.json\n");
  EXPECT_THAT(said_of("qwen3", {norms[1]}),
              HasSubstr("1 of 13 tensors are missing: model.layers.0.self_attn.q_norm.weight"));
  auto wrong = biases;
  wrong[1].second = 128;
  EXPECT_EQ(
      said_of("qwen2", wrong),
      "m/model.safetensors: error E0572: model.layers.0.self_attn.k_proj.bias is [128] of BF16, and the "
      "model's is [64] of BF16\n"
      "   hint: see that the weights are those of this config.json\n");
  auto norm_of_all_heads = norms;
  norm_of_all_heads[0].second = 128;
  EXPECT_THAT(said_of("qwen3", norm_of_all_heads), HasSubstr("q_norm.weight is [128] of BF16"));
  EXPECT_EQ(said_of("llama", biases),
            "m: error E0572: products have biases: model.layers.0.self_attn.k_proj.bias, "
            "model.layers.0.self_attn.q_proj.bias, model.layers.0.self_attn.v_proj.bias\n"
            "   hint: a model of this config.json has none: see that the weights are those of it\n");
  EXPECT_THAT(said_of("llama", norms), HasSubstr("nobody reads model.layers.0.self_attn.k_norm.weight"));
  auto of_llama = biases;
  of_llama.push_back({"o_proj.bias", 64});
  EXPECT_THAT(said_of("llama", of_llama, {{"attention_bias", true}}), Not(HasSubstr("error")));
  EXPECT_THAT(said_of("qwen2", of_llama), HasSubstr("products have biases: model.layers.0.self_attn.o_proj"));
  EXPECT_EQ(
      said_of("qwen3", norms, {{"mlp_bias", true}}),
      "./m/config.json:6: error E0566: an MLP with gates and biases\n"
      "   hint: there is no kernel that adds them; attention may have some, and an MLP without gates\n");
}

/// GPT-2's names with their prefix and without, masks that old files have, and positions that end.
TEST_F(Decode, GPT2sWeights) {
  put_companion();
  Json const config = {{"model_type", "gpt2"}, {"n_embd", 64},      {"n_head", 1},
                       {"n_layer", 1},         {"n_positions", 16}, {"vocab_size", 67}};
  auto const tensors = [](std::string const& prefix) {
    std::vector<support::WrittenTensor> all;
    auto const add = [&](char const* name, std::vector<std::int64_t> const& shape) {
      all.push_back(counting_tensor(prefix + name, "F32", shape, 4));
    };
    add("wte.weight", {67, 64}), add("wpe.weight", {16, 64});
    for (auto const* name :
         {"ln_f.weight", "ln_f.bias", "h.0.ln_1.weight", "h.0.ln_1.bias", "h.0.ln_2.weight", "h.0.ln_2.bias",
          "h.0.attn.c_proj.bias", "h.0.mlp.c_proj.bias"})
      add(name, {64});
    add("h.0.attn.c_attn.weight", {64, 192}), add("h.0.attn.c_attn.bias", {192});
    add("h.0.attn.c_proj.weight", {64, 64});
    add("h.0.mlp.c_fc.weight", {64, 256}), add("h.0.mlp.c_fc.bias", {256});
    add("h.0.mlp.c_proj.weight", {256, 64});
    add("h.0.attn.bias", {1, 1, 16, 16}), add("h.0.attn.masked_bias", {1});
    return all;
  };
  auto const said_of = [&](std::vector<support::WrittenTensor> const& all, std::string const& tokens) {
    put_model("m", config, all);
    return says("run ./m/config.json --decode --prompt-ids 1 --weights m --new-tokens " + tokens).err;
  };
  EXPECT_THAT(said_of(tensors(""), "4"), testing::Not(HasSubstr("error")));
  EXPECT_THAT(said_of(tensors("transformer."), "15"), testing::Not(HasSubstr("error")));
  auto missing = tensors("");
  missing.pop_back(), missing.pop_back(), missing.pop_back();
  EXPECT_EQ(said_of(missing, "4"),
            "m: error E0572: 1 of 16 tensors are missing: h.0.mlp.c_proj.weight\n"
            "   hint: see that the weights are those of this config.json\n");
  auto straight = tensors("");
  straight[10] = counting_tensor("h.0.attn.c_attn.weight", "F32", {192, 64}, 4);
  EXPECT_EQ(
      said_of(straight, "4"),
      "m/model.safetensors: error E0572: h.0.attn.c_attn.weight is [192, 64] of F32, and the model's is "
      "[64, 192] of F32\n"
      "   hint: see that the weights are those of this config.json\n");
  EXPECT_EQ(said_of(tensors(""), "16"),
            "error E0566: a prompt of 1 and 16 new tokens, and m takes sequences of 16\n   hint: ask for "
            "--new-tokens 15 at most\n");
}

TEST_F(Decode, MoreTokensThanTheModelWasMadeForAreAWarning) {
  put_companion();
  put_model("small", config(), tensors());
  auto const said = says("run ./small/config.json --decode --prompt-ids 1,2 --new-tokens 63");
  EXPECT_EQ(said.exit, 0);
  EXPECT_THAT(said.err, testing::StartsWith("warning E0566: 65 tokens, and small was made for 64\n"));
}

TEST_F(Decode, WhatTheCompanionSaysCounts) {
  auto const missing = says("run llama-3.2-1b --decode --prompt-ids 1");
  EXPECT_EQ(missing.exit, 3);
  EXPECT_THAT(
      missing.err,
      testing::StartsWith(
          "error E0936: tessera run --decode needs tessera-decode, which is not beside this program"));
  EXPECT_THAT(missing.err,
              HasSubstr("build it where there is nvcc: cmake --build <build> --target tessera-decode"));
  put_companion("echo 'error E0520: ...' >&2; exit 1\n");
  auto const stalled = says("run llama-3.2-1b --decode --prompt-ids 1");
  EXPECT_EQ(stalled.exit, 1);
  EXPECT_EQ(stalled.out, "");
  EXPECT_EQ(stalled.err, "error E0520: ...\n");
  put_companion();
  write_bytes(folder / "found.json", "{}");
  auto const broken = says("run llama-3.2-1b --decode --prompt-ids 1");
  EXPECT_EQ(broken.exit, 1);
  EXPECT_THAT(broken.err, HasSubstr("error E0603"));
}

TEST_F(Decode, PagesAreHandedOver) {
  put_companion();
  auto const said = says("run llama-3.2-1b --decode --prompt-ids 1,2,3 --new-tokens 2 --page-size 32");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_EQ(word_behind("--page-size"), "32");
  EXPECT_THAT(word_behind("--command"), HasSubstr("--page-size 32"));
  for (auto const* size : {"8", "-16", "16400"}) {
    auto const no = says(std::string("run llama-3.2-1b --decode --prompt-ids 1 --page-size=") + size);
    EXPECT_NE(no.exit, 0) << size;
    EXPECT_THAT(no.err, HasSubstr(std::string("error E0566: pages of ") + size + " positions"));
  }
  // Whole pages count: 64 sequences of one page of 16384 positions are more than the memory.
  std::string prompts;
  for (int i = 0; i < 64; ++i) prompts += "1\n";
  write_bytes(folder / "many.txt", prompts);
  EXPECT_EQ(says("run llama-3-8b --decode --prompt-ids many.txt --new-tokens 2").exit, 0);
  EXPECT_THAT(says("run llama-3-8b --decode --prompt-ids many.txt --new-tokens 2 --page-size 16384").err,
              HasSubstr("GB of device memory are needed"));
}

TEST_F(Decode, AShareIsHandedOver) {
  put_companion();
  auto const said = says("run llama-65b --decode --tp 8 --prompt-ids 1,2,3 --new-tokens 2");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_EQ(word_behind("--tp"), "8");
  EXPECT_EQ(word_behind("--name"), "llama-65b");
  EXPECT_EQ(word_behind("--command"),
            "tessera run llama-65b --decode --prompt-ids 1,2,3 --tp 8 --new-tokens 2");
  EXPECT_EQ(says("run gpt-3-145b --decode --tp 8 --prompt-ids 1").exit, 0);
  EXPECT_EQ(says("run llama-3.2-1b --decode --tp 1 --prompt-ids 1").exit, 0);
  EXPECT_EQ(word_behind("--tp"), "");
  put_model("small", config(), tensors());
  auto const no = says("run ./small/config.json --decode --tp 2 --prompt-ids 1 --weights small");
  EXPECT_EQ(no.exit, 2);
  EXPECT_EQ(
      no.err,
      "error E0906: --tp is for random weights: a share's tokens mean nothing, since sums over GPUs are "
      "not done\n"
      "   hint: leave --weights out to measure a share, or --tp to generate with the whole model\n");
  EXPECT_THAT(says("run llama-65b --decode --tp 7 --prompt-ids 1").err,
              HasSubstr("error E0215: 64 attention heads of llama-65b cannot be divided among 7 GPUs"));
  EXPECT_THAT(says("run llama-65b --decode --tp 0 --prompt-ids 1").err,
              HasSubstr("error E0216: tensor-parallel degree must be between 1 and 65536, not 0"));
}

TEST_F(Decode, HowAStepIsComputedIsHandedOver) {
  put_companion();
  EXPECT_EQ(says("run llama-3.2-1b --decode --prompt-ids 1 --new-tokens 2").exit, 0);
  EXPECT_EQ(word_behind("--step-by"), "");
  auto const said = says("run llama-3.2-1b --decode --prompt-ids 1 --new-tokens 2 --step-by launches");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_EQ(word_behind("--step-by"), "launches");
  EXPECT_THAT(word_behind("--command"), HasSubstr("--step-by launches"));
  auto const no = says("run llama-3.2-1b --decode --prompt-ids 1 --step-by quickly");
  EXPECT_NE(no.exit, 0);
  EXPECT_THAT(no.err, HasSubstr("--step-by"));
  EXPECT_THAT(says("run llama-3.2-1b --step-by launches").err,
              HasSubstr("error E0906: --step-by is for generating tokens"));
}

TEST_F(Decode, StepsByLaunchesHaveNoTimeline) {
  put_companion();
  std::string prompts;
  for (int i = 0; i < 17; ++i) prompts += "1\n";
  write_bytes(folder / "many.txt", prompts);
  auto const said = says("run llama-3.2-1b --decode --prompt-ids many.txt --new-tokens 2 --timeline t.json");
  EXPECT_EQ(said.exit, 2);
  EXPECT_THAT(said.err, HasSubstr("error E0906: a timeline is of persistent launches, and steps of 17 "
                                  "sequences are a launch for each operator\n   hint: add --step-by "
                                  "persistent"));
  auto const asked = says("run llama-3.2-1b --decode --prompt-ids 1 --html t.html --step-by launches");
  EXPECT_EQ(asked.exit, 2);
  EXPECT_THAT(asked.err, HasSubstr("hint: say --step-by persistent instead"));
}

TEST_F(Decode, SaysWhatOperatorsTakeAlone) {
  put_companion();
  auto found = Json::parse(read_text(folder / "found.json"));
  found.erase("operators");
  found["operators_alone"] = {{{"name", "norm"}, {"us", 1.25}}, {{"name", "qkv"}, {"us", 7.5}}};
  write_bytes(folder / "found.json", found.dump());
  auto const said = says("run llama-3.2-1b --decode --prompt-ids 1,2,3 --new-tokens 2");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_THAT(said.err, HasSubstr("a layer of 2, us:     alone\n"
                                  "  norm                 1.25\n"
                                  "  qkv                  7.50\n"
                                  "                       8.75\n"));
}

TEST_F(Decode, ARunHasAsManySequencesAsPrompts) {
  auto const said = says("run llama-3.2-1b --decode --sequences 16");
  EXPECT_EQ(said.exit, 2) << said.err;
  EXPECT_THAT(said.err, HasSubstr("error E0906: --sequences is for --decode --predict"));
  EXPECT_THAT(said.err, HasSubstr("give a prompt for each sequence"));
}

}  // namespace
}  // namespace tessera
