// SPDX-License-Identifier: Apache-2.0
// tessera::convolution_chain and tessera::convolution_chain_out. python/tessera/torch/_convolution.py defines
// their schemas, and what a wrong argument is told: the same words.
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/c/tessera_c.h"
#include "kernels/c/tessera_convolution.h"
#include "operators.hpp"
#include "tensors.hpp"

namespace tessera::torch {
namespace {

constexpr std::int64_t channel_unit = 64, most_channels = 4096, most_layers = 64;

/// A tensor's sizes by name: torch's order. In memory channels are innermost.
enum Size { images, channels, rows, columns };

std::vector<std::int64_t> channels_last(std::vector<std::int64_t> const& sizes) {
  auto const c = sizes[channels], w = sizes[columns], h = sizes[rows];
  return {h * w * c, 1, w * c, c};
}

void check_channels_last(Tensor const& one) {
  auto const wanted = channels_last(one.sizes);
  for (std::size_t d = 0; d < wanted.size(); ++d)
    if (one.sizes[d] > 1 && one.strides[d] != wanted[d] && one.elements() > 0)
      refuse(fmt::format("{} is not channels_last", one.name),
             fmt::format("pass {}.contiguous(memory_format=torch.channels_last)", one.name));
}

/// What both operators are given, off the stack.
struct Arguments {
  OwnedTensor x;
  std::vector<OwnedTensor> filters, biases;
  std::vector<Value> strides, paddings, residuals, relus;
};

/// What both operators compute, checked.
struct Call {
  std::vector<std::string> names;  ///< of filters and biases
  Tensor x;
  std::vector<Tensor> filters, biases;
  std::vector<tessera_convolution_layer> layers;
  std::vector<std::vector<std::int64_t>> sizes;  ///< of x, and of what each layer writes

  Call(Shim const& torch, Arguments const& given) : x(torch, "x", given.x.get()) {
    check_counts(given);
    auto const count = given.filters.size();
    for (auto const* kind : {"filters", "biases"})
      for (std::size_t l = 0; l < count; ++l) names.push_back(fmt::format("{}[{}]", kind, l));
    for (std::size_t l = 0; l < count; ++l)
      filters.emplace_back(torch, names[l].c_str(), given.filters[l].get());
    for (std::size_t l = 0; l < given.biases.size(); ++l)
      biases.emplace_back(torch, names[count + l].c_str(), given.biases[l].get());
    for (auto const* one : operands()) check_types(torch, {&x, one});
    check_shapes();
    for (std::size_t l = 0; l < count; ++l) add_layer(given, l);
    check_memory(torch);
  }

  std::vector<Tensor const*> operands() const {
    std::vector<Tensor const*> all = {&x};
    for (auto const& one : filters) all.push_back(&one);
    for (auto const& one : biases) all.push_back(&one);
    return all;
  }

 private:
  static void check_counts(Arguments const& given) {
    auto const count = given.filters.size();
    if (count == 0 || count > most_layers)
      refuse(fmt::format("{} filters", count), fmt::format("give 1 to {}", most_layers));
    struct Named {
      char const* name;
      std::size_t count;
    };
    for (auto const& [name, entries] :
         {Named{"strides", given.strides.size()}, Named{"paddings", given.paddings.size()},
          Named{"residuals", given.residuals.size()}, Named{"relus", given.relus.size()},
          Named{"biases", given.biases.empty() ? count : given.biases.size()}})
      if (entries != count)
        refuse(fmt::format("{} {} for {} filters", entries, name, count), "give one for each layer");
  }

  void check_shapes() const {
    if (x.sizes.size() != 4)
      refuse(fmt::format("x is {}", x.shape()), "give [images, channels, rows, columns]");
    for (auto const& one : filters)
      if (one.sizes.size() != 4)
        refuse(fmt::format("{} is {}", one.name, one.shape()), "give nn.Conv2d's weight as it is");
    for (std::size_t l = 0; l < biases.size(); ++l)
      if (biases[l].sizes != std::vector<std::int64_t>{filters[l].sizes[0]})
        refuse(fmt::format("{} is {}, {} is {}", biases[l].name, biases[l].shape(), filters[l].name,
                           filters[l].shape()),
               "give nn.Conv2d's bias as it is");
  }

