// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/layer_products.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "kernels/decode/captured.hpp"
#include "kernels/decode/device_memory.hpp"
#include "kernels/decode/found_once.hpp"
#include "kernels/decode/pass_kernels.hpp"
#include "kernels/norm_rope/norm.hpp"
#include "kernels/swiglu/swiglu.hpp"
#include "src/gpu/context_sms.hpp"

namespace tessera::decode {
namespace {

using cublaslt::LtAlgorithm;
using cublaslt::LtGemm;
using cublaslt::LtProblem;

constexpr int k_few_rows = 256;  ///< up to so many a product is short, and all algorithms are tried
constexpr std::size_t k_most_tried = 12, k_most_tried_short = 64;
constexpr std::size_t k_finalists = 8;  ///< of a first round, in which each way is timed once
constexpr int k_rounds = 5;             ///< of these, in turns
constexpr float k_worth = 0.98f;        ///< of the first guess's time
/// Of the fastest one's time: ways that are kept take no more alone. In layers they may be the faster ones.
constexpr float k_near = 1.3f;

/// Products of a sample, each of other weights than the one before: some 200 microseconds of them, and no
/// less than two.
int products_of_sample(LaunchedProduct const& product) {
  if (product.rows > k_few_rows) return 2;
  double const bytes = 2.0 * product.columns * product.depth;
  return bytes <= 64e6 ? 32 : bytes <= 256e6 ? 8 : 2;
}

/// SMs that launches have here: all, or those of the current context.
int sms_here() {
  int device = 0, sms = 0;
  (void)cudaGetDevice(&device);
  (void)cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  int const here = gpu::context_sms();
  return here > 0 ? std::min(sms, here) : sms;
}

/// What ways are known by: device and SMs, among what, and what is timed with a product.
struct ProductKey {
  int device = 0, sms = 0;
  ProductsOf among = ProductsOf::all;
  LaunchedProduct product;
  bool input_is_normed = false, norm_is_ours = false, leaves_norm = false;

