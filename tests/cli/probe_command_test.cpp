// SPDX-License-Identifier: Apache-2.0
// tessera probe where there is no GPU: what it hands over, and all it makes of what was measured elsewhere.
#include "cli/alone.hpp"
#include "measure/probe_samples.hpp"
#include "tessera/measure/compare_probes.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/measure/probe_json.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class ProbeCommand : public AloneInAFolder {
 protected:
  void write(std::string const& name, std::string const& text) const { std::ofstream(folder / name) << text; }
  void write(std::string const& name, Probe const& probe) const { write(name, print_probe(probe)); }
  /// A GPU that the shipped profile h200 is of, with one figure of those that the planner reads.
  static Probe h200() {
    auto probe = made_up_probe();
    probe.identity.gpu = "NVIDIA H200";
    probe.figures.push_back(made_up("kernel.gap.stream", 1234, {{"blocks", probe.identity.sms}}));
    return probe;
  }
};

TEST_F(ProbeCommand, SaysWhatIsMissing) {
  auto const said = says("probe --quick");
  EXPECT_EQ(said.exit, 3);
  EXPECT_THAT(said.err,
              StartsWith("error E0936: tessera probe needs tessera-probe, which is not beside this program"));
}

TEST_F(ProbeCommand, HandsOverWhatItIsAskedForAndShowsWhatCameBack) {
  write("found.json", h200());
  put_beside("tessera-probe", "echo \"$1 $2 $4 $5 $6 $7 $8 $9\" >&2; cp found.json \"$3\"\n");
  auto const said = says("probe --quick --only warp --only grid --commit abc");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_EQ(said.err, "--silent --output --quick --only warp --only grid --commit\n");
  EXPECT_THAT(said.out, HasSubstr("grid.barrier.own"));
  EXPECT_EQ(parse_probe(says("probe --json").out, "out").value(), h200());
}

TEST_F(ProbeCommand, KeepsWhatWasMeasuredWhenAnExperimentFails) {
  write("found.json", h200());
  put_beside("tessera-probe", "cp found.json \"$3\"; exit 1\n");
  auto const said = says("probe -o profile.json");
  EXPECT_EQ(said.exit, 1);
  EXPECT_EQ(parse_machine(read_text(folder / "profile.json"), "p").value().stream_gap_ns, 1234);
  put_beside("tessera-probe", "exit 3\n");
  EXPECT_EQ(says("probe").exit, 3);
}

TEST_F(ProbeCommand, MakesAProfileAndReportsOfAStoredProbe) {
  write("run.json", h200());
  auto const said = says(
      "probe --from run.json -o profile.json --name mine --report r.html --report r.md --beside run.json");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_EQ(said.out, "");
  EXPECT_THAT(said.err,
              HasSubstr("kept from the base, because not measured: dram_gbps: memory.dram.read.whole"));
  auto const profile = parse_machine(read_text(folder / "profile.json"), "p").value();
  EXPECT_EQ(profile.name, "mine");
  EXPECT_EQ(profile.stream_gap_ns, 1234);
  EXPECT_EQ(profile.probe, h200());
  EXPECT_THAT(read_text(folder / "r.html"), HasSubstr("<h1>What synchronization costs: mine</h1>"));
  EXPECT_THAT(read_text(folder / "r.md"), HasSubstr("| mine | run |"));
  // And again from the profile.
  EXPECT_EQ(says("probe --from profile.json --json").out, print_probe(h200()));
  EXPECT_THAT(says("plan llama-3.2-1b --tokens 64 --tp 8 --machine ./profile.json").out, HasSubstr("mine"));
}

