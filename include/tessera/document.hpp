// SPDX-License-Identifier: Apache-2.0
// Which of the known kinds of file a JSON text is, and its main facts, without importing it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "diagnostic.hpp"

namespace tessera {

enum class DocumentKind {
  workload,
  hf_config,
  conv_network,
  plan,
  timeline,
  machine,
  study,
  roles,
  sweep,
  probe,
  tune_cache,
  record,
  unknown
};

struct DocumentSummary {
  DocumentKind kind = DocumentKind::unknown;
  std::string schema;                                      ///< "tessera.plan/2", or a config's model_type
  std::vector<std::string> layers;                         ///< conv_network: names of its layers
  std::vector<std::pair<std::string, std::string>> facts;  ///< ("hidden", "8192"), for listings
};

/// By "schema", else by "model_type"; `unknown` if neither says. Refuses (E0904) only what is not JSON.
Expected<DocumentSummary> summarize_document(std::string_view json, std::string const& file);

}  // namespace tessera
