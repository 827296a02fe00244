// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/layer_graph.hpp"

namespace tessera::cudnn {
namespace {

using Sizes = std::vector<std::int64_t>;

/// Of NHWC memory, in the order N, C, H, W.
Descriptor tensor(std::int64_t id, cudnnDataType_t type, Sizes const& size, bool is_virtual) {
  Descriptor result(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  Sizes const strides = {size[1] * size[2] * size[3], 1, size[1] * size[3], size[1]};
  result.set<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, {type});
  result.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, size);
  result.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
  result.set<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {id});
  result.set<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, {16});
  bool const flag[] = {is_virtual};
  ok(library().set(result.get(), CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, flag), "virtual");
  return std::move(result).finished();
}

Descriptor pointwise(cudnnPointwiseMode_t mode, Descriptor const& x, Descriptor const* b,
                     Descriptor const& y) {
  Descriptor what(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  what.set<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, {mode});
  what.set<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, {CUDNN_DATA_FLOAT});
  what = std::move(what).finished();
  Descriptor result(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  result.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
  result.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b != nullptr) result.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  result.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  return std::move(result).finished();
}

Descriptor convolve(convolution::Layer const& layer, Descriptor const& x, Descriptor const& w,
                    Descriptor const& y) {
  Descriptor what(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  what.set<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, {CUDNN_DATA_FLOAT});
  what.set<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
                                   {CUDNN_CROSS_CORRELATION});
  what.set<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, {2});
  Sizes const padding(2, layer.padding), stride(2, layer.stride), one(2, 1);
  what.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, padding);
  what.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, padding);
  what.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, stride);
  what.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, one);
  what = std::move(what).finished();
  Descriptor result(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  result.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, what);
  result.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
  result.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
  result.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
  result.set<float>(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, {1.0f});
  result.set<float>(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, {0.0f});
  return std::move(result).finished();
}

}  // namespace

Descriptor graph_of(Problem const& problem, Handle const& handle) {
  auto const& layer = problem.layer;
  auto const output_size = convolution::output_size(problem.input, layer);
  auto const type = problem.type == convolution::ElementType::fp16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
  auto const sizes = [&](convolution::ImageSize const& of) {
    return Sizes{problem.images, of.channels, of.height, of.width};
  };
  Sizes const y = sizes(output_size);
  Sizes const w = {layer.channels, problem.input.channels, layer.kernel, layer.kernel};
  auto const input = tensor(k_x, type, sizes(problem.input), false), filter = tensor(k_w, type, w, false);
  auto const bias = tensor(k_bias, type, {1, layer.channels, 1, 1}, false);
  auto const residual = tensor(k_residual, type, y, false);
  // What the convolution and each operation behind it writes: the last of them is the layer's output.
  bool const adds = layer.residual >= 0;
  int const behind = (layer.bias ? 1 : 0) + (adds ? 1 : 0) + (layer.relu ? 1 : 0);
  std::vector<Descriptor> values;
  for (int i = 0; i < behind; ++i) values.push_back(tensor(k_between + i, CUDNN_DATA_FLOAT, y, true));
  values.push_back(tensor(k_y, type, y, false));
  std::vector<Descriptor> operations;
  operations.push_back(convolve(layer, input, filter, values[0]));
  std::size_t next = 0;
  auto const then = [&](cudnnPointwiseMode_t mode, Descriptor const* with) {
    operations.push_back(pointwise(mode, values[next], with, values[next + 1]));
    ++next;
  };
  if (layer.bias) then(CUDNN_POINTWISE_ADD, &bias);
  if (adds) then(CUDNN_POINTWISE_ADD, &residual);
  if (layer.relu) then(CUDNN_POINTWISE_RELU_FWD, nullptr);
  std::vector<cudnnBackendDescriptor_t> all;
  for (auto const& one : operations) all.push_back(one.get());
  Descriptor result(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  result.set<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, {handle.get()});
  result.set<cudnnBackendDescriptor_t>(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, all);
  return std::move(result).finished();
}

std::vector<Descriptor> configurations(Descriptor const& graph, cudnnBackendHeurMode_t mode) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, {mode});
  heuristics = std::move(heuristics).finished();
  std::int64_t count = 0;
  ok(library().get(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
                   nullptr),
     "heuristics");
  std::vector<Descriptor> result;
  std::vector<cudnnBackendDescriptor_t> places;
  for (std::int64_t i = 0; i < count; ++i)
    places.push_back(result.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  if (count > 0)
    ok(library().get(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                     &count, places.data()),
       "heuristics");
  while (static_cast<std::int64_t>(result.size()) > count) result.pop_back();
  return result;
}

}  // namespace tessera::cudnn
