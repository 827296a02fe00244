// SPDX-License-Identifier: Apache-2.0
// Ends a test with a refusal's text.
#pragma once

#include <gtest/gtest.h>

#include "tessera/diagnostic.hpp"

#define ASSERT_OK(expression)                                     \
  do {                                                            \
    auto const& outcome = (expression);                           \
    ASSERT_TRUE(outcome.has_value()) << to_text(outcome.error()); \
  } while (false)
