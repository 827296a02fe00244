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

/// Layers that see no more than the last `keys` keys.
struct WindowedLayers {
  std::int64_t keys = 0;      ///< 0: no layer has a window
  std::int64_t from = 0;      ///< the first layer with it
  bool some_see_all = false;  ///< other layers see all keys
  bool in_turns = false;      ///< and some of those come behind the first
};

/// As the config says it, or the configuration class of the family `type`, which is known. Reports E0211,
/// E0212, E0214 and E0217.
WindowedLayers read_windows(Document& document, ObjectReader& model, std::string_view type);

/// E0214: positions that turn a part of a head.
void check_whole_rotation(Document& document, ObjectReader& reader);

/// The member's line, or the whole object's.
Node const& place_of(Document const& document, ObjectReader& object, char const* name);

}  // namespace tessera::json
