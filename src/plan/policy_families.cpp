// SPDX-License-Identifier: Apache-2.0
#include "plan/policy_families.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "diagnostic/nearest.hpp"

namespace tessera {

bool same_family(std::vector<Policy> const& a, std::vector<Policy> const& b) {
  return std::equal(a.begin(), a.end(), b.begin(),
                    [](Policy const& p, Policy const& q) { return same_map(p.map, q.map); });
}

std::vector<std::vector<Policy>> policy_families(std::vector<std::vector<Policy>> const& per_dependence) {
  std::vector<std::string> names;
  for (auto const& policies : per_dependence)
    for (auto const& policy : policies)
      if (std::find(names.begin(), names.end(), policy.name) == names.end()) names.push_back(policy.name);
  std::vector<std::vector<Policy>> families;
  for (auto const& name : names) {
    std::vector<Policy> family;
    for (auto const& policies : per_dependence) {
      auto const found = std::find_if(policies.begin(), policies.end(),
                                      [&](Policy const& policy) { return policy.name == name; });
      family.push_back(found != policies.end() ? *found : policies.front());
    }
    auto const same = [&](std::vector<Policy> const& other) { return same_family(family, other); };
    if (std::none_of(families.begin(), families.end(), same)) families.push_back(std::move(family));
  }
  return families;
}

namespace {

/// E0304: a word that is no policy's name, neither of a dependence here nor of another pipeline's.
std::optional<Diagnostic> unknown_policy(Pipeline const& pipeline, std::vector<std::string> const& wanted) {
  std::vector<std::string> known{"TileSync",       "RowSync",  "StridedSync", "BatchedRowSync",
                                 "Conv2DTileSync", "GridSync", "TableSync"};
  if (wanted.empty()) return std::nullopt;
  for (std::size_t d = 0; d < pipeline.dependences.size(); ++d)
    for (auto const& policy : generate_policies(pipeline, static_cast<int>(d)))
      if (std::find(known.begin(), known.end(), policy.name) == known.end()) known.push_back(policy.name);
  for (auto const& word : wanted)
    if (std::find(known.begin(), known.end(), word) == known.end())
      return Diagnostic{"E0304",
                        Severity::error,
                        pipeline.where,
                        fmt::format("there is no policy \"{}\"", word.substr(0, 60)),
                        {"known: " + list_of(known)},
                        did_you_mean(word, known)};
  return std::nullopt;
}

}  // namespace

Expected<std::vector<std::vector<Policy>>> allowed_policies(Pipeline const& pipeline,
                                                            std::vector<std::string> const& wanted) {
  std::vector<std::vector<Policy>> result;
  if (auto unknown = unknown_policy(pipeline, wanted)) return refuse(std::move(*unknown));
  for (std::size_t d = 0; d < pipeline.dependences.size(); ++d) {
    auto policies = generate_policies(pipeline, static_cast<int>(d));
    if (!wanted.empty()) {
      std::string known;
      auto const first = policies.front().name;
      for (auto const& policy : policies) known += (known.empty() ? "" : ", ") + policy.name;
      std::erase_if(policies, [&](Policy const& policy) {
        return std::find(wanted.begin(), wanted.end(), policy.name) == wanted.end();
      });
      if (policies.empty()) {
        auto const& dependence = pipeline.dependences[d];
        return refuse({"E0304",
                       Severity::error,
                       dependence.where,
                       fmt::format("none of the policies asked for suits what {} reads of {}",
                                   pipeline.stages[static_cast<std::size_t>(dependence.consumer)].name,
                                   pipeline.stages[static_cast<std::size_t>(dependence.producer)].name),
                       {},
                       fmt::format("policies of this dependence: {}; name one of them, too: --policy {},{}",
                                   known, fmt::join(wanted, ","), first)});
      }
    }
    result.push_back(std::move(policies));
  }
  return result;
}

}  // namespace tessera
