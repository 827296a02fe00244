// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "commands.hpp"
#include "doctor_sources.hpp"
#include "report/text.hpp"
#include "tessera/report/json_text.hpp"
#include "tessera/version.hpp"

namespace tessera::cli {
namespace {

/// One thing looked at. `fix` says how to get it, where that helps.
struct Finding {
  std::string name;
  std::string status;  ///< "ok", "missing", "note"
  std::string detail;
  std::string fix;
  std::string code;  ///< of the page that says more
};

/// What a command printed; empty when it failed or is not there. Never waits longer than ten seconds.
std::string output_of(std::string const& command) {
  std::string text;
  std::FILE* pipe = popen(("timeout 10 " + command + " 2>/dev/null").c_str(), "r");
  if (!pipe) return text;
  std::array<char, 4096> buffer{};
  while (auto const count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    text.append(buffer.data(), count);
  return pclose(pipe) == 0 ? text : "";
}

std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> lines;
  std::size_t at = 0;
  while (at < text.size()) {
    auto const end = std::min(text.find('\n', at), text.size());
    if (end > at) lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string variable(char const* name) {
  auto const* value = std::getenv(name);
  return value ? value : "";
}

Finding compiler() {
  for (auto const* name : {"c++", "g++", "clang++"})
    if (auto const lines = lines_of(output_of(std::string(name) + " --version")); !lines.empty())
      return {"C++ compiler", "ok", lines.front(), "", ""};
  return {"C++ compiler", "missing", "no c++, g++ or clang++ in PATH", "apt install g++", "E0931"};
}

Finding toolkit() {
  std::vector<std::string> places{"nvcc"};
  for (auto const* name : {"CUDA_HOME", "CUDA_PATH"})
    if (auto const home = variable(name); !home.empty()) places.push_back("'" + home + "/bin/nvcc'");
  places.push_back("/usr/local/cuda/bin/nvcc");
  for (auto const& nvcc : places)
    for (auto const& line : lines_of(output_of(nvcc + " --version")))
      if (auto const at = line.find("release "); at != std::string::npos)
        return {"CUDA toolkit", "ok", nvcc + ", " + line.substr(at), "", ""};
  return {"CUDA toolkit", "missing", "no nvcc in PATH, CUDA_HOME or /usr/local/cuda",
          "install CUDA 12.4 or later, or set CUDA_HOME; planning and simulation work without it", "E0932"};
}

std::vector<Finding> gpus() {
  auto const lines = lines_of(
      output_of("nvidia-smi --query-gpu=name,driver_version,compute_cap,memory.total,mig.mode.current "
                "--format=csv,noheader"));
  if (lines.empty())
    return {{"GPU", "missing", "nvidia-smi finds no driver or no GPU",
             "install the driver, or run on a machine with a GPU; planning and simulation work without one",
             "E0933"}};
  std::vector<Finding> found;
  for (auto const& line : lines) {
    found.push_back({"GPU", "ok", line, "", ""});
    if (line.find("Enabled") != std::string::npos)
      found.push_back({"MIG", "note", "this GPU is partitioned: it has fewer SMs than its profile says",
                       "measure a profile of the partition, or turn MIG off", "E0935"});
  }
  return found;
}

Finding module_loading() {
  auto const mode = variable("CUDA_MODULE_LOADING");
  if (mode == "EAGER") return {"module loading", "ok", "CUDA_MODULE_LOADING=EAGER", "", ""};
  return {
      "module loading", "note",
      mode.empty() ? "CUDA_MODULE_LOADING is not set: kernels load lazily" : "CUDA_MODULE_LOADING=" + mode,
      "tessera loads its kernels before the first launch; for kernels of your own that spin, set "
      "CUDA_MODULE_LOADING=EAGER",
      "E0934"};
}

std::string as_json(std::vector<Finding> const& findings, bool can_run) {
  JsonWriter json;
  json.begin_object().member("schema", "tessera.doctor/1").member("version", k_version);
  json.member("can_plan", true).member("can_run_on_gpu", can_run).key("findings").begin_array();
  for (auto const& finding : findings) {
    json.begin_object()
        .member("name", finding.name)
        .member("status", finding.status)
        .member("detail", finding.detail);
    json.member("fix", finding.fix).member("code", finding.code).end_object();
  }
  return json.end_array().end_object().text() + '\n';
}

std::string as_text(std::vector<Finding> const& findings) {
  std::string text;
  for (auto const& finding : findings) {
    text += report::labelled(fmt::format("{:<8}{}", finding.status, finding.name), finding.detail, 0, 24);
    if (!finding.fix.empty()) text += report::labelled("", finding.fix, 0, 24);
    if (!finding.code.empty()) text += report::labelled("", "more: tessera explain " + finding.code, 0, 24);
  }
  return text;
}

int run(Session const& session, bool needs_gpu) {
  std::vector<Finding> findings{
      {"tessera", "ok", fmt::format("{}: describe, check, plan, simulate, generate", k_version), "", ""}};
  findings.push_back(compiler());
  findings.push_back(toolkit());
  bool can_run = findings.back().status == "ok";
  for (auto const& finding : gpus()) {
    can_run = can_run && finding.status != "missing";
    findings.push_back(finding);
  }
  findings.push_back(module_loading());
  session.print(session.json ? as_json(findings, can_run) : as_text(findings));
  return needs_gpu && !can_run ? k_environment : k_ok;
}

}  // namespace

void add_doctor(CLI::App& app, Session const& session, Action& action) {
  auto* command = app.add_subcommand("doctor", "What this machine has, what is missing, and how to get it");
  auto needs_gpu = std::make_shared<bool>(false);
  command->add_flag("--gpu", *needs_gpu, "Exit with 3 unless kernels can be compiled and run here");
  auto folder = std::make_shared<std::string>();
  command
      ->add_option("--sources", *folder,
                   "Instead: the figures of this source tree's pages, and its records (E0938, E0939)")
      ->option_text("FOLDER");
  command->footer(
      "Looks at compiler, CUDA toolkit, driver, GPUs and module loading. Missing CUDA is no failure: "
      "planning, checking,\n"
      "simulating and generating work without it.\n\n"
      "Examples:\n"
      "  tessera doctor\n"
      "  tessera doctor --gpu --json\n"
      "  tessera doctor --sources .");
  command->callback([needs_gpu, folder, &session, &action] {
    action = [needs_gpu, folder, &session] {
      if (folder->empty()) return run(session, *needs_gpu);
      if (*needs_gpu)
        return session.fail(complaint("E0906", "--gpu is not for --sources, which looks at pages and records",
                                      "leave --gpu or --sources out"));
      return run_sources(session, *folder);
    };
  });
}

}  // namespace tessera::cli