  auto operator<=>(ProductKey const&) const = default;
};
ProductKey key_of(LaunchedProduct const& product, ProductOperands const& o, ProductsOf among) {
  ProductKey result{
      0, sms_here(), among, product, o.stream != nullptr, o.norm.squares != nullptr, o.rounded != nullptr};
  (void)cudaGetDevice(&result.device);
  return result;
}
/// Ways, the fastest one first.
auto& known_products() {
  static auto& all = *new FoundOnce<ProductKey, std::vector<Way>>;
  return all;
}

cudaError_t run(LaunchedProduct const& product, LtGemm const& gemm, Way const& way, ProductOperands const& o,
                cudaStream_t stream) {
  if (auto const* const ours = std::get_if<skinny_gemm::Config>(&way))
    return skinny_gemm::launch(product, *ours,
                               {o.input, o.weights, product.result == Result::gated ? o.gated : o.to, o.norm,
                                o.shift, o.rounded, o.squares},
                               stream);
  constexpr auto bytes = cublaslt::workspace_bytes;
  auto const& algorithm = std::get<LtAlgorithm>(way);
  return product.result == Result::added
             ? gemm.run_adding(algorithm, o.input, o.weights, o.to, o.to, o.workspace, bytes, stream)
             : gemm.run(algorithm, o.input, o.weights, o.to, o.workspace, bytes, stream);
}

/// With norms, SwiGLU and GeLU, which the library does not have.
cudaError_t run_whole(LaunchedProduct const& product, LtGemm const& gemm, Way const& way,
                      ProductOperands const& o, cudaStream_t stream) {
  bool const ours = std::holds_alternative<skinny_gemm::Config>(way);
  auto const norm = [&](float* from, void* to, int columns, bool behind_is_ours) {
    kernels::Norm of;
    of.x = from, of.y = to;
    of.rows = product.rows, of.columns = columns, of.epsilon = o.norm.epsilon;
    return kernels::norm(of, stream, {}, !behind_is_ours);
  };
  if (o.stream != nullptr && !(ours && o.norm.squares != nullptr))
    if (auto const error = norm(o.stream, const_cast<void*>(o.input), product.depth, ours);
        error != cudaSuccess)
      return error;
  if (auto const error = run(product, gemm, way, o, stream); error != cudaSuccess) return error;
  if (ours) return cudaSuccess;
  // Ours leaves the norm behind it to a product of ours.
  if (o.rounded != nullptr) return norm(static_cast<float*>(o.to), o.rounded, product.columns, true);
  if (product.result == Result::gelu)
    return add_and_gelu(o.to, o.shift, product.rows, product.columns, stream);
  if (product.result != Result::gated) return cudaSuccess;
  return kernels::swiglu(o.to, o.gated, product.rows, product.columns / 2, gpu::ElementType::bf16, stream);
}

/// The library's first, its first guess in front.
Expected<std::vector<Way>> ways_of(LaunchedProduct const& product, LtGemm const& gemm, ProductsOf among) {
  std::vector<Way> result;
  auto const& all = gemm.algorithms();
  auto const most = product.rows <= k_few_rows ? k_most_tried_short : k_most_tried;
  for (std::size_t i = 0; i < std::min(all.size(), most); ++i) result.emplace_back(all[i]);
  auto const ours = skinny_gemm::configs(product, sms_here());
  if (ours.empty() || among == ProductsOf::library) return result;
  if (among == ProductsOf::ours) result.clear();
  if (auto ok = check_call(skinny_gemm::load(), "loading products of few rows"); !ok)
    return tl::make_unexpected(ok.error());
  result.insert(result.end(), ours.begin(), ours.end());
  return result;
}

/// Numbers of the weights where a product reads others: products of zeros take less power, and are faster.
cudaError_t fill(LaunchedProduct const& product, ProductOperands const& o, cudaStream_t stream) {
  auto const numbers = 2 * times(product.columns, product.depth), all = times(product.rows, product.depth);
  auto error = cudaSuccess;
  auto const copy = [&](void* to, std::size_t bytes) {
    for (std::size_t done = 0; done < bytes && error == cudaSuccess; done += numbers)
      error = cudaMemcpyAsync(static_cast<char*>(to) + done, o.weights, std::min(numbers, bytes - done),
                              cudaMemcpyDeviceToDevice, stream);
  };
  copy(const_cast<void*>(o.input), 2 * all);
  if (o.stream != nullptr) copy(o.stream, 4 * all);
  if (error == cudaSuccess && o.norm.squares != nullptr)
    error = cudaMemsetAsync(const_cast<float*>(o.norm.squares), 0x3f,  // a float in each four bytes
                            4 * all / skinny_gemm::k_squares_block, stream);
  return error;
}

}  // namespace

cublaslt::LtProblem library_problem(LaunchedProduct const& product) {
  LtProblem result;
  result.rows = product.rows, result.columns = product.columns, result.depth = product.depth;
  result.wide = product.result == Result::fp32 || product.result == Result::added;
  return result;
}

Expected<void> multiply(LaunchedProduct const& product, ProductOperands const& operands, MaybeWay const& way,
                        cudaStream_t stream) {
  auto const gemm = LtGemm::make(library_problem(product));
  if (!gemm) return tl::make_unexpected(gemm.error());
  Way const guess = (*gemm)->algorithms().front();
  return check_call(run(product, **gemm, way.value_or(guess), operands, stream), "a product");
}

Expected<std::vector<Way>> fastest_ways(LaunchedProduct const& product,
                                        std::vector<ProductOperands> const& sets, ProductsOf among,
                                        cudaStream_t stream) {
  auto const key = key_of(product, sets.front(), among);
  if (auto found = known_products().find(key)) return *found;
  auto const gemm = LtGemm::make(library_problem(product));
  if (!gemm) return tl::make_unexpected(gemm.error());
  auto const ways = ways_of(product, **gemm, among);
  if (!ways) return tl::make_unexpected(ways.error());
  if (auto ok = check_call(fill(product, sets.front(), stream), "numbers to time products with"); !ok)
    return tl::make_unexpected(ok.error());
  Clock clock;
  struct Tried {
    Way const* way;
    Captured products;
    float least;
  };
  auto const capture = [&](Way const& way) {
    return Captured::of([&](cudaStream_t in) {
      auto error = cudaSuccess;
      for (int i = 0; i < products_of_sample(product) && error == cudaSuccess; ++i)
        error = run_whole(product, **gemm, way, sets[static_cast<std::size_t>(i) % sets.size()], in);
      return check_call(error, "a product");
    });
  };
  std::vector<Tried> tried;
  for (auto const& way : *ways) {
    // Loads it, which is not to happen while a stream is captured.
    auto ran = check_call(run_whole(product, **gemm, way, sets.front(), stream), "a product");
    auto products = ran ? capture(way) : tl::make_unexpected(ran.error());
    if (!products) {
      (void)cudaGetLastError();  // it is no error that this way has no kernel
      continue;
    }
    for (int warm = 0; warm < (tried.empty() ? 4 : 1); ++warm)
      (void)clock.milliseconds(stream, *products);  // wakes the clocks
    auto const once = clock.milliseconds(stream, *products);
    if (!once) break;
    tried.push_back({&way, std::move(*products), *once});
  }
  // The first guess stays in front: it is taken unless another is clearly faster.
  bool const has_guess = !tried.empty() && tried.front().way == &ways->front() &&
                         std::holds_alternative<LtAlgorithm>(ways->front());
  auto const others = tried.begin() + (has_guess ? 1 : 0);
  std::stable_sort(others, tried.end(), [](auto const& a, auto const& b) { return a.least < b.least; });
  tried.erase(tried.begin() + static_cast<std::ptrdiff_t>(std::min(tried.size(), k_finalists)), tried.end());
  for (int round = 0; round < k_rounds && clock.error() == cudaSuccess; ++round)
    for (auto& one : tried)
      if (auto const more = clock.milliseconds(stream, one.products); more)
        one.least = std::min(one.least, *more);
  auto ok = check_call(clock.error(), "timing products");
  if (ok && tried.empty())
    ok =
        check_call(cudaErrorNotSupported,
                   fmt::format("timing a product of {} rows, {} columns and a depth of {}: no algorithm runs",
                               product.rows, product.columns, product.depth));
  if (!ok) return tl::make_unexpected(ok.error());
  if (has_guess) tried.front().least *= k_worth;
  std::stable_sort(tried.begin(), tried.end(),
                   [](auto const& a, auto const& b) { return a.least < b.least; });
  std::vector<Way> kept;
  for (auto const& one : tried)
    if (one.least <= k_near * tried.front().least && one.way->index() == tried.front().way->index())
      kept.push_back(*one.way);
  return known_products().keep(key, std::move(kept));
}

}  // namespace tessera::decode
