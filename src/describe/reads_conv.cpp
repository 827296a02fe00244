// SPDX-License-Identifier: Apache-2.0
// Halo of a convolution with stride 1 and zero padding (r, s odd): output pixel (i, j) reads pixels
// (i + dr, j + ds) of the same image, |dr| <= r/2, |ds| <= s/2. Tiles are runs of pixels, row by row,
// image by image.
#include "describe/reads.hpp"

namespace tessera {
namespace {

TileRange all_columns(Tiling const& producer) {
  return {TileExpr::constant(0), TileExpr::constant(producer.grid_x()), false};
}

/// Geometry that both descriptions below use.
struct Halo {
  AffineSpace space;
  std::int64_t width, image, pixels, tile, rows_up, columns_left;

  explicit Halo(Edge const& edge)
      : space(edge.consumer.extents()),
        width(edge.conv.q),
        image(edge.conv.p * edge.conv.q),
        pixels(edge.producer.rows),
        tile(edge.producer.tile_rows),
        rows_up(edge.conv.r / 2),
        columns_left(edge.conv.s / 2) {}

  /// The first and the end of what pixels [begin, end) read in their own row and beyond, left and right.
  Linear left_of(Linear const& begin) const {
    return begin - space.minimum(columns_left, space.modulo(begin, width));
  }
  Linear right_of(Linear const& end) const {
    return end + space.minimum(columns_left, Linear(width - 1) - space.modulo(end - 1, width));
  }
};

/// One interval of pixels. Exact for a 3-row halo if no producer tile fits between two rows' windows and
/// every consumer tile reaches past the first row of the image that it starts in.
Access one_interval(Edge const& edge, Halo const& halo) {
  auto const& space = halo.space;
  auto const begin = space.dimension(1) * edge.consumer.tile_rows;
  auto const end = space.minimum(begin + edge.consumer.tile_rows, halo.pixels);
  auto const first_image = space.floor_div(begin, halo.image);
  auto const last_image = space.floor_div(end - 1, halo.image);
  auto const up = halo.rows_up * halo.width;
  return {{all_columns(edge.producer),
           space.covering({halo.left_of(begin) - up, first_image * halo.image},
                          {halo.right_of(end) + up, (last_image + 1) * halo.image}, halo.tile, true)}};
}

/// Windows of the pixels [begin, end), all of `image`: one box for each of the kernel's rows.
void push_windows(std::vector<Access>& accesses, Edge const& edge, Halo const& halo, Linear const& image,
                  Linear const& begin, Linear const& end) {
  auto const& space = halo.space;
  for (std::int64_t dr = -halo.rows_up; dr <= halo.rows_up; ++dr) {
    if (dr >= edge.conv.p || -dr >= edge.conv.p) continue;
    auto const down = dr * halo.width;
    auto const first = dr < 0 ? space.maximum(begin, image * halo.image - down) : begin;
    auto const last = dr > 0 ? space.minimum(end, (image + 1) * halo.image - down) : end;
    accesses.push_back({{all_columns(edge.producer),
                         space.covering_unless_empty(halo.left_of(first) + down, halo.right_of(last) + down,
                                                     last - first, halo.tile)}});
  }
}

}  // namespace

std::vector<Access> read_conv_halo(Edge const& edge) {
  Halo const halo(edge);
  if (halo.rows_up == 0 && halo.columns_left == 0) return read_rows(edge);
  if (halo.rows_up == 1 && edge.conv.p >= 2 && edge.producer.tile_rows >= halo.width &&
      edge.consumer.tile_rows >= halo.width)
    return {one_interval(edge, halo)};

  auto const& space = halo.space;
  auto const begin = space.dimension(1) * edge.consumer.tile_rows;
  auto const end = space.minimum(begin + edge.consumer.tile_rows, halo.pixels);
  auto const first = space.floor_div(begin, halo.image);
  auto const last = space.floor_div(end - 1, halo.image);
  bool const one_image = edge.conv.images == 1 || halo.image % edge.consumer.tile_rows == 0;
  std::vector<Access> accesses;
  push_windows(accesses, edge, halo, first, begin,
               one_image ? end : space.minimum(end, (first + 1) * halo.image));
  if (one_image) return accesses;
  push_windows(accesses, edge, halo, last, space.maximum(begin, last * halo.image), end);
  if (edge.consumer.tile_rows > halo.image + 1)  // whole images between the first and the last
    accesses.push_back(
        {{all_columns(edge.producer), space.covering_unless_empty((first + 1) * halo.image, last * halo.image,
                                                                  last - first - 1, halo.tile)}});
  return accesses;
}

}  // namespace tessera
