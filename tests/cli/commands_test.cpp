// SPDX-License-Identifier: Apache-2.0
// Every subcommand's good answers: what is on which stream, that JSON is JSON, and the exit code.
#include <gmock/gmock.h>

#include <fstream>
#include <set>
#include <sstream>

#include "cli/program.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Commands : CommandLine {
  std::string text(std::string const& name) { return read_text(folder / name); }
  void put(std::string const& name, std::string const& content) const {
    std::ofstream(folder / name) << content;
  }
};

TEST_F(Commands, PlanExplainsItself) {
  auto const said = good(k_small_plan);
  EXPECT_THAT(said.out, HasSubstr("predicted"));
  EXPECT_THAT(said.out, HasSubstr("not taken"));
}

TEST_F(Commands, ManyIterationsSayThatTheyTakeTime) {
  put("loop.json",
      R"({"schema": "tessera.workload/1", "name": "steps", "dependences": [], "loop": {},
          "stages": [{"name": "step", "grid": {"x": 1}, "output": "u", "operands": []}]})");
  EXPECT_THAT(good("plan loop.json --machine v100 --mechanism stream_order --iterations 513").err,
              HasSubstr("513 stages; to plan them takes time that grows"));
}

TEST_F(Commands, PlanWritesEveryKindOfFile) {
  auto const said = good(std::string(k_small_plan) +
                         " -o plan.json --header plan.cuh --html report.html --trace trace.json --csv run.csv"
                         " --timeline run.json --dot stages.dot");
  for (auto const* name :
       {"plan.json", "plan.cuh", "report.html", "trace.json", "run.csv", "run.json", "stages.dot"})
    EXPECT_THAT(said.err, HasSubstr(std::string("wrote ") + name + "\n"));
  EXPECT_EQ(nlohmann::json::parse(text("plan.json"))["schema"], "tessera.plan/2");
  EXPECT_EQ(nlohmann::json::parse(text("run.json"))["schema"], "tessera.timeline/1");
  EXPECT_TRUE(nlohmann::json::parse(text("trace.json"))["traceEvents"].is_array());
  EXPECT_THAT(text("plan.cuh"), HasSubstr("tessera/sync.cuh"));
  EXPECT_THAT(text("report.html"), HasSubstr("</html>"));
  EXPECT_THAT(text("run.csv"), HasSubstr("started_ns"));
  EXPECT_THAT(text("stages.dot"), testing::StartsWith("digraph"));
}

TEST_F(Commands, WhyNotNamesWhatStopsTheSecondKernel) {
  auto const answer = good("why-not --first 384,168,221184 --second 384,168,221184 --json").json();
  EXPECT_EQ(answer["schema"], "tessera.why_not/1");
  EXPECT_EQ(answer["second_beside"], 0);
  EXPECT_EQ(answer["stopped_by"], "shared memory");
}

TEST_F(Commands, WhyNotTakesStagesOfAPlan) {
  good(std::string(k_small_plan) + " -o plan.json");
  auto const stages = nlohmann::json::parse(text("plan.json"))["pipeline"]["stages"];
  std::string const first = stages[0]["name"];
  std::string const second = stages[1]["name"];
  auto const said = good("why-not plan.json --first " + first + " --second " + second + " --machine v100");
  EXPECT_THAT(said.out, HasSubstr("of " + first + ", and "));
  auto const wrong = run("why-not plan.json --first " + first + " --second nobody");
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.err, HasSubstr("the plan has no stage \"nobody\""));
}

TEST_F(Commands, AFileOnStandardOutputIsAloneThere) {
  EXPECT_EQ(good(std::string(k_small_plan) + " -o -").json()["schema"], "tessera.plan/2");
  EXPECT_THAT(good(std::string(k_small_plan) + " --header -").out, testing::StartsWith("// SPDX"));
  good(std::string(k_small_plan) + " -o plan.json");
  EXPECT_EQ(good("simulate plan.json -o -").json()["schema"], "tessera.timeline/1");
}

