// SPDX-License-Identifier: Apache-2.0
// tessera sweep: the same rows whatever the threads, shares and interruptions.
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "cli/program.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Sweep : testing::Test {
  Folder folder;

  Said run(std::string const& arguments) { return tessera_says("sweep " + arguments, folder.path()); }
  Said good(std::string const& arguments) {
    auto said = run(arguments);
    EXPECT_EQ(said.exit, 0) << arguments << "\n" << said.err;
    return said;
  }
  std::string text(std::string const& name) { return read_text(folder / name); }
  void write(std::string const& name, std::string const& content) { std::ofstream(folder / name) << content; }
};

constexpr char const* k_chain = "llama-3.2-1b --tokens 64 --tp 8 --machine v100 ";
/// 2048 tokens on 8 GPUs, and one width: the smallest that there is.
constexpr char const* k_t3 = "--study t3 --model T-NLG --tokens 1024 --tp 8 --set hidden=512 ";

TEST_F(Sweep, PlansAChainForEveryMachine) {
  auto const table = good(std::string(k_chain) + "--set l2_gbps=1500,3000 --set sms=40,80 --json").json();
  EXPECT_EQ(table["schema"], "tessera.sweep/1");
  EXPECT_EQ(table["axes"], nlohmann::json({"l2_gbps", "sms"}));
  EXPECT_EQ(table["results"], nlohmann::json({"us", "stream_order_us", "mechanism", "plan"}));
  ASSERT_EQ(table["rows"].size(), 4U);
  EXPECT_EQ(table["rows"][1]["values"], nlohmann::json({1500, 80}));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(table["rows"][i]["point"], i + 1);
  EXPECT_GT(table["rows"][0]["results"][0], table["rows"][1]["results"][0]) << "half the SMs take longer";
}

TEST_F(Sweep, RunsTheStudysSubLayers) {
  good(std::string(k_t3) + "--set overlap.link_gbps=75,150 -o x.csv --html x.html");
  EXPECT_THAT(text("x.csv"), testing::StartsWith("sweep,points,point,inputs,hidden,overlap.link_gbps,refused,"
                                                 "ideal,ideal_most,t3,t3_most,t3_mca,t3_mca_most,"
                                                 "traffic_saved,gemm_reads_tp8\n"));
  EXPECT_THAT(text("x.html"), HasSubstr("id=\"plot-t3_mca\""));
}

TEST_F(Sweep, IsTheSameOnOneThreadAndOnFour) {
  auto const sweep = std::string(k_t3) + "--set overlap.link_gbps=75:150:25 --set raster=row,column ";
  good(sweep + "--jobs 1 -o one.csv");
  good(sweep + "--jobs 4 -o four.csv");
  EXPECT_EQ(text("one.csv"), text("four.csv"));
  EXPECT_NE(text("one.csv"), "");
}

TEST_F(Sweep, SharesMakeTheWhole) {
  auto const sweep = std::string(k_chain) + "--set sms=20:80:20 ";
  good(sweep + "-o whole.csv");
  for (auto const* i : {"1", "2", "3"}) good(sweep + "--shard " + i + "/3 -o share" + i + ".csv");
  good("--merge share3.csv share1.csv share2.csv -o all.csv");
  EXPECT_EQ(text("all.csv"), text("whole.csv"));
  good("--merge share3.csv share1.csv share2.csv -o all.json");
  good(sweep + "-o whole.json");
  EXPECT_EQ(text("all.json"), text("whole.json"));
  EXPECT_THAT(good(sweep + "-o whole.json").err, HasSubstr("4 of 4 points are in whole.json already\n"));
  EXPECT_EQ(text("all.json"), text("whole.json"));
  auto const missing = run("--merge share1.csv share3.csv -o none.csv");
  EXPECT_EQ(missing.exit, 1);
  EXPECT_THAT(missing.err, HasSubstr("error E0924: point 2 of 4 is in none of the files"));
  auto const twice = run("--merge share1.csv share2.csv share3.csv share2.csv");
  EXPECT_THAT(twice.err, HasSubstr("error E0924: point 2 of share2.csv is also in share2.csv"));
  good(std::string(k_chain) + "--set sms=20:100:20 --shard 1/3 -o other.csv");
  EXPECT_THAT(run("--merge other.csv share2.csv share3.csv").err, HasSubstr("of different sweeps"));
  EXPECT_FALSE(std::filesystem::exists(folder / "none.csv"));
}

