// SPDX-License-Identifier: Apache-2.0
// A convolution as a stage of a launch: how it is cut into tiles, what a launch tells the operation about it,
// and which tiles of the stage before a tile reads. For device code, too.
#pragma once

#include <tessera/sync/tile.cuh>

namespace tessera::few_tokens {
struct TileTimes;
}

namespace tessera::convolution {

constexpr int k_warps = 8;           ///< that multiply
constexpr int k_most_columns = 256;  ///< pixels of a tile
constexpr int k_line = 128;          ///< bytes of a chunk of channels of a pixel, or of a filter's row

/// Warps that share the depth divide the 4 steps of 16 channels of each tap, and 8 of them the taps as well.
TESSERA_HOST_DEVICE constexpr int steps_of(int depth_warps) { return depth_warps < 4 ? 4 / depth_warps : 1; }
/// Which kernels there are: 16 channels to a warp where many share the depth.
TESSERA_HOST_DEVICE constexpr bool compiled(int row_tiles, int depth_warps) {
  return row_tiles == 2 || (row_tiles == 1 && depth_warps >= 4);
}
constexpr int k_most_row_tiles = 2;
/// Pixels of a warp, in tiles of 8: those that are compiled.
constexpr int k_column_tiles[] = {2, 4, 5, 7};
constexpr int k_column_kinds = sizeof k_column_tiles / sizeof *k_column_tiles;

constexpr int k_warpgroups = k_warps / 4;
/// Columns of the warpgroup's instruction, in tiles of 8: those that are compiled.
constexpr int k_wide_tiles[] = {4, 8, 12, 14, 15, 16};
constexpr int k_wide_kinds = sizeof k_wide_tiles / sizeof *k_wide_tiles;

/// A tile: some channels of a box of pixels of neighbouring images. Channels are the rows of the matrix
/// instruction, pixels its columns.
struct Cut {
  int box_width = 8, box_height = 8, box_images = 1;
  /// Of a warp: so many times 16 channels by 8 pixels. k_warps are divided among channels, pixels and the
  /// depth, whose sums are added up.
  int row_tiles = 1, column_tiles = 2;
  int row_warps = 1, column_warps = 1, depth_warps = 8;
  /// 1: by warpgroups, which multiply 64 channels by whole lines of a patch, the pixels between rows
  /// included; `row_tiles` is 4, and the two of them are divided as warps are. For stride 1.
  int wide = 0;
  int splits = 1;         ///< blocks of a cluster that share the input's channels
  int taps_per_slot = 1;  ///< pixels of the filter that are loaded at a time; they divide its pixels

  TESSERA_HOST_DEVICE constexpr int rows() const { return 16 * row_tiles * row_warps; }
  TESSERA_HOST_DEVICE constexpr int columns() const { return 8 * column_tiles * column_warps; }
  TESSERA_HOST_DEVICE constexpr int pixels() const { return box_width * box_height * box_images; }
  /// Floats from column to column where the sums of warps meet in shared memory, or one warp turns its own:
  /// 4 more than a multiple of 16, so that lanes of a warp store to 32 banks.
  TESSERA_HOST_DEVICE constexpr int pitch() const {
    return (adds_up() ? rows() : 16 * (wide != 0 ? 1 : row_tiles)) + 4;
  }
  /// Rows of pixels of a part of the columns that a warpgroup has: of an image, if there are several.
  TESSERA_HOST_DEVICE constexpr int rows_of_part() const {
    return box_images > 1 ? box_height : box_height / column_warps;
  }
  /// Are a tile's sums put together from several warps or blocks?
  TESSERA_HOST_DEVICE constexpr bool adds_up() const { return depth_warps > 1 || splits > 1; }
#if !defined(__CUDACC_RTC__)
  bool operator==(Cut const&) const = default;
#endif
};

/// How the stage before is cut.
struct ProducerCut {
  int box_width = 1, box_height = 1, box_images = 1;
  int rows = 0;  ///< channels of a tile; 0: no stage of the launch writes the input
  int splits = 1;
  int tiles_x = 1, tiles_y = 1;
};

/// A half-open range.
struct Span {
  int begin = 0, end = 0;
  TESSERA_HOST_DEVICE constexpr int size() const { return end - begin; }
};

/// Where a tile stands.
struct TilePlace {
  int split = 0, x = 0, y = 0, image = 0, row = 0;  ///< `image` and `row`: of boxes, of channels
};

/// What a launch tells the operation about a stage.
struct ConvStage {
  void const* filter_map = nullptr;  ///< CUtensorMaps in device memory
  void const* input_map = nullptr;
  void* output = nullptr;
  void const* bias = nullptr;                            ///< [channels]; null: none
  void const* residual = nullptr;                        ///< as the output; null: none
  int images = 1, height = 1, width = 1, channels = 64;  ///< of the output
  int input_height = 1, input_width = 1;
  int kernel = 3, stride = 1, padding = 1;
  int relu = 1;
  int chunks = 1;                          ///< of the input's channels, that a tile multiplies
  few_tokens::TileTimes* times = nullptr;  ///< [tile]; null: nobody measures
  Cut cut;
  ProducerCut producer;

