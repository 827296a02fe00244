// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/convolution.hpp"

#include <cudnn.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace tessera::cudnn {
namespace {

/// The functions of the library that are called.
struct Library {
  decltype(&::cudnnGetVersion) version = nullptr;
  decltype(&::cudnnCreate) create = nullptr;
  decltype(&::cudnnDestroy) destroy_handle = nullptr;
  decltype(&::cudnnSetStream) set_stream = nullptr;
  decltype(&::cudnnBackendCreateDescriptor) make = nullptr;
  decltype(&::cudnnBackendDestroyDescriptor) destroy = nullptr;
  decltype(&::cudnnBackendSetAttribute) set = nullptr;
  decltype(&::cudnnBackendGetAttribute) get = nullptr;
  decltype(&::cudnnBackendFinalize) finalize = nullptr;
  decltype(&::cudnnBackendExecute) execute = nullptr;
  bool complete = false;

  Library() {
    void* file = nullptr;
    for (char const* const name :
         {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9", "/usr/local/cuda/lib/libcudnn.so.9"})
      if (file == nullptr) file = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (file == nullptr) return;
    auto const find = [&](auto& function, char const* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(file, name));
      return function != nullptr;
    };
    complete = find(version, "cudnnGetVersion") && find(create, "cudnnCreate") &&
               find(destroy_handle, "cudnnDestroy") && find(set_stream, "cudnnSetStream") &&
               find(make, "cudnnBackendCreateDescriptor") && find(destroy, "cudnnBackendDestroyDescriptor") &&
               find(set, "cudnnBackendSetAttribute") && find(get, "cudnnBackendGetAttribute") &&
               find(finalize, "cudnnBackendFinalize") && find(execute, "cudnnBackendExecute");
  }
};

Library const& library() {
  static Library const loaded;
  return loaded;
}

/// A handle of the library on the calling thread's device. Null where there is none.
using Handle = std::shared_ptr<cudnnContext>;
Handle make_handle() {
  cudnnHandle_t made = nullptr;
  if (!library().complete || library().create(&made) != CUDNN_STATUS_SUCCESS) return nullptr;
  return {made, [](cudnnHandle_t of) { (void)library().destroy_handle(of); }};
}
/// Of the thread that runs plans.
Handle const& own_handle() {
  // Never destroyed: the driver may be gone by then.
  static Handle const& handle = *new Handle(make_handle());
  return handle;
}

struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};
void ok(cudnnStatus_t status, char const* what) {
  if (status != CUDNN_STATUS_SUCCESS) throw Refused(what);
}

/// A descriptor of the backend interface.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) { ok(library().make(type, &at_), "descriptor"); }
  ~Descriptor() {
    if (at_ != nullptr) library().destroy(at_);
  }
  Descriptor(Descriptor&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(at_, other.at_);
    return *this;
  }

  cudnnBackendDescriptor_t get() const { return at_; }
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::vector<T> const& values) {
    ok(library().set(at_, name, type, static_cast<std::int64_t>(values.size()), values.data()), "attribute");
    return *this;
  }
  Descriptor& set(cudnnBackendAttributeName_t name, Descriptor const& of) {
    return set<cudnnBackendDescriptor_t>(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, {of.get()});
  }
  Descriptor finished() && {
    ok(library().finalize(at_), "finalize");
    return std::move(*this);
  }

 private:
  cudnnBackendDescriptor_t at_ = nullptr;
};

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

/// Of tensors; from the last on those between operations.
enum : std::int64_t { k_x = 1, k_w, k_bias, k_y, k_residual, k_between };

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

/// Configurations of engines that a mode of the heuristics offers, the best guess first.
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

struct Plan {
  Handle handle;  ///< it was built with
  Descriptor plan;
  std::string name;
  std::int64_t workspace = 0;
};

/// Throws if the engine does not support the graph on this GPU.
Plan plan_of(Descriptor const& configuration, Handle const& handle, std::string name) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, {handle.get()});
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  plan = std::move(plan).finished();
  std::int64_t bytes = 0, count = 0;
  ok(library().get(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes),
     "workspace");
  return {handle, std::move(plan), std::move(name), bytes};
}

}  // namespace

