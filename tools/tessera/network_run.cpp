// SPDX-License-Identifier: Apache-2.0
#include "network_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "commands.hpp"
#include "companion.hpp"
#include "files.hpp"
#include "kernels/networks/weights.hpp"
#include "load.hpp"
#include "network_prediction.hpp"
#include "tessera/shipped.hpp"

namespace tessera::cli {
namespace {

constexpr int k_most_edge = convolution::k_most_edge;

/// The network as it is asked for.
Expected<networks::Network> network_of(GpuArguments const& gpu, NetworkArguments const& a) {
  auto network = networks::network_named(gpu.workload.workload);
  if (!network) return network;
  if (a.edge) network = networks::with_edge(std::move(*network), *a.edge);
  auto const type = gpu.workload.data_type.value_or("fp16");
  if (type != "fp16" && type != "bf16")
    return tl::make_unexpected(
        complaint("E0917", fmt::format("--dtype: networks are not computed in {}", type), "fp16 or bf16"));
  network->type = type == "fp16" ? networks::ElementType::fp16 : networks::ElementType::bf16;
  return network;
}

/// Options of other runs that are given.
Diagnostics unused(GpuArguments const& gpu, DecodeArguments const& decode) {
  auto others = decode;
  others.weights.reset(), others.seed.reset(), others.output.clear(), others.commit.clear();
  others.predict = false;
  auto found = unused_decode_options(others, "");
  auto sizes = gpu;
  sizes.workload.images.reset(), sizes.workload.data_type.reset();
  auto const more = unused_gpu_options(sizes, gpu.workload.workload + " as a whole");
  found.insert(found.end(), more.begin(), more.end());
  return found;
}

/// What only a run has.
Diagnostics unused_by_prediction(DecodeArguments const& decode, NetworkArguments const& a) {
  Diagnostics found;
  for (auto const& [option, given] : {std::pair{"--weights", decode.weights.has_value()},
                                      {"--seed", decode.seed.has_value()},
                                      {"--commit", !decode.commit.empty()},
                                      {"--tune", a.tune},
                                      {"--check", a.check}})
    if (given)
      for (auto const& one :
           complaint("E0906", fmt::format("{} is not for --predict, which runs nothing", option),
                     fmt::format("leave {} out", option)))
        found.push_back(one);
  return found;
}

/// What the user could type to get the same again.
std::string command_text(GpuArguments const& gpu, DecodeArguments const& decode, NetworkArguments const& a) {
  auto text = "tessera run " + gpu.workload.workload;
  if (gpu.workload.images) text += " --images " + *gpu.workload.images;
  if (gpu.workload.data_type) text += " --dtype " + *gpu.workload.data_type;
  if (a.edge) text += fmt::format(" --edge {}", *a.edge);
  if (decode.weights) text += " --weights " + *decode.weights;
  if (decode.seed) text += fmt::format(" --seed {}", *decode.seed);
  if (a.tune) text += " --tune";
  if (a.check) text += " --check";
  return text;
}

}  // namespace

void add_network_options(CLI::App& command, NetworkArguments& a) {
  auto const group = "Networks of convolutions (tessera run resnet-38, vgg-19, resnet-50)";
  command.add_option("--edge", a.edge, "Rows and columns of an image (default: the network's own)")
      ->check(CLI::Range(1, k_most_edge))
      ->option_text("N")
      ->group(group);
  command.add_flag("--tune", a.tune, "Measure first who computes each layer fastest: seconds")->group(group);
  command
      .add_flag("--check", a.check,
                "Compare each layer with plain arithmetic on the host, for the first and the last image")
      ->group(group);
}

bool is_network(GpuArguments const& gpu) {
  auto const names = networks::network_names();
  return !gpu.workload.layer && std::find(names.begin(), names.end(), gpu.workload.workload) != names.end();
}

Diagnostics layer_of_no_workload(GpuArguments const& gpu) {
  auto const& name = gpu.workload.workload;
  auto const names = networks::network_names();
  auto const& files = shipped_workloads();
  bool const is_workload =
      std::any_of(files.begin(), files.end(), [&](auto const& file) { return file.name == name; });
  if (!gpu.workload.layer || is_workload || std::find(names.begin(), names.end(), name) == names.end())
    return {};
  return complaint("E0906", fmt::format("--layer: {} is run as a whole network only", name),
                   "leave --layer out; layers of resnet-38 and vgg-19 are workloads");
}

Diagnostics unused_without_network(NetworkArguments const& a) {
  Diagnostics found;
  for (auto const& [option, given] :
       {std::pair{"--edge", a.edge.has_value()}, {"--tune", a.tune}, {"--check", a.check}})
    if (given) {
      auto one = complaint("E0906", fmt::format("{} is for networks of convolutions", option),
                           fmt::format("leave {} out", option));
      found.insert(found.end(), one.begin(), one.end());
    }
  return found;
}

int run_network(Session const& session, GpuArguments const& gpu, DecodeArguments const& decode,
                NetworkArguments const& a) {
  if (auto const others = unused(gpu, decode); !others.empty()) return session.fail(others);
  auto const network = network_of(gpu, a);
  if (!network) return session.fail(network.error());
  auto const images = gpu.workload.images.value_or("1");
  auto const sizes = parse_sizes(images, "--images");
  if (!sizes) return session.fail(sizes.error());
  std::string list;
  for (auto const one : *sizes) {
    auto const most = static_cast<std::int64_t>(convolution::k_most_images) + 1;
    if (auto const ok = check_network(*network, static_cast<int>(std::clamp<std::int64_t>(one, 0, most)));
        !ok)
      return session.fail(ok.error());
    list += (list.empty() ? "" : ",") + std::to_string(one);
  }
  if (auto const fit = check_outputs({decode.output}); !fit) return session.fail(fit.error());
  if (decode.predict) {
    if (auto const more = unused_by_prediction(decode, a); !more.empty()) return session.fail(more);
    return predict_networks(session, *network, *sizes, decode.output);
  }
  if (decode.weights) {
    auto const files = WeightFiles::open(*decode.weights);
    if (!files) return session.fail(files.error());
    if (auto const fine = check_tensors(*files, tensors_of(*network)); !fine)
      return session.fail(fine.error());
  }
  std::vector<std::string> words{network->name, list, "--dtype", convolution::name_of(network->type)};
  auto const add = [&](char const* option, std::string const& value) {
    words.insert(words.end(), {option, value});
  };
  if (a.edge) add("--edge", std::to_string(*a.edge));
  if (decode.seed) add("--seed", std::to_string(*decode.seed % (1u << 30)));
  if (decode.weights) add("--weights", *decode.weights);
  if (!decode.output.empty()) add("--output", decode.output);
  if (!decode.commit.empty()) add("--commit", decode.commit);
  if (a.tune) words.emplace_back("--tune");
  if (a.check) words.emplace_back("--check");
  add("--command", command_text(gpu, decode, a));
  return run_companion(session, "tessera run " + network->name, "tessera-network", words);
}

}  // namespace tessera::cli