  static bool is_channels(std::int64_t count) {
    return count >= channel_unit && count <= most_channels && count % channel_unit == 0;
  }

  void add_layer(Arguments const& given, std::size_t l) {
    if (l == 0) {
      sizes.push_back(x.sizes);
      if (!is_channels(x.sizes[channels]))
        refuse(fmt::format("x has {} channels", x.sizes[channels]),
               fmt::format("channels are multiples of {} up to {}: pad with zeros", channel_unit,
                           most_channels));
    }
    auto const& filter = filters[l];
    auto const& in = sizes.back();
    auto const kernel = filter.sizes[rows];
    if (filter.sizes[channels] != in[channels])
      refuse(
          fmt::format("{} is {}, and is applied to {} channels", filter.name, filter.shape(), in[channels]),
          "groups are not computed");
    if (!is_channels(filter.sizes[0]))
      refuse(
          fmt::format("{} is {}", filter.name, filter.shape()),
          fmt::format("channels are multiples of {} up to {}: pad with zeros", channel_unit, most_channels));
    if (filter.sizes[columns] != kernel || (kernel != 1 && kernel != 3 && kernel != 5))
      refuse(fmt::format("{} is {}", filter.name, filter.shape()), "filters are 1x1, 3x3 or 5x5");
    auto const stride = number_in(given.strides[l]), padding = number_in(given.paddings[l]),
               residual = number_in(given.residuals[l]);
    if (stride != 1 && stride != 2)
      refuse(fmt::format("layer {} has a stride of {}", l, stride), "give 1 or 2");
    if (padding < 0 || padding > kernel / 2)
      refuse(fmt::format("layer {} has {} zeros around an image", l, padding),
             fmt::format("give 0 to {} for a filter of {}x{}", kernel / 2, kernel, kernel));
    auto const edge = [&](std::int64_t pixels) {
      return pixels + 2 * padding < kernel ? 0 : (pixels + 2 * padding - kernel) / stride + 1;
    };
    std::vector<std::int64_t> const out = {in[images], filter.sizes[0], edge(in[rows]), edge(in[columns])};
    if (out[rows] == 0 || out[columns] == 0)
      refuse(fmt::format("layer {} is applied to {} x {} pixels", l, in[rows], in[columns]),
             "give more padding, or a smaller filter");
    if (residual < -1 || residual >= static_cast<std::int64_t>(l))
      refuse(fmt::format("layer {} adds activation {}", l, residual),
             "give one that is older than its input: 0 is x, n what layer n - 1 writes; -1: none");
    if (residual >= 0 && sizes[static_cast<std::size_t>(residual)] != out)
      refuse(fmt::format("layer {} adds {} to {}", l,
                         fmt::join(sizes[static_cast<std::size_t>(residual)], " x "), fmt::join(out, " x ")),
             "give an activation of the same size");
    layers.push_back({static_cast<std::int32_t>(filter.sizes[0]), static_cast<std::int32_t>(kernel),
                      static_cast<std::int32_t>(stride), static_cast<std::int32_t>(padding),
                      biases.empty() ? 0 : 1, truth_in(given.relus[l]) ? 1 : 0,
                      static_cast<std::int32_t>(residual)});
    sizes.push_back(out);
  }

