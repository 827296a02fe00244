// SPDX-License-Identifier: Apache-2.0
// The pages and records of a source tree: has every figure something that made it?
#pragma once

#include <string>

#include "session.hpp"

namespace tessera::cli {

/// README.md and docs/ (without the pages of diagnostics and the reference), and the records in results/ that
/// were measured. Prints E0938 and E0939; k_no if there is one, k_environment if the folder has no docs/.
int run_sources(Session const& session, std::string const& folder);

}  // namespace tessera::cli
