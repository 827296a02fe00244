// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/prompt.hpp"

#include <algorithm>

namespace tessera::decode {
namespace {

struct Piece {
  PromptRun run;
  int begin = 0, end = 0, window = 0, parts = 1;

  /// The first position that one of its tokens sees.
  int first() const { return first_seen(run.position + begin, window); }
  int past() const { return std::max(run.position - first(), 0); }
  /// Positions of a part.
  int each() const { return (past() + parts - 1) / parts; }
  bool can_be_cut(int least) const { return parts < k_most_splits && past() / (parts + 1) >= least; }
};

std::vector<Piece> pieces_of(PromptStep const& step, int tokens, int window) {
  std::vector<Piece> result;
  for (auto const& run : step)
    for (int begin = 0; begin < run.tokens; begin += tokens)
      result.push_back({run, begin, std::min(begin + tokens, run.tokens), window});
  return result;
}

}  // namespace

std::vector<PromptStep> prompt_steps(std::vector<Positions> const& unread, int rows) {
  std::vector<PromptStep> steps;
  int left = 0;  // rows of the last step
  for (std::size_t s = 0; s < unread.size(); ++s)
    for (int at = unread[s].begin; at < unread[s].end;) {
      if (left == 0) {
        steps.emplace_back();
        left = rows;
      }
      int const tokens = std::min(left, unread[s].end - at);
      steps.back().push_back({static_cast<int>(s), rows - left, at, tokens});
      at += tokens, left -= tokens;
    }
  return steps;
}

int most_prompt_pieces(int group, int rows, int batch) {
  // Runs of one token are a piece each; whatever rows are left over fill pieces.
  int const runs = std::min(rows, batch);
  return runs + (rows - runs) / prompt_tokens_of_item(group);
}

int prompt_items(Model const& model, int rows, int batch, int blocks) {
  int const least = most_prompt_pieces(model.group(), rows, batch);
  return std::clamp(blocks / model.kv_heads, least, k_most_prompt_items);
}

PromptTable prompt_table(PromptStep const& step, int group, int items, int least, int window) {
  PromptTable table;
  for (auto const& run : step)
    for (int i = 0; i < run.tokens; ++i) table.rows[run.row + i] = {run.sequence, run.position + i};
  auto pieces = pieces_of(step, prompt_tokens_of_item(group), window);
  for (auto left = items - static_cast<int>(pieces.size()); left > 0; --left) {
    Piece* longest = nullptr;
    for (auto& piece : pieces)
      if (piece.can_be_cut(least) && (longest == nullptr || piece.each() > longest->each())) longest = &piece;
    if (longest == nullptr) break;
    ++longest->parts;
  }
  int item = 0;
  for (auto const& piece : pieces) {
    int const first = item;
    for (int i = 0; i < piece.parts; ++i, ++item)
      table.items[item] = {
          piece.run.sequence, piece.run.row,
          piece.run.position, piece.begin,
          piece.end,          positions_from(piece.first(), piece.run.position, piece.parts, i),
          piece.parts,        first};
  }
  return table;
}

}  // namespace tessera::decode
