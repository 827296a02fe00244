// SPDX-License-Identifier: Apache-2.0
// Whether files have the weights of a model, and no others.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "diagnostic/nearest.hpp"
#include "tessera/weights/bf16.hpp"
#include "tessera/weights/weight_files.hpp"

namespace tessera {
namespace {

constexpr std::size_t k_most_named = 3;

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

Diagnostic finding(std::string const& file, std::string message, std::string way_out,
                   std::vector<std::string> notes = {}) {
  return {"E0572", Severity::error, {file, 0}, std::move(message), std::move(notes), std::move(way_out)};
}

/// "a, b, c and 5 more"
std::string some_of(std::vector<std::string> const& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), k_most_named); ++i)
    text += (i > 0 ? ", " : "") + names[i].substr(0, 120);
  if (names.size() > k_most_named) text += fmt::format(" and {} more", names.size() - k_most_named);
  return text;
}

/// How packages that quantize end the names of what they add.
bool is_of_quantized(std::string const& name) {
  for (auto const* end : {".weight_scale", ".weight_scale_inv", ".weight_scale_2", ".weight_packed",
                          ".weight_shape", ".weight_zero_point", ".input_scale", ".qweight", ".qzeros",
                          ".scales", ".g_idx", ".absmax", ".quant_map", ".SCB", ".weight_format"})
    if (ends_with(name, end)) return true;
  return name.find(".quant_state.") != std::string::npos;
}

/// What there is: in files, or elsewhere.
struct Listing {
  struct One {
    StoredTensor const* tensor;
    std::string const* path;
  };
  std::string path;
  std::map<std::string_view, One> tensors;

  One const* find(std::string_view name) const {
    auto const found = tensors.find(name);
    return found == tensors.end() ? nullptr : &found->second;
  }
};

struct Extras {
  std::vector<std::string> quantized, biases, others;
};
Extras extras_of(Listing const& listing, WantedTensors const& wanted) {
  Extras extras;
  std::map<std::string_view, bool> read;
  for (auto const& one : wanted.tensors) read[one.name] = true;
  for (auto const& [name, one] : listing.tensors) {
    auto const ignored =
        std::any_of(wanted.ignored_ends.begin(), wanted.ignored_ends.end(),
                    [&, name = name](std::string const& end) { return ends_with(name, end); });
    if (read.count(name) > 0 || ignored) continue;
    auto const& whole = one.tensor->name;
    (is_of_quantized(whole)      ? extras.quantized
     : ends_with(whole, ".bias") ? extras.biases
                                 : extras.others)
        .push_back(whole);
  }
  return extras;
}

/// "model.layers.3.x" without what files of a bare model leave out.
std::string hint_for(Listing const& listing, std::string const& missing,
                     std::vector<std::string> const& unread, std::string const& whole) {
  for (std::string const prefix : {"model.", "language_model."}) {
    if (missing.rfind(prefix, 0) == 0 && listing.find(missing.substr(prefix.size())) != nullptr)
      return fmt::format("here it is called \"{}\": save the model with its head (AutoModelForCausalLM)",
                         missing.substr(prefix.size()));
    if (listing.find(prefix + missing) != nullptr)
      return fmt::format("here it is called \"{}\": save the language model alone", prefix + missing);
  }
  auto const near = did_you_mean(missing, unread);
  return near.empty() ? whole : near;
}

Expected<void> check(Listing const& listing, WantedTensors const& wanted) {
  Diagnostics found;
  std::vector<std::string> missing;
  auto const whole = "see that the weights are those of " + wanted.source;
  auto const extras = extras_of(listing, wanted);
  if (!extras.quantized.empty()) {
    found.push_back(finding(listing.path,
                            fmt::format("the weights are quantized: {}", some_of(extras.quantized)),
                            "name a folder with the weights as BF16, F16 or F32"));
    return tl::make_unexpected(found);
  }
  std::size_t others = 0;
  for (auto const& one : wanted.tensors) {
    auto const* const found_there = listing.find(one.name);
    if (found_there == nullptr) {
      missing.push_back(one.name);
      continue;
    }
    auto const* const tensor = found_there->tensor;
    bool const shape = tensor->shape == one.shape, type = converts_to_bf16(tensor->type);
    if ((shape && type) || ++others > k_most_named) continue;
    auto const is = to_text(tensor->shape, tensor->type);
    found.push_back(shape ? finding(*found_there->path, fmt::format("{} is {}", one.name, is),
                                    "weights are read as BF16, F16 or F32: save them so")
                          : finding(*found_there->path,
                                    fmt::format("{} is {}, and the model's is {}", one.name, is,
                                                to_text(one.shape, type ? tensor->type : "BF16")),
                                    whole));
  }
  if (others > k_most_named)
    found.push_back(
        finding(listing.path,
                fmt::format("{} tensors more are of other shapes or types", others - k_most_named), whole));
  if (!missing.empty())
    found.insert(found.begin(), finding(listing.path,
                                        fmt::format("{} of {} tensors are missing: {}", missing.size(),
                                                    wanted.tensors.size(), some_of(missing)),
                                        hint_for(listing, missing.front(), extras.others, whole)));
  if (!extras.biases.empty())
    found.push_back(
        finding(listing.path, fmt::format("products have biases: {}", some_of(extras.biases)),
                fmt::format("a model of {} has none: see that the weights are those of it", wanted.source)));
  if (!extras.others.empty())
    found.push_back(finding(
        listing.path, fmt::format("nobody reads {}, so this would be another model", some_of(extras.others)),
        whole));
  if (!found.empty()) return tl::make_unexpected(std::move(found));
  return {};
}

}  // namespace

Expected<void> check_tensors(WeightFiles const& files, WantedTensors const& wanted) {
  Listing listing{files.path(), {}};
  for (auto const& one : files.tensors()) listing.tensors[one.name] = {&one, &files.path_of(one)};
  return check(listing, wanted);
}

Expected<void> check_tensors(std::vector<StoredTensor> const& tensors, std::string const& place,
                             WantedTensors const& wanted) {
  Listing listing{place, {}};
  for (auto const& one : tensors) listing.tensors[one.name] = {&one, &listing.path};
  return check(listing, wanted);
}

std::string conversion_text(WeightFiles const& files, WantedTensors const& wanted) {
  std::map<std::string, std::size_t> counts;
  for (auto const& one : wanted.tensors)
    if (auto const* const tensor = files.find(one.name); tensor != nullptr) ++counts[tensor->type];
  counts.erase("BF16");
  if (counts.empty()) return "BF16 as stored";
  std::string text;
  for (auto const& [type, count] : counts)
    text += fmt::format("{}{} tensor{} of {}", text.empty() ? "" : ", ", count, count == 1 ? "" : "s", type);
  return text + " rounded to BF16";
}

}  // namespace tessera
