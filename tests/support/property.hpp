// SPDX-License-Identifier: Apache-2.0
// A RapidCheck property with its own number of cases and a fixed seed, so that a failure comes back.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <sstream>
#include <string>

namespace tessera::support {

/// Fails the current test with the shrunk counter-example. RC_PARAMS still overrides (seed=...,
/// reproduce=...).
template <class Testable>
void check_property(std::string const& name, int cases, Testable&& testable) {
  auto params = rc::detail::configuration().testParams;
  params.maxSuccess = std::max(params.maxSuccess, cases);
  if (std::getenv("RC_PARAMS") == nullptr) params.seed = 20240229;
  rc::detail::TestMetadata metadata;
  metadata.id = name;
  metadata.description = name;
  auto const result = rc::detail::checkTestable(std::forward<Testable>(testable), metadata, params);
  if (result.template is<rc::detail::SuccessResult>()) return;
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  FAIL() << text.str();
}

}  // namespace tessera::support
