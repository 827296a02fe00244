// SPDX-License-Identifier: Apache-2.0
// Where a chain parts into launches: dynamic programming over the places where it may.
#include <algorithm>
#include <limits>

#include "kernels/convolution/chain_plan.hpp"

namespace tessera::convolution {
namespace {

/// Of a launch that starts early behind the one before: as long as it takes until its first tile multiplies,
/// less what a boundary between two layers of a launch costs.
constexpr double k_launch = 5000;

/// Does any layer from `at` on add something that is older than the input of layer `at`?
bool reaches_over(LayerChain const& chain, std::size_t at) {
  for (std::size_t l = at; l < chain.layers.size(); ++l)
    if (int const residual = chain.layers[l].residual; residual >= 0 && residual < static_cast<int>(at))
      return true;
  return false;
}

/// Layers before which a launch may begin, and the number of layers: where sizes change, or all.
std::vector<std::size_t> places_to_part(LayerChain const& chain, std::vector<ImageSize> const& sizes,
                                        bool all) {
  std::vector<std::size_t> result = {0};
  for (std::size_t l = 1; l < chain.layers.size(); ++l)
    if ((all || !(sizes[l] == sizes[l + 1])) && !reaches_over(chain, l)) result.push_back(l);
  result.push_back(chain.layers.size());
  return result;
}

LayerChain layers_of(LayerChain const& chain, std::vector<ImageSize> const& sizes, std::size_t first,
                     std::size_t end) {
  auto const& input = sizes[first];
  LayerChain result{chain.images, input.height, input.width, input.channels, {}, chain.type};
  for (std::size_t l = first; l < end; ++l) {
    result.layers.push_back(chain.layers[l]);
    if (auto& residual = result.layers.back().residual; residual >= 0) residual -= static_cast<int>(first);
  }
  return result;
}

/// The cheapest launches that begin at such places.
Expected<std::vector<ChainPart>> cut_at(LayerChain const& chain, Places const& places,
                                        std::vector<ImageSize> const& sizes,
                                        std::vector<std::size_t> const& at) {
  // Of the layers before at[i]: the least price, and the launches that have it.
  struct Best {
    double price = std::numeric_limits<double>::infinity();
    std::vector<ChainPart> parts;
  };
  std::vector<Best> best(at.size());
  best[0].price = 0;
  Diagnostics why;
  for (std::size_t end = 1; end < at.size(); ++end)
    for (std::size_t begin = 0; begin < end; ++begin) {
      auto part = layers_of(chain, sizes, at[begin], at[end]);
      auto cut = cut_chain(part, places);
      if (!cut) {
        why = cut.error();
        continue;
      }
      double const price = best[begin].price + cut->price + k_launch;
      if (price >= best[end].price) continue;
      best[end] = {price, best[begin].parts};
      best[end].parts.push_back({at[begin], std::move(part), std::move(*cut)});
    }
  if (best.back().parts.empty()) return tl::make_unexpected(why);
  return std::move(best.back().parts);
}

}  // namespace

Expected<std::vector<ChainPart>> cut_launches(LayerChain const& chain, Places const& places,
                                              ConvOptions const& options) {
  if (options.splits != 0 || !options.cuts.empty()) {
    auto cut = cut_chain(chain, places, options);
    if (!cut) return tl::make_unexpected(cut.error());
    return std::vector<ChainPart>{{0, chain, std::move(*cut)}};
  }
  if (auto ok = check_chain(chain); !ok) return tl::make_unexpected(ok.error());
  auto const sizes = sizes_of(chain);
  auto found = cut_at(chain, places, sizes, places_to_part(chain, sizes, false));
  // Slots of a launch are as large as its largest layer's: one whose layers differ may not fit.
  if (!found) found = cut_at(chain, places, sizes, places_to_part(chain, sizes, true));
  return found;
}

}  // namespace tessera::convolution
