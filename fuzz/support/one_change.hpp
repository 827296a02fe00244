// SPDX-License-Identifier: Apache-2.0
// Mutation that keeps a document a document: one value, key or element is changed at a time, so that most
// inputs get past the parser and reach what checks the meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

namespace tessera::fuzz {

/// The JSON text with one change; empty if it is no JSON.
std::string with_one_change(std::string const& text, std::minstd_rand& random);

}  // namespace tessera::fuzz
