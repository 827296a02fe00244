// SPDX-License-Identifier: Apache-2.0
#include "arguments.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "tools/companion_program.hpp"

namespace tessera::command {
namespace {

tl::unexpected<Diagnostics> wrong(std::string message) {
  return wrong_words(std::move(message), "tessera run --decode");
}

}  // namespace

Expected<DecodeRun> read_decode_run(std::vector<std::string> const& words) {
  DecodeRun run;
  struct Text {
    char const* option;
    std::string DecodeRun::*member;
  };
  constexpr Text k_texts[] = {{"--config", &DecodeRun::config},   {"--name", &DecodeRun::name},
                              {"--weights", &DecodeRun::weights}, {"--prompts", &DecodeRun::prompts},
                              {"--output", &DecodeRun::output},   {"--timeline", &DecodeRun::timeline},
                              {"--logits", &DecodeRun::logits},   {"--commit", &DecodeRun::commit},
                              {"--command", &DecodeRun::command}};
  for (std::size_t i = 0; i < words.size(); ++i) {
    auto const& option = words[i];
    if (option == "--silent") {
      run.silent = true;
      continue;
    }
    if (i + 1 == words.size()) return wrong(fmt::format("{} needs a value", option));
    auto const& value = words[++i];
    bool known = false;
    for (auto const& text : k_texts)
      if (option == text.option) {
        run.*text.member = value;
        known = true;
      }
    if (known) continue;
    if (option == "--step-by") {
      if (auto const by = decode::step_by(value); by)
        run.steps = *by;
      else
        return wrong(fmt::format("--step-by does not take \"{}\"", value));
      continue;
    }
    double number = 0;
    if (!read_number(value, number)) return wrong(fmt::format("{} does not take \"{}\"", option, value));
    if (option == "--new-tokens")
      run.new_tokens = static_cast<int>(number);
    else if (option == "--capacity")
      run.capacity = static_cast<int>(number);
    else if (option == "--page-size")
      run.page_size = static_cast<int>(number);
    else if (option == "--tp")
      run.gpus = static_cast<int>(number);
    else if (option == "--seed")
      run.seed = run.sampling.seed = std::strtoull(value.c_str(), nullptr, 10);
    else if (option == "--temperature")
      run.sampling.temperature = number;
    else if (option == "--top-k")
      run.sampling.top_k = static_cast<int>(number);
    else if (option == "--top-p")
      run.sampling.top_p = number;
    else if (option == "--stop")
      run.stop_tokens.push_back(static_cast<int>(number));
    else
      return wrong(fmt::format("there is no option {}", option));
  }
  if (run.config.empty() || run.prompts.empty() || run.output.empty())
    return wrong("--config, --prompts and --output are needed");
  return run;
}

}  // namespace tessera::command
