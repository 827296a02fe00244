// SPDX-License-Identifier: Apache-2.0
#include "tessera/ranks/launched.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "tessera/communicate/shards.hpp"

namespace tessera {
namespace {

struct Launcher {
  char const *rank, *size, *local;
};
/// mpirun within a job of SLURM leaves the variables of both, and SLURM's are of its own daemons.
constexpr Launcher k_launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};

auto refused(std::string message, std::string hint) {
  Diagnostic one;
  one.code = "E0584";
  one.message = std::move(message);
  one.suggestion = std::move(hint);
  return refuse(std::move(one));
}

class Variables {
 public:
  explicit Variables(std::function<char const*(char const*)> const& variable) : variable_(variable) {}

  bool has(char const* name) const { return text(name) != nullptr; }
  std::string string(char const* name, std::string otherwise) const {
    char const* const found = text(name);
    return found != nullptr ? found : std::move(otherwise);
  }
  Expected<int> number(char const* name, int least, int most) const {
    char const* const found = text(name);
    if (found == nullptr)
      return refused(fmt::format("{} is not set", name), "let the launcher set it, or set it for each rank");
    std::string_view const word = found;
    int value = 0;
    auto const [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size() || value < least || value > most)
      return refused(fmt::format("{} is \"{}\"", name, word),
                     fmt::format("set it to a number from {} to {}", least, most));
    return value;
  }

 private:
  /// Set to nothing is not set.
  char const* text(char const* name) const {
    char const* const found = variable_(name);
    return found != nullptr && *found != '\0' ? found : nullptr;
  }
  std::function<char const*(char const*)> const& variable_;
};

Expected<int> port_of(Variables const& variables) {
  constexpr int k_most_port = 65535;
  if (variables.has("TESSERA_PORT")) return variables.number("TESSERA_PORT", 1, k_most_port);
  if (!variables.has("MASTER_PORT"))
    return refused("neither TESSERA_PORT nor MASTER_PORT is set",
                   "set TESSERA_PORT to a port that is free on the host of rank 0, the same for all ranks");
  auto const port = variables.number("MASTER_PORT", 1, k_most_port - 1);
  return port ? Expected<int>(*port + 1) : port;
}

}  // namespace

Expected<LaunchedRank> launched_rank(std::function<char const*(char const*)> const& variable) {
  Variables const variables(variable);
  for (auto const& launcher : k_launchers) {
    if (!variables.has(launcher.rank)) continue;
    LaunchedRank result;
    auto const size = variables.number(launcher.size, 1, k_most_ranks);
    if (!size) return tl::make_unexpected(size.error());
    auto const rank = variables.number(launcher.rank, 0, *size - 1);
    if (!rank) return tl::make_unexpected(rank.error());
    result.size = *size;
    result.rank = result.local = *rank;
    if (variables.has(launcher.local)) {
      auto const local = variables.number(launcher.local, 0, k_most_ranks - 1);
      if (!local) return tl::make_unexpected(local.error());
      result.local = *local;
    }
    auto const port = port_of(variables);
    if (!port) return tl::make_unexpected(port.error());
    result.port = *port;
    result.address = variables.string("MASTER_ADDR", "127.0.0.1");
    return result;
  }
  return refused("no launcher has made this process a rank: RANK is not set",
                 "start it by torchrun, mpirun or srun, or set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and "
                 "TESSERA_PORT");
}

}  // namespace tessera