bool available() { return own_handle() != nullptr; }

std::string version() {
  if (!available()) return "no cuDNN: libcudnn.so.9 was not found";
  auto const v = library().version();
  return "cuDNN " + std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
         std::to_string(v % 100);
}

Problem problem_of(convolution::LayerChain const& chain, std::size_t layer) {
  auto const sizes = sizes_of(chain);
  Problem result{chain.images, sizes[layer], chain.layers[layer], chain.type};
  auto& residual = result.layer.residual;
  residual = residual == -1 ? -1 : 0;
  return result;
}

struct Plans::State {
  std::vector<Plan> plans;
  int offered = 0;
};

namespace {

/// What a graph's heuristics offer, for one handle: asked for as it is needed.
class Offers {
 public:
  Offers(Problem const& problem, Handle handle)
      : handle_(std::move(handle)), graph_(graph_of(problem, handle_)) {}

  /// False: there are not so many.
  bool has(std::size_t number) {
    while (number >= configurations_.size() && mode_ < std::size(k_modes)) ask();
    return number < configurations_.size();
  }
  /// Throws where the engine does not support the graph on this GPU.
  Plan build(std::size_t number) const { return plan_of(configurations_[number], handle_, names_[number]); }
  std::size_t count() const { return configurations_.size(); }

 private:
  static constexpr std::pair<cudnnBackendHeurMode_t, char const*> k_modes[] = {
      {CUDNN_HEUR_MODE_A, "A"}, {CUDNN_HEUR_MODE_B, "B"}, {CUDNN_HEUR_MODE_FALLBACK, "fallback"}};

  void ask() {
    auto const& [mode, name] = k_modes[mode_++];
    try {
      auto offered = configurations(graph_, mode);
      for (std::size_t i = 0; i < offered.size(); ++i) {
        configurations_.push_back(std::move(offered[i]));
        names_.push_back(std::string(name) + " " + std::to_string(i));
      }
    } catch (Refused const&) {
      // A mode that knows nothing of this graph.
    }
  }

  Handle handle_;
  Descriptor graph_;
  std::size_t mode_ = 0;
  std::vector<Descriptor> configurations_;
  std::vector<std::string> names_;
};

/// The plans of one problem, built by any number of threads that join.
class Building {
 public:
  using Clock = std::chrono::steady_clock;

  Building(Problem const& problem, int most, double seconds)
      : problem_(problem), most_(most), seconds_(seconds) {}

  /// Builds until there are enough, or time is over, or nothing more is offered.
  void join(Handle const& handle) {
    try {
      Offers offers(problem_, handle);
      for (std::size_t number = 0; take(offers, number);) try {
          add(number, offers.build(number));
        } catch (Refused const&) {
          // An engine that does not support this graph on this GPU.
        }
    } catch (Refused const&) {
      end();
    }
  }
  /// How many threads are at it; -1: more are of no use.
  int builders() {
    std::lock_guard const lock(mutex_);
    return ended_ || over() || (most_ == 1 && builders_ > 0) ? -1 : builders_;
  }
  void enter() {
    std::lock_guard const lock(mutex_);
    if (builders_++ == 0) begin_ = Clock::now();
  }
  /// The first ones first. No thread is at it any more.
  std::vector<Plan> plans() {
    std::sort(found_.begin(), found_.end(), [](auto const& a, auto const& b) { return a.first < b.first; });
    std::vector<Plan> result;
    for (auto& [number, plan] : found_)
      if (static_cast<int>(result.size()) < most_) result.push_back(std::move(plan));
    return result;
  }
  int offered() const { return offered_; }

 private:
  bool over() const {
    std::chrono::duration<double> const passed = Clock::now() - begin_;
    return static_cast<int>(found_.size()) >= most_ ||
           (builders_ > 0 && passed.count() > seconds_ && !found_.empty());
  }
  void end() {
    std::lock_guard const lock(mutex_);
    ended_ = true;
  }
  bool take(Offers& offers, std::size_t& number) {
    {
      std::lock_guard const lock(mutex_);
      if (ended_ || over()) return false;
      number = next_++;
    }
    bool const is_there = offers.has(number);
    std::lock_guard const lock(mutex_);
    offered_ = std::max(offered_, static_cast<int>(offers.count()));
    ended_ = ended_ || !is_there;
    return is_there;
  }
  void add(std::size_t number, Plan plan) {
    if (plan.workspace > Plans::most_workspace) return;
    std::lock_guard const lock(mutex_);
    found_.emplace_back(number, std::move(plan));
  }