  void check_memory(Shim const& torch) const {
    check_channels_last(x);
    for (auto const& one : filters) check_channels_last(one);
    for (auto const& one : biases) check_contiguous({&one});
    for (auto const* one : operands()) check_aligned({one});
    for (auto const* one : operands()) check_devices(torch, {&x, one});
  }
};

void check_out(Shim const& torch, Call const& call, Tensor const& out) {
  check_types(torch, {&call.x, &out});
  auto const& wanted = call.sizes.back();
  if (out.sizes != wanted)
    refuse(fmt::format("out is {}, the result is {}", out.shape(), fmt::join(wanted, " x ")),
           "give out the result's shape");
  check_channels_last(out);
  check_aligned({&out});
  check_devices(torch, {&call.x, &out});
  for (auto const* one : call.operands()) check_apart(out, {one});
}

/// Enqueues, in torch's current stream.
void run(Shim const& torch, Call const& call, Tensor const& out) {
  auto const& x = call.x;
  if (out.elements() == 0) return;
  tessera_convolution_options options{};
  options.size = sizeof options;
  options.images = static_cast<std::int32_t>(x.sizes[images]);
  options.height = static_cast<std::int32_t>(x.sizes[rows]);
  options.width = static_cast<std::int32_t>(x.sizes[columns]);
  options.channels = static_cast<std::int32_t>(x.sizes[channels]);
  options.type = x.type == torch.dtype_float16() ? TESSERA_FP16 : TESSERA_BF16;
  options.layer_count = static_cast<std::int32_t>(call.layers.size());
  options.layers = call.layers.data();
  tessera_convolution* chain = nullptr;
  done(tessera_convolution_get(&options, &chain));
  std::size_t bytes = 0;
  done(tessera_convolution_workspace(chain, &bytes));
  OnDevice const here(torch, x.device);
  void* stream = nullptr;
  check(torch.get_current_cuda_stream(x.device, &stream), "say the current stream");
  // Given back to torch's allocator behind the launches, which keep it in the order of the stream.
  auto const lent = empty(torch, {static_cast<std::int64_t>(bytes)}, {1}, torch.dtype_uint8(), x);
  void* workspace = nullptr;
  check(torch.get_data_ptr(lent.get(), &workspace), "say a tensor's address");
  std::vector<void const*> filters, biases(call.layers.size(), nullptr);
  for (auto const& one : call.filters) filters.push_back(one.data);
  for (std::size_t l = 0; l < call.biases.size(); ++l) biases[l] = call.biases[l].data;
  done(tessera_convolution_run(chain, x.data, filters.data(), biases.data(), out.data, workspace, bytes,
                               stream));
}

Arguments arguments_in(Shim const& torch, Value* x, Value* options) {
  Arguments given{tensor_in(torch, x[0]), {}, {}, {}, {}, {}, {}};
  for (auto const one : list_in(torch, x[1])) given.filters.push_back(tensor_in(torch, one));
  for (auto const one : list_in(torch, x[2])) given.biases.push_back(tensor_in(torch, one));
  given.strides = list_in(torch, options[0]);
  given.paddings = list_in(torch, options[1]);
  given.residuals = list_in(torch, options[2]);
  given.relus = list_in(torch, options[3]);
  return given;
}

}  // namespace

void convolution_chain(Value* stack, std::uint64_t, std::uint64_t) {
  auto const& torch = torch_here();
  auto const given = arguments_in(torch, stack, stack + 3);
  named("convolution_chain", [&] {
    Call const call(torch, given);
    auto const& sizes = call.sizes.back();
    auto out = empty(torch, sizes, channels_last(sizes), call.x.type, call.x);
    run(torch, call, Tensor(torch, "out", out.get()));
    stack[0] = reinterpret_cast<Value>(out.release());
  });
}

void convolution_chain_out(Value* stack, std::uint64_t, std::uint64_t) {
  auto const& torch = torch_here();
  auto const to = tensor_in(torch, stack[3]);
  auto const given = arguments_in(torch, stack, stack + 4);
  named("convolution_chain", [&] {
    Call const call(torch, given);
    Tensor const out(torch, "out", to.get());
    check_out(torch, call, out);
    run(torch, call, out);
  });
}

}  // namespace tessera::torch