TEST_F(Sweep, AShareWhosePointsAreAllRefusedIsAShare) {
  std::string const sweep = "--study t3 --model T-NLG --set tokens=2048 --set tp=7,8 ";
  EXPECT_EQ(run(sweep + "--shard 1/2 -o refused.csv").exit, 1);
  good(sweep + "--shard 2/2 -o right.csv");
  good("--merge refused.csv right.csv -o both.csv");
  EXPECT_THAT(text("both.csv"), testing::HasSubstr("E0543"));
}

TEST_F(Sweep, GoesOnWithWhatIsThere) {
  auto const sweep = std::string(k_chain) + "--set sms=20:80:20 ";
  good(sweep + "-o whole.csv");
  auto const whole = text("whole.csv");
  // Two rows of an interrupted run, one of them with a time that no run would give.
  std::string::size_type line = 0;
  for (int i = 0; i < 3; ++i) line = whole.find('\n', line) + 1;
  auto marked = whole.substr(0, line);
  auto const at = marked.find("wait kernel");
  ASSERT_NE(at, std::string::npos);
  marked.replace(at, 11, "stream order");
  write("part.csv", marked);
  EXPECT_THAT(good(sweep + "-o part.csv").err, HasSubstr("2 of 4 points are in part.csv already\n"));
  EXPECT_EQ(text("part.csv"), marked + whole.substr(line)) << "rows that were there are not computed again";
  good(sweep + "--fresh -o part.csv");
  EXPECT_EQ(text("part.csv"), whole);

  // More values: the old rows find their new places.
  good(std::string(k_chain) + "--set sms=10:80:10 -o part.csv");
  auto const more = text("part.csv");
  EXPECT_EQ(std::count(more.begin(), more.end(), '\n'), 9);
  // Another machine: none of the rows is of that sweep.
  auto const other = run("llama-3.2-1b --tokens 64 --tp 8 --machine a100 --set sms=10:80:10 -o part.csv");
  EXPECT_EQ(other.exit, 1);
  EXPECT_THAT(other.err, HasSubstr("part.csv: error E0923: 8 of its 8 rows are not of this sweep"));
  write("notes.csv", "dear diary\n");
  EXPECT_EQ(run(sweep + "-o notes.csv").exit, 1);
  EXPECT_EQ(text("notes.csv"), "dear diary\n");
}

TEST_F(Sweep, BelievesNoCellThatCannotBe) {
  auto const sweep = std::string(k_chain) + "--set sms=40,80 ";
  good(sweep + "-o whole.csv");
  auto const whole = text("whole.csv");
  auto const at = whole.find(",,", whole.find('\n')) + 2;
  for (auto const* cell : {"foo", "nan", "-1", "1e999", ""}) {
    auto changed = whole;
    changed.replace(at, changed.find(',', at) - at, cell);
    write("part.csv", changed);
    for (auto const& command : {sweep + "-o part.csv", std::string("--merge part.csv -o all.csv")}) {
      auto const said = run(command);
      EXPECT_EQ(said.exit, 1) << command;
      EXPECT_THAT(said.err,
                  HasSubstr("part.csv:2: error E0923: this is no table of a sweep: us cannot be \"" +
                            std::string(cell) + "\""));
    }
    EXPECT_EQ(text("part.csv"), changed);
  }
  for (auto const& [old, now] : {std::pair{"wait kernel", "foo"}, {",40,", ",foo,"}, {",40,", ",,"}}) {
    auto changed = whole;
    changed.replace(changed.find(old), std::string(old).size(), now);
    write("part.csv", changed);
    EXPECT_THAT(run("--merge part.csv").err, HasSubstr("part.csv:2: error E0923")) << now;
  }
}