TEST_F(Commands, JsonIsJsonWhenTheCommandLineIsWrongToo) {
  for (auto const* wrong : {"plan --json --tokns 3", "--json", "plan --tokens --json"}) {
    auto const said = run(wrong);
    EXPECT_EQ(said.exit, 2) << wrong;
    EXPECT_EQ(said.json()["diagnostics"][0]["code"], "E0908") << wrong;
  }
}

TEST_F(Commands, WhatComesFromStandardInputIsCalledSo) {
  for (auto const* command : {"check", "simulate", "explain"})
    EXPECT_THAT(run(std::string(command) + " - </dev/null").err,
                testing::StartsWith("standard input:1: error E0904"))
        << command;
}

TEST_F(Commands, AFullStandardOutputIsSaid) {
  auto const said = run(std::string(k_small_plan) + " --json >/dev/full");
  EXPECT_EQ(said.exit, 3);
  EXPECT_THAT(said.err, HasSubstr("error E0902: cannot write standard output: No space left on device"));
}

TEST_F(Commands, AFileNeedsNoNameThatLooksLikeOne) {
  good("workloads two-gemms >mine && '" TESSERA_BINARY "' machines v100 >gpu");
  EXPECT_THAT(good("plan mine --machine gpu").out, HasSubstr("predicted"));
}

TEST_F(Commands, PlanOfSeveralSizesIsATable) {
  auto const said =
      good("plan llama-3.2-1b --tokens 1,64 --tp 8 --machine v100 --mechanism stream_order -o plan.json");
  EXPECT_THAT(said.out, HasSubstr("bound by"));
  EXPECT_EQ(std::count(said.out.begin(), said.out.end(), '\n'), 5) << said.out;
  EXPECT_THAT(said.err, HasSubstr("wrote plan-1.json\nwrote plan-64.json\n"));
}

TEST_F(Commands, JsonIsAllThatStandardOutputCarries) {
  good(std::string(k_small_plan) + " -o plan.json --timeline run.json");
  EXPECT_EQ(good(std::string(k_small_plan) + " --json").json()["schema"], "tessera.plan/2");
  EXPECT_EQ(good("--json plan llama-3.2-1b --tokens 1,2 --tp 8 --machine v100 --mechanism stream_order")
                .json()["plans"]
                .size(),
            2u);
  EXPECT_EQ(good("check llama-3.2-1b --json").json()["schema"], "tessera.check/1");
  EXPECT_EQ(good("check llama-3.2-1b --tokens 1,2,3 --json").json()["checks"].size(), 3u);
  EXPECT_EQ(good("simulate plan.json --json").json()["schema"], "tessera.timeline/1");
  EXPECT_EQ(good("generate plan.json --json").json()["schema"], "tessera.generated/1");
  EXPECT_EQ(good("explain plan.json --json").json()["schema"], "tessera.plan/2");
  EXPECT_EQ(good("explain run.json --json").json()["schema"], "tessera.timeline/1");
  EXPECT_EQ(good("explain E0901 --json").json()["code"], "E0901");
  EXPECT_GT(good("explain --json").json()["codes"].size(), 20u);
  EXPECT_EQ(good("diff plan.json run.json --json").json()["end_change_ps"], 0);
  EXPECT_EQ(good("doctor --json").json()["can_plan"], true);
  EXPECT_GE(good("workloads --json").json()["workloads"].size(), 8u);
  EXPECT_GE(good("machines --json").json()["machines"].size(), 3u);
}

TEST_F(Commands, RefusalsAreJsonToo) {
  auto const said = run("simulate nowhere.json --json");
  EXPECT_EQ(said.exit, 3);
  EXPECT_EQ(said.json()["diagnostics"][0]["code"], "E0901");
  EXPECT_THAT(said.err, HasSubstr("error E0901"));
}

TEST_F(Commands, TheSameInputGivesTheSameBytes) {
  EXPECT_EQ(good(std::string(k_small_plan) + " --json").out, good(std::string(k_small_plan) + " --json").out);
}

TEST_F(Commands, CheckCountsDependences) {
  auto const said = good("check llama-65b --block attention --tokens 256 --tp 8");
  EXPECT_THAT(said.out, HasSubstr("tile pairs"));
  EXPECT_EQ(said.err, "");
}

