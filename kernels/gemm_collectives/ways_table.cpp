// SPDX-License-Identifier: Apache-2.0
#include "ways_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::gemm_collectives {
namespace {

bool is_wrong(WayMeasured const& one, double largest_error) {
  return one.checked && !(one.error <= largest_error);  // NaN is wrong
}

std::string line_of(WayMeasured const& one, double largest_error) {
  auto const error = !one.checked
                         ? std::string("-")
                         : fmt::format("{:.1e}{}", one.error, is_wrong(one, largest_error) ? " WRONG" : "");
  auto line = fmt::format("{:<13} {:>9.1f} {:>9.1f} {:>9.1f}  {:<13}", one.way, one.us, one.us_p10,
                          one.us_p90, error);
  if (!one.kernel.empty()) return line + "  " + one.kernel + "\n";
  while (line.back() == ' ') line.pop_back();
  return line + "\n";
}

WayMeasured const* find(std::vector<WayMeasured> const& rows, std::string const& way) {
  auto const found = std::find_if(rows.begin(), rows.end(), [&](auto const& one) { return one.way == way; });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

bool all_right(std::vector<WayMeasured> const& rows, double largest_error) {
  return std::none_of(rows.begin(), rows.end(),
                      [&](auto const& one) { return is_wrong(one, largest_error); });
}

std::string ways_table(std::vector<WayMeasured> rows, double largest_error) {
  std::stable_sort(rows.begin(), rows.end(), [](auto const& one, auto const& other) {
    return std::pair(!one.checked, one.us) < std::pair(!other.checked, other.us);
  });
  auto text =
      fmt::format("{:<13} {:>9} {:>9} {:>9}  {:<13}  {}\n", "way", "us", "10 %", "90 %", "error", "kernel");
  for (auto const& one : rows) text += line_of(one, largest_error);
  double ideal = 0;
  for (auto const& one : rows)
    if (one.way == "product alone" || one.way == "NCCL alone") ideal = std::max(ideal, one.us);
  if (rows.empty() || !rows.front().checked) return text;
  auto const& fastest = rows.front();
  text += fmt::format("fastest: {}", fastest.way);
  if (auto const* const in_sequence = find(rows, "sequential");
      in_sequence != nullptr && in_sequence != &fastest)
    text +=
        fmt::format(", {:.2f} times as fast as cuBLASLt and NCCL in sequence", in_sequence->us / fastest.us);
  if (find(rows, "NCCL alone") != nullptr)
    text += fmt::format("; {:.2f} of the ideal, {:.1f} us", ideal / fastest.us, ideal);
  text += "\n";
  auto const *const beside = find(rows, k_beside), *const none = find(rows, k_beside_none);
  if (beside != nullptr && none != nullptr && none->us > 0)
    text += fmt::format("the product loses {:.1f} % beside copies of what has to cross the link\n",
                        100 * (beside->us / none->us - 1));
  text += all_right(rows, largest_error)
              ? fmt::format("all results are right: at most {:.1e} off\n", largest_error)
              : "some results are WRONG\n";
  return text;
}

}  // namespace tessera::gemm_collectives
