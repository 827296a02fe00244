// SPDX-License-Identifier: Apache-2.0
// Families of decoder-only transformers: where each keeps its sizes in a Hugging Face config.json.
#pragma once

#include <optional>
#include <string>

#include "json/reader.hpp"
#include "tessera/describe/workload_json.hpp"

namespace tessera::json {

/// The object with the language model's fields: "text_config" of a model that also sees or hears, else the
/// root.
Node const& language_model(Document const& document);

/// One layer's sizes; nothing if the document was refused (E0211 to E0214, E0217).
std::optional<TransformerShape> read_shape(Document& document);

/// The member's line, or the whole object's.
Node const& place_of(Document const& document, ObjectReader& object, char const* name);

}  // namespace tessera::json