// Ten megabytes, with a line for each pair of iterations.
TEST_F(Commands, CheckSaysOnceWhatHoldsOfManyIterations) {
  auto const said = good("check jacobi --iterations 200");
  EXPECT_LT(said.out.size(), 32768u);
  EXPECT_THAT(said.out,
              HasSubstr("step_1 overwrites u#1, which step_0 uses: step_1(0, 0) does not wait for"));
  EXPECT_THAT(said.out, testing::ContainsRegex("the same for [0-9]+ other\\s+pairs of\\s+later iterations"));
}

TEST_F(Commands, SimulateDrawsAndExplores) {
  good("plan llama-3.2-1b --tokens 1 --tp 16 --machine v100 --mechanism stream_order -o plan.json");
  auto const said = good("simulate plan.json --draw --html page.html --csv run.csv -q");
  EXPECT_THAT(said.out, HasSubstr("SM 0"));
  EXPECT_EQ(said.err, "");
  EXPECT_THAT(text("page.html"), HasSubstr("</html>"));
  EXPECT_THAT(run("simulate plan.json --explore 10").out, HasSubstr("states"));
}

TEST_F(Commands, PlansGoThroughAPipe) {
  auto const said = good(std::string(k_small_plan) + " --json | '" TESSERA_BINARY "' simulate - -q");
  EXPECT_THAT(said.out, HasSubstr("simulated"));
}

TEST_F(Commands, GenerateWritesTheSameHeaderAsPlan) {
  good(std::string(k_small_plan) + " -o plan.json --header a.cuh");
  good("generate plan.json -o b.cuh");
  EXPECT_EQ(text("a.cuh"), text("b.cuh"));
  EXPECT_EQ(good("generate plan.json").out, text("a.cuh"));
}

TEST_F(Commands, ExplainPrintsThePageOfACode) {
  auto const page = read_text(std::string(TESSERA_SOURCE_DIR) + "/docs/diagnostics/E0901.md");
  EXPECT_EQ(good("explain E0901").out, page);
  EXPECT_EQ(good("explain e0901").out, page);
  EXPECT_THAT(good("explain").out, HasSubstr("E0901  a file cannot be read\n"));
}

TEST_F(Commands, AGatedMlpIsPlannedAsItsKernelsComputeIt) {
  // SwiGLU behind the first product: it stores half of what it computes, and the second loads no more.
  auto const plan = good("plan llama-65b --tokens 64 --tp 8 --machine a100 --json").json();
  auto const& stages = plan["pipeline"]["stages"];
  EXPECT_EQ(stages[0]["activation"], "swiglu");
  EXPECT_FALSE(stages[1].contains("activation"));
  EXPECT_EQ(stages[1]["operands"][0]["unique_bytes"], 64 * 2752 * 2);
  auto const stored = stages[0]["store_bytes_per_block"].get<double>() *
                      stages[0]["grid"]["x"].get<double>() * stages[0]["grid"]["y"].get<double>();
  EXPECT_EQ(stored, 64 * 2752 * 2);
}

TEST_F(Commands, DiffOfARunWithItselfIsNothing) {
  good(std::string(k_small_plan) + " -o plan.json --timeline run.json");
  EXPECT_THAT(good("diff run.json plan.json").out, HasSubstr("+0.00 us, +0.0 %"));
}

TEST_F(Commands, ListingsNameWhatIsShipped) {
  auto const workloads = good("workloads").out;
  for (auto const* name : {"gpt-3-145b", "llama-65b", "llama-3-8b", "llama-3-70b", "llama-3.2-1b",
                           "qwen2.5-72b", "qwen2.5-0.5b", "qwen3-8b", "resnet-38", "vgg-19"})
    EXPECT_THAT(workloads, HasSubstr(name));
  auto const machines = good("machines").out;
  for (auto const* name : {"v100", "a100", "h200"}) EXPECT_THAT(machines, HasSubstr(name));
  EXPECT_EQ(good("workloads llama-65b").out,
            read_text(std::string(TESSERA_SOURCE_DIR) + "/workloads/llama-65b.json"));
}

TEST_F(Commands, APrintedMachineCanBeUsedAsAFile) {
  good("machines v100 > mine.json");
  EXPECT_EQ(good("plan llama-3.2-1b --machine ./mine.json --mechanism stream_order --json").out,
            good("plan llama-3.2-1b --machine v100 --mechanism stream_order --json").out);
}