  Problem problem_;
  int most_;
  double seconds_;
  std::mutex mutex_;
  Clock::time_point begin_ = Clock::now();
  int builders_ = 0;
  std::size_t next_ = 0;
  bool ended_ = false;
  int offered_ = 0;
  std::vector<std::pair<std::size_t, Plan>> found_;
};

/// That which the fewest threads are at; null: nothing is left to do.
Building* next_of(std::deque<Building>& all, std::mutex& mutex) {
  std::lock_guard const lock(mutex);
  Building* least = nullptr;
  int fewest = 0;
  for (auto& one : all)
    if (int const builders = one.builders(); builders >= 0 && (least == nullptr || builders < fewest))
      least = &one, fewest = builders;
  if (least != nullptr) least->enter();
  return least;
}

constexpr int k_most_threads = 16;

}  // namespace

Plans::Plans() : state_(std::make_unique<State>()) {}

Plans::Plans(Problem const& problem, int most, double seconds)
    : Plans(std::move(of_all({problem}, most, seconds, 1).front())) {}

std::vector<Plans> Plans::of_all(std::vector<Problem> const& problems, int most, double seconds,
                                 int threads) {
  std::deque<Building> all;
  for (auto const& problem : problems) all.emplace_back(problem, most, seconds);
  std::mutex mutex;
  auto const work = [&](Handle const& handle) {
    if (handle == nullptr) return;
    while (auto* const one = next_of(all, mutex)) one->join(handle);
  };
  int const processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  int const useful = most == 1 ? static_cast<int>(problems.size()) : k_most_threads;
  int const wanted = std::min({threads > 0 ? threads : processors, k_most_threads, std::max(1, useful)});
  int device = 0;
  bool const has_device = cudaGetDevice(&device) == cudaSuccess;
  std::vector<std::thread> others;
  if (available() && has_device)
    for (int i = 1; i < wanted; ++i) try {
        others.emplace_back([&] {
          if (cudaSetDevice(device) == cudaSuccess) work(make_handle());
        });
      } catch (std::system_error const&) {
        break;  // no more threads here: fewer do
      }
  work(own_handle());
  for (auto& one : others) one.join();
  std::vector<Plans> result;
  for (auto& one : all) {
    Plans plans;
    plans.state_->plans = one.plans(), plans.state_->offered = one.offered();
    result.push_back(std::move(plans));
  }
  return result;
}

Plans::~Plans() = default;
Plans::Plans(Plans&&) noexcept = default;
Plans& Plans::operator=(Plans&&) noexcept = default;

int Plans::count() const { return static_cast<int>(state_->plans.size()); }
int Plans::offered() const { return state_->offered; }
std::string Plans::name(int plan) const { return state_->plans[static_cast<std::size_t>(plan)].name; }
std::int64_t Plans::workspace_bytes(int plan) const {
  return state_->plans[static_cast<std::size_t>(plan)].workspace;
}

bool Plans::run(int plan, Buffers const& b, void* workspace, cudaStream_t stream) const {
  try {
    auto const& chosen = state_->plans[static_cast<std::size_t>(plan)];
    ok(library().set_stream(chosen.handle.get(), stream), "stream");
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    std::vector<std::int64_t> ids = {k_x, k_w, k_y};
    std::vector<void*> memory = {const_cast<void*>(b.input), const_cast<void*>(b.filter), b.output};
    for (auto const& [id, at] : {std::pair{k_bias, b.bias}, {k_residual, b.residual}})
      if (at != nullptr) ids.push_back(id), memory.push_back(const_cast<void*>(at));
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, memory);
    pack.set<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, {workspace});
    pack = std::move(pack).finished();
    ok(library().execute(chosen.handle.get(), chosen.plan.get(), pack.get()), "execute");
    return true;
  } catch (Refused const&) {
    return false;
  }
}

}  // namespace tessera::cudnn
