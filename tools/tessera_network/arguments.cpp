// SPDX-License-Identifier: Apache-2.0
#include "arguments.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/companion_words.hpp"

namespace tessera::command {
namespace {

tl::unexpected<Diagnostics> wrong(std::string message) {
  return wrong_words(std::move(message), "tessera run resnet-50");
}

/// The whole word as a number from 0 up; -1 if it is none.
long number_of(std::string const& word) {
  long number = 0;
  return !read_number(word, number) || number < 0 || number > 1 << 30 ? -1 : number;
}

/// "1,4": how many images, one run for each.
bool read_images(std::string const& list, std::vector<int>& images) {
  for (std::size_t at = 0; at <= list.size();) {
    auto const end = std::min(list.find(',', at), list.size());
    long const number = number_of(list.substr(at, end - at));
    if (number < 1) return false;
    images.push_back(static_cast<int>(number));
    at = end + 1;
  }
  return true;
}

}  // namespace

Expected<NetworkRun> read_network_run(std::vector<std::string> const& words) {
  if (words.size() < 2) return wrong("the name of a network and numbers of images are needed");
  auto network = networks::network_named(words[0]);
  if (!network) return tl::make_unexpected(network.error());
  NetworkRun run;
  run.network = std::move(*network);
  if (!read_images(words[1], run.images))
    return wrong(fmt::format("\"{}\" are no numbers of images", words[1]));
  for (std::size_t i = 2; i < words.size(); ++i) {
    auto const& option = words[i];
    if (option == "--tune" || option == "--check") {
      (option == "--tune" ? run.tune : run.check) = true;
      continue;
    }
    if (i + 1 == words.size()) return wrong(fmt::format("{} needs a value", option));
    auto const& value = words[++i];
    long const number = number_of(value);
    if (option == "--edge" && number >= 0)
      run.network = networks::with_edge(std::move(run.network), static_cast<int>(number));
    else if (option == "--dtype" && (value == "fp16" || value == "bf16"))
      run.network.type = value == "fp16" ? networks::ElementType::fp16 : networks::ElementType::bf16;
    else if (option == "--seed" && number >= 0)
      run.seed = static_cast<unsigned>(number);
    else if (option == "--weights")
      run.weights = value;
    else if (option == "--output")
      run.output = value;
    else if (option == "--commit")
      run.commit = value;
    else if (option == "--command")
      run.command = value;
    else
      return wrong(fmt::format("{} {} is no option", option, value));
  }
  for (int const images : run.images)
    if (auto ok = check_network(run.network, images); !ok) return tl::make_unexpected(ok.error());
  return run;
}

}  // namespace tessera::command