TEST_F(Commands, DoctorIsContentWithoutCuda) {
  auto const said = good("doctor");
  EXPECT_THAT(said.out, HasSubstr("CUDA toolkit"));
  EXPECT_THAT(said.out, HasSubstr("GPU"));
  // Whether kernels can run here decides the exit code of --gpu, and nothing else.
  bool const can_run = good("doctor --json").json()["can_run_on_gpu"];
  EXPECT_EQ(run("doctor --gpu").exit, can_run ? 0 : 3);
}

TEST_F(Commands, DoctorReadsThePagesOfASourceTree) {
  EXPECT_THAT(run("doctor --sources .").err, HasSubstr("has no folder docs"));
  std::filesystem::create_directory(folder / "docs");
  good("workloads > README.md");
  EXPECT_THAT(good("doctor --sources .").out, HasSubstr("1 pages, 0 records"));
  put("docs/page.md", "## Hops\n\nA hop takes 408 ns.\n");
  auto const said = run("doctor --sources .");
  EXPECT_EQ(said.exit, 3);
  EXPECT_THAT(said.err, HasSubstr("docs/page.md:3: warning E0938"));
  std::ofstream(folder / "README.md") << "# A\n4 us (results/h200/"
                                         "banana.json)\n";
  EXPECT_THAT(run("doctor --sources .").err,
              HasSubstr("README.md:2: warning E0938: there is no record results/h200/"
                        "banana.json"));
}

