// SPDX-License-Identifier: Apache-2.0
// The two forms of a workload file.
#pragma once

#include <string>
#include <vector>

#include "json/reader.hpp"
#include "tessera/describe/workload.hpp"

namespace tessera::json {

/// Words of the format, beside the values that they stand for.
template <class T>
struct Words {
  std::vector<std::string> words;
  std::vector<T> values;

  std::string const& word_of(T value) const {
    std::size_t i = 0;
    while (i + 1 < values.size() && values[i] != value) ++i;
    return words[i];
  }
};
Words<OperatorKind> const& operator_kinds();
Words<ElementType> const& element_types();
Words<Epilogue> const& epilogues();
Words<ReadPattern> const& read_patterns();
Words<OnComplete> const& completions();

/// Fills everything but the name. Mistakes go to the document.
void read_operators(Document& document, ObjectReader& root, OperatorGraph& graph);

}  // namespace tessera::json