TEST_F(Sweep, SaysWhatIsKeptWhenItIsInterrupted) {
  // Ended as soon as the file has points. A shell's background jobs ignore INT, so that this is TERM.
  auto const script = "cd '" + folder.path() +
                      "' && { '" TESSERA_BINARY
                      "' sweep --study t3 --set sms=40:140:1 --jobs 1 -o x.csv 2>said & }; "
                      "until [ -s x.csv ] || ! kill -0 $!; do sleep 0.05; done; kill -TERM $!; wait $!";
  int const status = std::system(script.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
  auto const rows = text("x.csv");
  auto const kept = std::count(rows.begin(), rows.end(), '\n') - 1;
  EXPECT_EQ(text("said"), "\ninterrupted: " + std::to_string(kept) +
                              " of 101 points are in x.csv; the same command computes the rest\n");
}

TEST_F(Sweep, RefusedPointsKeepTheirRows) {
  // A tile of 192 does not divide 2048 columns among eight GPUs; L2 slower than memory contradicts itself.
  auto const said = good(std::string(k_chain) + "--set l2_gbps=100,3000 --json");
  EXPECT_EQ(said.json()["rows"][0]["refused"], "E0606");
  EXPECT_EQ(said.json()["rows"][1].count("refused"), 0U);
  EXPECT_THAT(said.err, HasSubstr("1 of 2 points are refused; the first: error E0606"));
  auto const all = run(std::string(k_chain) + "--set l2_gbps=100 -o x.csv");
  EXPECT_EQ(all.exit, 1);
  EXPECT_THAT(all.err, HasSubstr("error E0606"));
  EXPECT_FALSE(std::filesystem::exists(folder / "x.csv"));
}

TEST_F(Sweep, SaysWhatIsNotRead) {
  auto const said = good(std::string(k_chain) + "--set overlap.link_gbps=50,75 --json");
  EXPECT_THAT(said.err, HasSubstr("warning E0925"));
  EXPECT_EQ(said.json()["rows"][0]["results"], said.json()["rows"][1]["results"]);
}

TEST_F(Sweep, ListsParameters) {
  EXPECT_THAT(good("--study t3 --parameters").out, HasSubstr("overlap.link_gbps"));
  EXPECT_THAT(good("--study t3 --parameters").out, Not(HasSubstr("launch_ns"))) << "not read";
  EXPECT_EQ(good(std::string(k_chain) + "--parameters --json").json()["parameters"][0]["name"], "sms");
}

TEST_F(Sweep, ProgressGoesToStandardErrorWhenAskedFor) {
  auto const sweep = std::string(k_chain) + "--set sms=20,40 ";
  EXPECT_THAT(good(sweep + "--progress").err, HasSubstr("2 of 2 points\n"));
  EXPECT_EQ(good(sweep).err, "");
}

TEST_F(Sweep, SensitivityRanksNumbers) {
  auto const said = good(std::string(k_chain) + "--sensitivity --json").json();
  EXPECT_EQ(said["schema"], "tessera.sensitivity/1");
  EXPECT_EQ(said["result"], "us");
  double before = 1e9;
  std::string names;
  for (auto const& number : said["numbers"]) {
    names += number["name"].get<std::string>() + ' ';
    if (!number.contains("elasticity")) continue;
    EXPECT_LE(std::abs(number["elasticity"].get<double>()), before);
    before = std::abs(number["elasticity"].get<double>());
  }
  EXPECT_THAT(names, HasSubstr("dram_gbps "));
  EXPECT_THAT(names, Not(HasSubstr("overlap."))) << "not read";
  EXPECT_THAT(good(std::string(k_chain) + "--sensitivity --by 50").out, HasSubstr("elasticity"));
}

TEST_F(Sweep, DiffOfMachinesNamesWhatDiffers) {
  auto const said = tessera_says("diff --machines v100 v100", folder.path());
  EXPECT_EQ(said.out, "v100 and v100 have the same numbers\n");
  auto const other = tessera_says("diff --machines v100 t3 --json", folder.path()).json();
  EXPECT_EQ(other["schema"], "tessera.machine_diff/1");
  bool link = false;
  for (auto const& number : other["numbers"])
    link = link || (number["name"] == "overlap.link_gbps" && number.count("before") == 0);
  EXPECT_TRUE(link);
  EXPECT_THAT(tessera_says("diff --machines v100 a100", folder.path()).out, HasSubstr("sms"));
}

}  // namespace
}  // namespace tessera
