// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/logits_file.hpp"

#include <fmt/format.h>

namespace tessera::decode {
namespace {

constexpr std::size_t k_alignment = 64;
constexpr std::size_t k_most_header = 256;  // three numbers of 10 digits are well below

}  // namespace

Expected<void> check_logits(LogitsShape const& shape) {
  auto const of_step = 4 * static_cast<std::uint64_t>(shape.step());
  auto const most = k_most_logits_bytes - k_most_header;
  if (static_cast<std::uint64_t>(shape.steps) <= most / of_step) return {};
  auto const fit = most / of_step;
  Diagnostic large;
  large.code = "E0566";
  large.message = fmt::format(
      "logits of {} sequences, {} steps and {} tokens are {:.1f} GB; a file has 2.1 at most", shape.sequences,
      shape.steps, shape.vocabulary, static_cast<double>(of_step) * shape.steps / 1e9);
  large.suggestion = fit > 0 ? fmt::format("--new-tokens {} fits, or fewer prompts at once", fit)
                             : "give fewer prompts at once";
  return refuse(std::move(large));
}

std::string logits_header(LogitsShape const& shape) {
  // Version 1.0: the magic, two bytes of the version, two of the length of what follows, least byte first.
  std::string text = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}, {}), }}",
                                 shape.steps, shape.sequences, shape.vocabulary);
  constexpr std::size_t k_before = 10;
  text.append(k_alignment - (k_before + text.size() + 1) % k_alignment, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace tessera::decode