  TESSERA_HOST_DEVICE constexpr int taps() const { return kernel * kernel; }
  TESSERA_HOST_DEVICE constexpr int tiles_x() const { return (width + cut.box_width - 1) / cut.box_width; }
  TESSERA_HOST_DEVICE constexpr int tiles_y() const { return (height + cut.box_height - 1) / cut.box_height; }
  TESSERA_HOST_DEVICE constexpr int tiles_images() const {
    return (images + cut.box_images - 1) / cut.box_images;
  }
  TESSERA_HOST_DEVICE constexpr int tiles_rows() const { return channels / cut.rows(); }
  TESSERA_HOST_DEVICE constexpr int tiles() const {
    return cut.splits * tiles_x() * tiles_y() * tiles_images() * tiles_rows();
  }
  /// What a tile reads of an image: pixels and what is around them.
  TESSERA_HOST_DEVICE constexpr int patch_width() const { return (cut.box_width - 1) * stride + kernel; }
  TESSERA_HOST_DEVICE constexpr int patch_height() const { return (cut.box_height - 1) * stride + kernel; }
  TESSERA_HOST_DEVICE constexpr int patch_lines() const {
    return patch_width() * patch_height() * cut.box_images;
  }
  /// Of a patch, where the lines of a warpgroup's part of the columns begin.
  TESSERA_HOST_DEVICE constexpr int first_line(int part) const {
    return part * (cut.box_images > 1 ? patch_height() : cut.rows_of_part()) * patch_width();
  }
  /// Columns that such a part needs at least.
  TESSERA_HOST_DEVICE constexpr int lines_of_part() const {
    return cut.rows_of_part() * patch_width() - (kernel - 1);
  }
  /// Of a slot for patches. Columns behind the last row read what lies there: nobody uses their sums.
  TESSERA_HOST_DEVICE constexpr int patch_bytes() const {
    int const read = cut.wide == 0 ? 0
                                   : first_line(cut.column_warps - 1) + 8 * cut.column_tiles +
                                         (kernel - 1) * (patch_width() + 1);
    int const lines = patch_lines() > read ? patch_lines() : read;
    return (k_line * lines + 1023) / 1024 * 1024;
  }
  TESSERA_HOST_DEVICE constexpr int slots() const { return chunks * (taps() / cut.taps_per_slot); }
  TESSERA_HOST_DEVICE constexpr int slot_bytes() const { return k_line * cut.rows() * cut.taps_per_slot; }

  /// Of shared memory, to put results together: where columns lie, and behind it sums; or of each warp those
  /// of 8 columns.
  TESSERA_HOST_DEVICE constexpr int scratch_bytes() const {
    return k_most_columns * 8 +
           4 * cut.pitch() * (cut.adds_up() ? cut.depth_warps * cut.columns() : k_warps * 8);
  }

