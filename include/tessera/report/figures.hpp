// SPDX-License-Identifier: Apache-2.0
// Figures of pages held to records: who wrote a number down without saying what made it.
#pragma once

#include <string_view>

#include "../diagnostic.hpp"

namespace tessera {

/// Warnings E0938, one for each section of a page (Markdown) that has a measured number (microseconds, bytes,
/// operations or lattice updates a second, cycles, a percentage, a ratio) and does not say where it comes
/// from, nor does a section around it: a record under results/, a command that makes it, or the words "no
/// record". A paper is a source by a place in it ("the paper's table 4"), for the section alone that says so
/// below its heading. Lines in code blocks are not looked at, code in a line is no figure.
Diagnostics figures_without_source(std::string_view page, std::string_view path);

/// A warning E0939 if a record (JSON) lacks one of commit, date, machine, driver, clocks and command. A
/// record that is computed from others has a command that names them (results/...) instead.
Diagnostics gaps_of_record(std::string_view record, std::string_view path);

}  // namespace tessera