TEST_F(Commands, VersionAndHelpAreData) {
  EXPECT_THAT(good("--version").out, testing::MatchesRegex("tessera [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  auto const help = good("--help");
  EXPECT_THAT(help.out, HasSubstr("Exit codes"));
  EXPECT_EQ(help.err, "");
}

TEST_F(Commands, FilesAreWrittenWholeOrNotAtAll) {
  good(std::string("workloads > before.json"));
  auto const said = run(std::string(k_small_plan) + " -o plan.json --html missing/report.html");
  EXPECT_EQ(said.exit, 3);
  EXPECT_THAT(said.err, HasSubstr("mkdir -p missing"));
  for (auto const& file : std::filesystem::directory_iterator(folder.path()))
    EXPECT_THAT(file.path().string(), Not(HasSubstr(".tmp")));
}

TEST_F(Commands, StudiesAreSimulatedAndNamedWrongAreRefused) {
  auto const cusync = run("simulate --study cusync --csv tables.csv");
  EXPECT_EQ(cusync.exit, 0) << cusync.err;
  EXPECT_THAT(cusync.out, HasSubstr("Table IV"));
  auto const t3 = run(
      "simulate --study t3 --quick --model llama-3.2-1b --tokens 2048 --tp 8 --html t3.html --csv t3.csv");
  EXPECT_EQ(t3.exit, 0) << t3.err;
  EXPECT_THAT(t3.out, HasSubstr("T3-MCA, geometric mean"));
  EXPECT_THAT(text("t3.csv"), HasSubstr("headlines,0,row,"));
  EXPECT_THAT(text("t3.csv"), HasSubstr("headlines,0,verdict,"));
  std::istringstream rows(text("t3.csv"));
  std::set<std::string> keys;
  for (std::string row; std::getline(rows, row);) {
    auto const column = row.find(',', row.find(',') + 1);
    auto const end = row.find(',', column + 1);
    EXPECT_GT(end, column + 1) << "a column without a name: " << row;
    if (row.rfind("headlines,", 0) == 0) {
      EXPECT_TRUE(keys.insert(row.substr(0, end)).second) << row;
    }
  }
  EXPECT_EQ(run("simulate").exit, 2);
  EXPECT_THAT(run("simulate").err, HasSubstr("E0913"));
  EXPECT_THAT(run("simulate --study t3 --model resnet-38").err, HasSubstr("E0914"));
  EXPECT_THAT(run("simulate --study t3 --machine a100").err, HasSubstr("E0541"));
}

TEST_F(Commands, ALoopWithRolesHasARowForEachBoundary) {
  std::string const roles = "simulate --roles '" TESSERA_SOURCE_DIR "/bench/few_tokens/mixtral_chain.json' ";
  auto const said = run(roles + "--iterations 8 --csv roles.csv --html roles.html");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("Boundaries"));
  EXPECT_THAT(text("roles.csv"), HasSubstr("boundaries"));
  EXPECT_THAT(text("roles.html"), HasSubstr("</html>"));
  auto const table = [&](std::string const& arguments, std::size_t number) {
    auto const answer = good(roles + "--json " + arguments).json();
    EXPECT_EQ(answer["schema"], "tessera.study/1");
    return answer["tables"][number];
  };
  EXPECT_EQ(table("--iterations 8", 1)["rows"].size(), 2u);
  EXPECT_EQ(table("", 1)["rows"].size(), 1u) << "an iteration has one boundary within";
  EXPECT_EQ(table("", 0)["rows"][0][3], "") << "nothing is behind the first iteration";
  EXPECT_GT(table("--iterations 8", 0)["rows"][0][3], 1);
  EXPECT_THAT(run(roles + "--set dram_gbps=1e-9").err, HasSubstr("dram_gbps is"));
  EXPECT_EQ(table("--set turn_ns=0", 3)["id"], "figures");
  EXPECT_NE(table("--set turn_ns=10000", 0)["rows"], table("", 0)["rows"]);
  EXPECT_THAT(run(roles + "--set turn_ns=fast").err, HasSubstr("E0506"));
  EXPECT_THAT(run(roles + "--study t3").err, HasSubstr("E0913"));
  EXPECT_THAT(run(roles + "--draw").err, HasSubstr("E0916"));
  EXPECT_THAT(run("simulate --roles nowhere.json").err, HasSubstr("E0901"));
  EXPECT_EQ(run("simulate --iterations 8").exit, 2);
}

TEST_F(Commands, ARunOfTheStudyIsATimelineLikeAnyOther) {
  std::string const one = "simulate --study t3 --model llama-3.2-1b --tokens 2048 --tp 8 --layer FC-2 ";
  auto const said =
      good(one + "--config t3 -o t3.json --trace trace.json --csv run.csv --html page.html --draw");
  EXPECT_THAT(said.out, HasSubstr("gemm: where a slot's time went"));
  EXPECT_THAT(said.out, HasSubstr("link to GPU 7"));
  EXPECT_EQ(nlohmann::json::parse(text("t3.json"))["schema"], "tessera.timeline/1");
  EXPECT_THAT(text("trace.json"), HasSubstr("DRAM GB/s"));
  EXPECT_THAT(text("run.csv"), HasSubstr("copy engine"));
  EXPECT_THAT(text("page.html"), HasSubstr("collective writes"));
  EXPECT_EQ(good(one + "--config t3 --json").out, text("t3.json"));
  for (std::string const config : {"gemm", "t3-mca", "reduce_scatter", "all_gather", "all_gather_gemm"})
    good(one + "--config " + config + " -o " + config + ".json");
  std::set<std::string> titles;
  for (std::string const config : {"gemm", "t3", "t3-mca", "reduce_scatter", "all_gather", "all_gather_gemm"})
    titles.insert(nlohmann::json::parse(text(config + ".json"))["mechanism"].get<std::string>());
  EXPECT_THAT(titles, testing::UnorderedElementsAre("GEMM alone", "T3", "T3-MCA", "reduce_scatter alone",
                                                    "all_gather alone", "all_gather_gemm"));
  auto const moved = good("diff t3.json t3-mca.json").out;
  EXPECT_THAT(moved, HasSubstr("T3 (simulated)"));
  EXPECT_THAT(moved, HasSubstr("T3-MCA (simulated)"));
  EXPECT_THAT(moved, HasSubstr("gemm: between two main loops"));
  EXPECT_THAT(good("diff gemm.json t3.json").out, HasSubstr("only after"));
  EXPECT_THAT(good("diff gemm.json all_gather.json").out, HasSubstr("only before"));
  auto const change = good("diff t3.json t3-mca.json --json").json();
  EXPECT_EQ(change["before"]["tracks"].size(), nlohmann::json::parse(text("t3.json"))["tracks"].size());
  EXPECT_GT(change["after"]["stages"][0]["slot_time"][1]["us"], 0);
}

TEST_F(Commands, TheStudyReadsTheModelThatItIsGiven) {
  auto const sizes = std::string(R"("hidden_size":1024,"num_attention_heads":16,"num_key_value_heads":)");
  put("wide.json", R"({"model_type":"mistral","intermediate_size":4096,)" + sizes + "16}");
  put("narrow.json", R"({"model_type":"mistral","intermediate_size":1024,)" + sizes + "16}");
  put("grouped.json", R"({"model_type":"mistral","intermediate_size":4096,)" + sizes + "8}");
  put("experts.json",
      R"({"model_type":"mixtral","num_local_experts":8,"num_experts_per_tok":2,"intermediate_size":4096,)" +
          sizes + "8}");
  put("banana.json", R"({"model_type":"banana","hidden_size":1024})");
  auto const on = [&](std::string const& file) {
    return run("simulate --study t3 --collective reduce_scatter --tokens 2048 --tp 8 --model ./" + file);
  };
  auto const wide = on("wide.json");
  EXPECT_EQ(wide.exit, 0) << wide.err;
  auto const without_name = [](std::string text) {
    for (std::size_t at = 0; (at = text.find("./", at)) != std::string::npos;)
      text.erase(at, text.find(' ', at) - at);
    return text;
  };
  EXPECT_NE(without_name(wide.out), without_name(on("narrow.json").out));
  EXPECT_NE(without_name(wide.out), without_name(on("grouped.json").out));
  EXPECT_THAT(on("experts.json").err, HasSubstr("E0214"));
  EXPECT_THAT(on("banana.json").err, HasSubstr("E0213"));
  EXPECT_THAT(
      run("simulate --study t3 --collective reduce_scatter --tokens 2048 --tp 3 --model ./wide.json").err,
      HasSubstr("E0215"));
}

TEST_F(Commands, CollectivesAreStudiedOnTheirOwn) {
  auto const runs =
      run("simulate --study t3 --collective all_to_all --collective all_reduce --model llama-3.2-1b --tokens "
          "2048 "
          "--tp 8");
  EXPECT_EQ(runs.exit, 0) << runs.err;
  EXPECT_THAT(runs.out, HasSubstr("all_to_all"));
  EXPECT_THAT(runs.out, HasSubstr("all_reduce"));
  EXPECT_THAT(runs.out, testing::Not(HasSubstr("reduce_scatter  ")));
  auto const of_input =
      std::string("simulate --study t3 --collective all_gather_gemm --model llama-3.2-1b --tp 8");
  EXPECT_THAT(good(of_input + " --tokens 2048").out, HasSubstr("all_gather_gemm  ring"));
  EXPECT_THAT(run(of_input + " --tokens 1024").err, HasSubstr("E0543: 4 rows of tiles do not make 8 equal"));
  EXPECT_EQ(run("simulate --study t3 --collective broadcast").exit, 2);
  EXPECT_EQ(run("simulate --collective all_reduce").exit, 2) << "a collective of a study";
}

TEST_F(Commands, SplitsAreStudiedForFewTokens) {
  std::string const of = "simulate --study t3 --model llama-3.2-1b --tp 8 --tokens 16 --splits 2";
  auto const runs = good(of + " --splits 4 --json").json();
  EXPECT_EQ(runs["tables"][0]["id"], "split-k");
  EXPECT_GT(runs["tables"][0]["rows"].size(), 1U);
  EXPECT_EQ(run(of + " --collective reduce_scatter").exit, 2);
  EXPECT_EQ(run("simulate --study t3 --splits 1").exit, 2);
  EXPECT_EQ(run("simulate --splits 2").exit, 2) << "splits of a study";
  EXPECT_THAT(run("simulate --study t3 --splits 64 --model T-NLG").err, HasSubstr("E0543"));
  EXPECT_THAT(run("simulate --study t3 --splits 2 --model T-NLG --tp 8 --layer OP --config t3").err,
              HasSubstr("--splits compares whole sub-layers"));
}

}  // namespace
}  // namespace tessera