TEST_F(ProbeCommand, JoinsRuns) {
  write("run.json", h200());
  Probe part;
  part.identity = {"NVIDIA H200", "", "", "", 132, 0, 0, 0, 0, 2, "", "later"};
  part.figures = {made_up("grid.barrier.new", 5), made_up("peer.hop.store", 6)};
  write("part.json", part);
  auto const both = parse_probe(says("probe --from run.json --join part.json --json").out, "out").value();
  EXPECT_EQ(both, joined(h200(), part));
  EXPECT_THAT(says("probe --from run.json --join none.json").err, StartsWith("error E0901"));
}

TEST_F(ProbeCommand, ComparesTwoRuns) {
  write("one.json", h200());
  auto two = h200();
  two.figures[1].median = 1000;
  write("two.json", two);
  EXPECT_EQ(says("probe --from one.json --against one.json").out,
            "4 repeat within 5.0 %, 0 within their own spread, 0 differ, 0 only before, 0 only after; "
            "largest change "
            "0.0 %\n");
  EXPECT_THAT(says("probe --from two.json --against one.json").out, HasSubstr("+25.0 %"));
  EXPECT_THAT(says("probe --from two.json --against one.json --all").out, HasSubstr("pair.hop.store"));
}

TEST_F(ProbeCommand, Refuses) {
  write("run.json", h200());
  auto other = h200();
  other.identity.gpu = "NVIDIA H100 PCIe";
  write("other.json", other);
  auto const refused = [&](std::string const& arguments, int exit) {
    auto const said = says("probe " + arguments);
    EXPECT_EQ(said.exit, exit) << arguments;
    EXPECT_EQ(said.out, "");
    return said.err;
  };
  EXPECT_EQ(refused("--from run.json --quick", 2),
            "error E0908: --quick, --only and --commit are for measuring; --from reads what was measured\n"
            "   hint: leave --from out to measure this machine's GPU\n");
  EXPECT_EQ(refused("--from run.json --report r.pdf", 2),
            "error E0908: --report does not take \"r.pdf\"\n   hint: its name ends in .html or in .md\n");
  EXPECT_THAT(refused("--from t3", 1),
              StartsWith("machines/t3.json:1: error E0608: the machine profile \"t3\""));
  EXPECT_THAT(refused("--from none.json", 3), StartsWith("error E0901"));
  EXPECT_THAT(refused("--from run.json --beside none.json --report r.md", 3), StartsWith("error E0901"));
  EXPECT_THAT(refused("--from run.json --report same.md --report same.md", 2), StartsWith("error E0912"));
  auto const unknown = refused("--from other.json -o p.json", 2);
  EXPECT_THAT(
      unknown,
      StartsWith("error E0915: no shipped machine profile is of a GPU called \"NVIDIA H100 PCIe\"\n"));
  EXPECT_THAT(
      refused("--from other.json -o p.json --base a100", 2),
      StartsWith("error E0908: a100 is a profile of \"NVIDIA A100 SXM4 80 GB\", and the probe is of \"NVIDIA "
                 "H100 PCIe\"\n"));
  EXPECT_EQ(says("probe --from other.json -o p.json --base a100 --name h100").exit, 0);
  auto const made = parse_machine(read_text(folder / "p.json"), "p").value();
  EXPECT_EQ(made.name, "h100");
  EXPECT_EQ(made.gpu, "NVIDIA H100 PCIe");
  for (auto const* name : {"\"$(printf 'a\\nb')\"", "\"$(printf 'a\\033[31m')\""})
    EXPECT_THAT(refused("--from run.json -o n.json --name " + std::string(name), 2),
                StartsWith("error E0908: --name has control characters in it\n"));
  EXPECT_FALSE(std::filesystem::exists(folder / "n.json"));
  EXPECT_THAT(
      refused("--from run.json --join other.json", 2),
      StartsWith("error E0908: --join other is of \"NVIDIA H100 PCIe\", and the probe of \"NVIDIA H200\"\n"));
  EXPECT_THAT(refused("--from run.json --all", 2),
              StartsWith("error E0908: --all is for what --against prints\n"));
}

}  // namespace
}  // namespace tessera
