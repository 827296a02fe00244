// SPDX-License-Identifier: Apache-2.0
// How a layer is cut where it is a launch of its own, and what a block holds then.
#include "kernels/convolution/layer_cut.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kernels/convolution/layer_time.hpp"

namespace tessera::convolution {
namespace {

// Of an SM of sm_90: what one block may have.
constexpr int k_whole = 227 * 1024;
constexpr int k_most_slots = 40, k_most_patches = 4;
constexpr int k_most_sources = 32;

Expected<void> refused(std::string message, std::string way_out, std::size_t layer) {
  Diagnostic one{"E0567", Severity::error, {}, std::move(message), {}, std::move(way_out)};
  one.notes.push_back(fmt::format("layer {} of the chain", layer));
  return refuse(std::move(one));
}

/// A cut of a launch with roles, with a row of the filter in a slot.
Cut with_rows_of_filter(Cut cut, Layer const& layer) {
  cut.taps_per_slot = layer.kernel;
  return cut;
}

bool fits_layer(ConvStage const& stage) {
  return sources_of(stage.cut) <= k_most_sources && memory_of(stage).slots > 0;
}

}  // namespace

LayerMemory memory_of(ConvStage const& s) {
  LayerMemory m;
  m.slot_bytes = s.slot_bytes(), m.patch_bytes = s.patch_bytes();
  if (s.cut.adds_up()) m.sum_bytes = 4 * s.cut.pitch() * s.cut.columns() * s.cut.depth_warps;
  for (int const limit : {k_half_of_sm, k_whole})
    for (m.patches = std::min(s.chunks, k_most_patches); m.patches > 0; --m.patches) {
      m.slots = 0;
      int const room = (limit - m.bytes()) / (m.slot_bytes + 16);
      if (room < std::min(s.slots(), limit == k_half_of_sm ? 4 : 2)) continue;
      m.slots = std::min({s.slots(), room, k_most_slots});
      return m;
    }
  m.slots = m.patches = 0;
  return m;
}

std::vector<Cut> layer_cuts(ImageSize const& input, Layer const& layer, int images, int sms,
                            std::size_t most) {
  std::vector<std::pair<double, Cut>> found;
  for (int const splits : {1, 2, 4, 8})
    for (auto const& of_roles : cuts_of(input, layer, images, splits)) {
      auto const cut = with_rows_of_filter(of_roles, layer);
      auto const stage = stage_of(input, layer, images, cut, nullptr);
      if (fits_layer(stage)) found.emplace_back(layer_cycles(stage, layer.residual != -1, sms), cut);
    }
  std::stable_sort(found.begin(), found.end(),
                   [](auto const& a, auto const& b) { return a.first < b.first; });
  // Boxes that are nearly alike take nearly the same: of each way to divide warps and depth two come first.
  std::vector<std::pair<Cut, int>> seen;
  std::vector<bool> taken(found.size());
  std::size_t count = 0;
  for (int const of_each : {2, std::numeric_limits<int>::max()})
    for (std::size_t i = 0; i < found.size() && count < most; ++i) {
      auto division = found[i].second;
      division.box_width = division.box_height = division.box_images = 0;
      auto const known =
          std::find_if(seen.begin(), seen.end(), [&](auto const& one) { return one.first == division; });
      auto& times = known != seen.end() ? known->second : seen.emplace_back(division, 0).second;
      if (taken[i] || times >= of_each) continue;
      taken[i] = true, ++times, ++count;
    }
  std::vector<Cut> result;
  for (std::size_t i = 0; i < found.size(); ++i)
    if (taken[i]) result.push_back(found[i].second);
  return result;
}

Expected<std::vector<ChainPart>> cut_layers(LayerChain const& chain, int sms, ConvOptions const& options) {
  if (auto ok = check_chain(chain); !ok) return tl::make_unexpected(ok.error());
  if (!options.cuts.empty() && options.cuts.size() != chain.layers.size())
    return tl::make_unexpected(
        refused(fmt::format("{} cuts of {} convolutions", options.cuts.size(), chain.layers.size()),
                "give one for each layer", chain.layers.size() - 1)
            .error());
  auto const sizes = sizes_of(chain);
  std::vector<ChainPart> result;
  for (std::size_t l = 0; l < chain.layers.size(); ++l) {
    auto layer = chain.layers[l];
    auto const cuts = options.cuts.empty() ? layer_cuts(sizes[l], layer, chain.images, sms, 1)
                                           : std::vector<Cut>{with_rows_of_filter(options.cuts[l], layer)};
    if (cuts.empty())
      return tl::make_unexpected(
          refused("no way to cut a convolution that fits into an SM", "see whether its sizes are meant", l)
              .error());
    auto const stage = stage_of(sizes[l], layer, chain.images, cuts.front(), nullptr);
    if (!options.cuts.empty()) {
      auto const all = cuts_of(sizes[l], layer, chain.images, cuts.front().splits);
      bool const known = std::any_of(all.begin(), all.end(), [&](Cut const& one) {
        return with_rows_of_filter(one, layer) == cuts.front();
      });
      if (!known || !fits_layer(stage))
        return tl::make_unexpected(refused(fmt::format("a convolution cut into {}", to_string(cuts.front())),
                                           "take one of layer_cuts(), or none", l)
                                       .error());
    }
    ChainPart part;
    part.first = l;
    // An older activation that it adds is none of this launch's.
    if (layer.residual >= 0) layer.residual = k_given_residual;
    part.chain = {chain.images, sizes[l].height, sizes[l].width, sizes[l].channels, {layer}, chain.type};
    part.cut.stages = {stage};
    part.cut.splits = cuts.front().splits;
    part.cut.workers = stage.tiles();
    part.cut.price = layer_cycles(stage, layer.residual != -1, sms);
    result.push_back(std::move(part));
  }
  return result;
}

}  // namespace tessera::convolution
