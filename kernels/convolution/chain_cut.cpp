// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tessera/run/role_kernel.cuh>

#include "kernels/convolution/chain_plan.hpp"

namespace tessera::convolution {
namespace {

constexpr int k_shared_bytes = 227 * 1024;
constexpr int k_target_slot_bytes =
    24 * 1024;                              ///< of filters: a thread issues a load every 300 to 570 cycles
constexpr int k_late_slots = k_late_warps;  ///< of patches
constexpr int k_most_box = 256;             ///< that the copy engine takes, of a dimension

static_assert(sizeof(ConvStage) <= k_role_argument_bytes, "a block keeps a copy of a job's arguments");

// Figures behind price_of(), of an SM of an H200 in cycles; docs/design/notes-convolution.md says where each
// comes from.
constexpr double k_instruction = 1.65;      ///< 16 x 8 x 16 multiplications by mma.sync, four at a time
constexpr double k_wide_instruction = 1.1;  ///< of the peak's time, by warpgroups
constexpr double k_matrices = 4;            ///< four matrices from shared memory to registers
constexpr double k_step_latency = 60;       ///< of a warp's step that waits for its own operands
constexpr double k_bytes_per_cycle = 36;    ///< from the L2, of each SM while all load: 8.3 TB/s
constexpr double k_boundary = 8000;         ///< post, poll and the first load, from layer to layer
constexpr double k_tap = 200;               ///< at least, of a chunk: loads, barriers and addresses
constexpr double k_cluster_exchange = 900;  ///< a round through distributed shared memory
constexpr double k_job = 400;               ///< a tile's fixed costs

Expected<void> refused(std::string message, std::string way_out, int layer = -1) {
  Diagnostic one{"E0567", Severity::error, {}, std::move(message), {}, std::move(way_out)};
  if (layer >= 0) one.notes.push_back(fmt::format("layer {} of the chain", layer));
  return refuse(std::move(one));
}

/// How warps are divided, for so many tiles of 16 channels by 8 pixels each.
struct Warps {
  int row_tiles, column_tiles, row_warps, column_warps, depth_warps, wide = 0;
};

std::vector<Warps> const& all_warps() {
  static auto const all = [] {
    std::vector<Warps> result;
    for (int row_tiles = 1; row_tiles <= k_most_row_tiles; row_tiles *= 2)
      for (int const column_tiles : k_column_tiles)
        for (int row_warps = 1; row_warps <= k_warps; row_warps *= 2)
          for (int column_warps = 1; row_warps * column_warps <= k_warps; column_warps *= 2) {
            int const rows = 16 * row_tiles * row_warps, columns = 8 * column_tiles * column_warps;
            int const depth = k_warps / (row_warps * column_warps);
            if (rows < 32 || rows > 128 || columns > k_most_columns || !compiled(row_tiles, depth)) continue;
            result.push_back({row_tiles, column_tiles, row_warps, column_warps, depth});
          }
    for (int const tiles : k_wide_tiles)
      for (auto const& [rows, columns, depth] : {std::array{2, 1, 1}, {1, 2, 1}, {1, 1, 2}})
        result.push_back({4, tiles, rows, columns, depth, 1});
    return result;
  }();
  return all;
}

bool is_divided(Cut const& cut, Warps const& w) {
  return w.row_tiles == cut.row_tiles && w.column_tiles == cut.column_tiles && w.row_warps == cut.row_warps &&
         w.column_warps == cut.column_warps && w.depth_warps == cut.depth_warps && w.wide == cut.wide;
}

/// Do a box's pixels fit the columns, and no fewer would do?
bool fits_columns(ConvStage const& s) {
  auto const& c = s.cut;
  if (c.wide != 0) {
    bool const parts = c.box_images > 1 ? c.box_images == c.column_warps : c.box_height % c.column_warps == 0;
    return parts && s.stride == 1 && s.lines_of_part() <= 8 * c.column_tiles;
  }
  return c.pixels() <= c.columns();
}
bool wastes_columns(ConvStage const& s) {
  auto const& c = s.cut;
  auto const before = [&](auto const& kinds) {
    auto const* const own = std::find(std::begin(kinds), std::end(kinds), c.column_tiles);
    return own == std::begin(kinds) ? 0 : 8 * *(own - 1);
  };
  if (c.wide != 0) return s.lines_of_part() <= before(k_wide_tiles);
  return c.pixels() <= before(k_column_tiles) * c.column_warps;
}

/// Boxes of pixels that may be worth trying: bands of whole rows, squares, and whole images.
std::vector<Cut> boxes(int width, int height, int images) {
  std::vector<Cut> result;
  auto const add = [&](int w, int h, int n) {
    Cut cut;
    cut.box_width = w, cut.box_height = h, cut.box_images = n;
    if (cut.pixels() <= k_most_columns && std::find(result.begin(), result.end(), cut) == result.end())
      result.push_back(cut);
  };
  for (int parts = 1; parts <= width; parts *= 2) {
    int const w = (width + parts - 1) / parts;
    for (int h = 1; h <= height && w * h <= k_most_columns; ++h) {
      // As even as can be: 4 rows of 14 are 3 to a box, and 5 boxes.
      int const tiles = (height + h - 1) / h;
      add(w, (height + tiles - 1) / tiles, 1);
      add(w, h, 1);
    }
  }
  for (int n = 2; n <= images && n * width * height <= k_most_columns; ++n) {
    int const tiles = (images + n - 1) / n;
    add(width, height, (images + tiles - 1) / tiles);
  }
  return result;
}

int taps_per_slot(int kernel, int rows) {
  for (int const taps : {kernel * kernel, kernel})
    if (k_line * rows * taps <= k_target_slot_bytes) return taps;
  return 1;
}

RoleRings rings_of(std::vector<ConvStage> const& stages) {
  RoleRings rings;
  rings.late_slots = k_late_slots;
  for (auto const& s : stages) {
    rings.slot_bytes = std::max(rings.slot_bytes, s.slot_bytes());
    rings.late_slot_bytes = std::max(rings.late_slot_bytes, s.patch_bytes());
    rings.scratch_bytes = std::max(rings.scratch_bytes, s.scratch_bytes());
    if (s.cut.splits > 1)
      rings.exchange_bytes = std::max(rings.exchange_bytes, s.cut.columns() * s.cut.rows() * 4);
  }
  int const room = k_shared_bytes - shared_bytes_of(rings);
  rings.slots = std::clamp(room / rings.slot_bytes, 0, k_role_slots);
  return rings;
}

bool fits(ConvStage const& stage) {
  return stage.patch_width() <= k_most_box && stage.patch_height() <= k_most_box &&
         stage.cut.box_images <= k_most_box && rings_of({stage}).slots >= k_early_warps;
}

/// Refuses a cut that somebody asked for.
Expected<void> check_cut(ImageSize const& input, Layer const& layer, int images, Cut const& cut, int number) {
  auto const no = [&](char const* why) {
    return refused(fmt::format("a convolution cut into {}: {}", to_string(cut), why),
                   "take one of cuts_of(), or none", number);
  };
  bool const known =
      std::any_of(all_warps().begin(), all_warps().end(), [&](Warps const& w) { return is_divided(cut, w); });
  if (!known) return no("no kernel divides its warps so");
  auto const output = output_size(input, layer);
  if (cut.box_width < 1 || cut.box_height < 1 || cut.box_images < 1 ||
      !fits_columns(stage_of(input, layer, images, cut, nullptr)))
    return no("its pixels are not as many as its columns, or fewer");
  if (cut.box_images > 1 && (cut.box_width < output.width || cut.box_height < output.height))
    return no("a box of several images has whole ones");
  if (cut.box_width > output.width || cut.box_height > output.height || cut.box_images > images)
    return no("it is larger than the result");
  if (layer.channels % cut.rows() != 0) return no("its channels do not divide the layer's");
  if (cut.taps_per_slot < 1 || layer.kernel * layer.kernel % cut.taps_per_slot != 0)
    return no("its slots do not divide the filter's pixels");
  if (!fits(stage_of(input, layer, images, cut, nullptr))) return no("its slots do not fit into an SM");
  return {};
}

/// With so many splits in all layers. None: a layer does not have them.
Expected<CutChain> cut_with(LayerChain const& chain, Places const& places, int splits,
                            std::vector<Cut> const& wanted) {
  CutChain result;
  result.splits = splits;
  result.workers = places.blocks(splits);
  auto const sizes = sizes_of(chain);
  for (std::size_t l = 0; l < chain.layers.size(); ++l) {
    auto const& layer = chain.layers[l];
    auto const* const before = result.stages.empty() ? nullptr : &result.stages.back();
    int const number = static_cast<int>(l);
    if (sizes[l].channels / k_chunk % splits != 0)
      return tl::make_unexpected(
          refused(fmt::format("{} channels of a convolution shared by {} blocks", sizes[l].channels, splits),
                  fmt::format("ask for fewer splits: each takes chunks of {}", k_chunk), number)
              .error());
    ConvStage best;
    double least = std::numeric_limits<double>::infinity();
    if (!wanted.empty()) {
      if (auto ok = check_cut(sizes[l], layer, chain.images, wanted[l], number); !ok)
        return tl::make_unexpected(ok.error());
      best = stage_of(sizes[l], layer, chain.images, wanted[l], before);
      least = price_of(best, result.workers);
    } else {
      for (auto const& cut : cuts_of(sizes[l], layer, chain.images, splits)) {
        auto const stage = stage_of(sizes[l], layer, chain.images, cut, before);
        if (double const price = price_of(stage, result.workers); price < least) least = price, best = stage;
      }
      if (!std::isfinite(least))
        return tl::make_unexpected(refused("no way to cut a convolution that fits into an SM",
                                           "see whether its sizes are meant", number)
                                       .error());
    }
    result.price += least;
    result.stages.push_back(best);
  }
  // Slots of a ring are all alike: the largest layer's.
  result.rings = rings_of(result.stages);
  if (result.rings.slots < k_early_warps)
    return tl::make_unexpected(
        refused(fmt::format("there is room for {} slots of {} bytes of filters beside {} of {} for pixels",
                            result.rings.slots, result.rings.slot_bytes, result.rings.late_slots,
                            result.rings.late_slot_bytes),
                "split the chain, or give cuts whose slots are alike")
            .error());
  int most = 0;
  for (auto const& stage : result.stages) most = std::max(most, stage.tiles());
  result.workers = std::min(result.workers, most);
  return result;
}

}  // namespace

int Places::blocks(int splits) const {
  switch (splits) {
    case 1: return sms;
    case 2: return 2 * clusters[0];
    case 4: return 4 * clusters[1];
    case 8: return 8 * clusters[2];
    default: return 0;
  }
}

std::vector<Cut> cuts_of(ImageSize const& input, Layer const& layer, int images, int splits) {
  std::vector<Cut> result;
  if (input.channels / k_chunk % splits != 0) return result;
  auto const output = output_size(input, layer);
  for (auto cut : boxes(output.width, output.height, images)) {
    for (auto const& w : all_warps()) {
      cut.row_tiles = w.row_tiles, cut.column_tiles = w.column_tiles;
      cut.row_warps = w.row_warps, cut.column_warps = w.column_warps, cut.depth_warps = w.depth_warps;
      cut.wide = w.wide;
      cut.splits = splits;
      // No warp's last 8 columns are all padding.
      auto const uncut = stage_of(input, layer, images, cut, nullptr);
      if (!fits_columns(uncut) || wastes_columns(uncut)) continue;
      if (layer.channels % cut.rows() != 0) continue;
      cut.taps_per_slot = taps_per_slot(layer.kernel, cut.rows());
      if (fits(stage_of(input, layer, images, cut, nullptr))) result.push_back(cut);
    }
  }
  return result;
}

ConvStage stage_of(ImageSize const& input, Layer const& layer, int images, Cut const& cut,
                   ConvStage const* before) {
  auto const output = output_size(input, layer);
  ConvStage s;
  s.images = images;
  s.height = output.height, s.width = output.width, s.channels = output.channels;
  s.input_height = input.height, s.input_width = input.width;
  s.kernel = layer.kernel, s.stride = layer.stride, s.padding = layer.padding;
  s.relu = layer.relu ? 1 : 0;
  s.cut = cut;
  s.chunks = input.channels / k_chunk / cut.splits;
  if (before != nullptr)
    s.producer = {before->cut.box_width, before->cut.box_height, before->cut.box_images, before->cut.rows(),
                  before->cut.splits,    before->tiles_x(),      before->tiles_y()};
  return s;
}

double price_of(ConvStage const& s, int workers) {
  auto const& c = s.cut;
  double const steps = 4.0 * s.taps() * s.chunks;
  double multiply = k_instruction * (c.rows() / 16) * (c.columns() / 8);
  double matrices = k_matrices * c.row_warps * c.column_warps * (c.row_tiles + (c.column_tiles + 1) / 2);
  if (c.wide != 0) {
    // Warpgroups read their operands from shared memory themselves: 64 rows and all columns of 32 bytes.
    int const warpgroups = c.row_warps * c.column_warps, columns = 8 * c.column_tiles;
    multiply = k_wide_instruction * warpgroups * columns / 2;
    matrices = warpgroups * (64 + columns) * 32 / 128.0;
  }
  double const compute = std::max({steps * multiply, steps * matrices, steps / c.depth_warps * k_step_latency,
                                   k_tap * s.taps() * s.chunks});
  double const sums = 4.0 * c.columns() * c.rows();
  double epilogue = 2 * sums * c.depth_warps / 128 + 300;
  if (c.splits > 1) epilogue += k_cluster_exchange + sums / 16;
  int const tiles = s.tiles(), waves = (tiles + workers - 1) / workers;
  double const busy = std::min(1.0, static_cast<double>(tiles) / workers);
  double const patch = 1.0 * k_line * s.patch_lines();
  double const load =
      busy * (1.0 * k_line * c.rows() * s.taps() * s.chunks + patch * s.chunks) / k_bytes_per_cycle;
  return waves * (std::max(compute, load) + epilogue + k_job) + k_boundary + busy * patch / k_bytes_per_cycle;
}

Expected<CutChain> cut_chain(LayerChain const& chain, Places const& places, ConvOptions const& options) {
  if (auto ok = check_chain(chain); !ok) return tl::make_unexpected(ok.error());
  if (options.splits != 0 && places.blocks(options.splits) == 0)
    return tl::make_unexpected(
        refused(fmt::format("tiles of convolutions shared by {} blocks", options.splits),
                "ask for 1, 2, 4 or 8, or 0: what is cheapest")
            .error());
  if (!options.cuts.empty()) {
    bool alike = options.cuts.size() == chain.layers.size();
    for (auto const& cut : options.cuts) alike = alike && cut.splits == options.cuts.front().splits;
    if (!alike || places.blocks(options.cuts.front().splits) == 0)
      return tl::make_unexpected(
          refused(fmt::format("{} cuts of {} convolutions", options.cuts.size(), chain.layers.size()),
                  "give one for each layer, with the same 1, 2, 4 or 8 splits")
              .error());
    return cut_with(chain, places, options.cuts.front().splits, options.cuts);
  }
  if (options.splits != 0) return cut_with(chain, places, options.splits, {});
  auto best = cut_with(chain, places, 1, {});
  for (int const splits : {2, 4, 8}) {
    auto const other = cut_with(chain, places, splits, {});
    if (other && (!best || other->price < best->price)) best = other;
  }
  return best;
}

std::vector<ConvOptions> chain_options(LayerChain const& chain, Places const& places, std::size_t most) {
  std::vector<std::pair<double, ConvOptions>> found;
  if (!check_chain(chain)) return {};
  auto const sizes = sizes_of(chain);
  for (int const splits : {1, 2, 4, 8})
    for (auto const& w : all_warps()) {
      ConvOptions options;
      options.by_layer = false;
      for (std::size_t l = 0; l < chain.layers.size(); ++l) {
        double least = std::numeric_limits<double>::infinity();
        Cut best;
        for (auto const& cut : cuts_of(sizes[l], chain.layers[l], chain.images, splits)) {
          if (!is_divided(cut, w)) continue;
          auto const stage = stage_of(sizes[l], chain.layers[l], chain.images, cut, nullptr);
          if (double const price = price_of(stage, places.blocks(splits)); price < least)
            least = price, best = cut;
        }
        if (!std::isfinite(least)) break;
        options.cuts.push_back(best);
      }
      if (options.cuts.size() < chain.layers.size()) continue;
      if (auto const cut = cut_chain(chain, places, options)) found.emplace_back(cut->price, options);
    }
  std::stable_sort(found.begin(), found.end(),
                   [](auto const& a, auto const& b) { return a.first < b.first; });
  std::vector<ConvOptions> result;
  for (auto& [price, options] : found)
    if (result.size() < most) result.push_back(std::move(options));
  return result;
}

std::string to_string(Cut const& c) {
  return fmt::format("{} channels x {}x{}x{} pixels, {} {}x{}x{}, {} split{}", c.rows(), c.box_width,
                     c.box_height, c.box_images, c.wide != 0 ? "warpgroups" : "warps", c.row_warps,
                     c.column_warps, c.depth_warps, c.splits, c.splits == 1 ? "" : "s");
}

}  // namespace tessera::convolution
