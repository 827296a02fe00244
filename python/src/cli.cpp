// SPDX-License-Identifier: Apache-2.0
// The command line, as the executable has it.
#include "tools/tessera/program.hpp"

#include <csignal>

#include "bindings.hpp"

namespace tessera::python {
namespace {

int run_command_line(std::vector<std::string> words, std::string const& folder) {
  // Python ignores it; a reader that has seen enough shall end the program as it ends others.
  std::signal(SIGPIPE, SIG_DFL);
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  nb::gil_scoped_release const released;
  return cli::run_program(static_cast<int>(words.size()), pointers.data(), folder);
}

}  // namespace

void bind_cli(nb::module_& m) {
  m.def("run_command_line", &run_command_line, nb::arg("words"), nb::arg("folder"),
        "Runs the command line, the program's name first; returns its exit code. `folder` is where the "
        "programs that launch kernels are looked for. Takes over SIGINT, SIGTERM, SIGHUP and SIGPIPE.");
}

}  // namespace tessera::python