  /// The grid's dimensions, the fastest first: splits, x, y of every box of images, channels. So a tile's
  /// blocks are neighbours, and tiles of the same channels are.
  TESSERA_HOST_DEVICE constexpr TilePlace place(int tile) const {
    TilePlace at;
    at.split = tile % cut.splits, tile /= cut.splits;
    at.x = tile % tiles_x(), tile /= tiles_x();
    at.y = tile % tiles_y(), tile /= tiles_y();
    at.image = tile % tiles_images(), at.row = tile / tiles_images();
    return at;
  }
};

/// What a column of a tile is: the first line that it reads of a patch, and the pixel of the output; -1:
/// none.
struct Column {
  int line = 0, pixel = -1;
};
TESSERA_HOST_DEVICE constexpr Column column_of(ConvStage const& s, TilePlace const& at, int c) {
  auto const& cut = s.cut;
  int image = 0, x = 0, y = 0;
  bool there = true;
  Column result;
  if (cut.wide != 0) {  // columns are lines, some of them between rows
    int const of_part = 8 * cut.column_tiles, part = c / of_part, line = c % of_part;
    result.line = s.first_line(part) + line;
    y = line / s.patch_width(), x = line % s.patch_width();
    there = x < cut.box_width && y < cut.rows_of_part();
    if (cut.box_images > 1)
      image = part;
    else
      y += part * cut.rows_of_part();
  } else {  // columns behind the last pixel read what that one reads
    there = c < cut.pixels();
    int const pixel = there ? c : cut.pixels() - 1, of_box = cut.box_width * cut.box_height;
    image = pixel / of_box, y = pixel % of_box / cut.box_width, x = pixel % of_box % cut.box_width;
    result.line = (image * s.patch_height() + y * s.stride) * s.patch_width() + x * s.stride;
  }
  int const n = at.image * cut.box_images + image;
  int const row = at.y * cut.box_height + y, column = at.x * cut.box_width + x;
  if (there && n < s.images && row < s.height && column < s.width)
    result.pixel = (n * s.height + row) * s.width + column;
  return result;
}

/// Tiles of the stage before: every combination.
struct ReadTiles {
  Span splits, x, y, row;  ///< `y`: of every box of images

  TESSERA_HOST_DEVICE constexpr int count() const { return splits.size() * x.size() * y.size() * row.size(); }
  TESSERA_HOST_DEVICE constexpr Tile at(int i) const {
    Tile tile;
    tile.at[0] = splits.begin + i % splits.size(), i /= splits.size();
    tile.at[1] = x.begin + i % x.size(), i /= x.size();
    tile.at[2] = y.begin + i % y.size(), tile.at[3] = row.begin + i / y.size();
    return tile;
  }
};

/// Tiles of `edge` pixels that the outputs [begin, end) read of `size` pixels.
TESSERA_HOST_DEVICE constexpr Span boxes_read(Span outputs, ConvStage const& s, int size, int edge) {
  int const first = outputs.begin * s.stride - s.padding;
  int const last = (outputs.end - 1) * s.stride - s.padding + s.kernel - 1;
  return {(first < 0 ? 0 : first) / edge, (last < size ? last : size - 1) / edge + 1};
}
TESSERA_HOST_DEVICE constexpr Span box_of(int tile, int edge, int size) {
  return {tile * edge, (tile + 1) * edge < size ? (tile + 1) * edge : size};
}

/// What a tile reads of the stage before for one chunk of its channels: exactly the tiles that the pixels
/// around its own lie in, and never those of other images. All blocks that share such a tile's depth store a
/// part of it. Precondition: there is such a stage.
TESSERA_HOST_DEVICE constexpr ReadTiles tiles_read(ConvStage const& s, TilePlace const& at, int chunk) {
  constexpr int chunk_channels = 64;
  auto const& p = s.producer;
  auto const x = boxes_read(box_of(at.x, s.cut.box_width, s.width), s, s.input_width, p.box_width);
  auto const y = boxes_read(box_of(at.y, s.cut.box_height, s.height), s, s.input_height, p.box_height);
  auto const images = box_of(at.image, s.cut.box_images, s.images);
  int const first_box = images.begin / p.box_images, last_box = (images.end - 1) / p.box_images;
  int const channel = (at.split * s.chunks + chunk) * chunk_channels;
  // Several images: whole ones, on either side.
  return {{0, p.splits},
          x,
          {first_box * p.tiles_y + y.begin, last_box * p.tiles_y + y.end},
          {channel / p.rows, (channel + chunk_channels - 1) / p.rows + 1}};
}

}  // namespace tessera::convolution
