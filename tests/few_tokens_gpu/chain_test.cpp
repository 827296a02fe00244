// SPDX-License-Identifier: Apache-2.0
// Chains of MLPs in one launch: the right numbers for every form, type and way to cut the work, and for
// launches of any length in a row.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "gpu/device_buffer.hpp"
#include "kernels/common/mlp_reference.hpp"
#include "kernels/few_tokens/mlp_chain.hpp"

namespace tessera::few_tokens {
namespace {

using gpu::DeviceBuffer;
using gpu::ok;
using mlp::ElementType;
using mlp::Form;
using Numbers = DeviceBuffer<unsigned short>;

#define ASSERT_OK(expression)                                     \
  do {                                                            \
    auto&& outcome = (expression);                                \
    ASSERT_TRUE(outcome.has_value()) << to_text(outcome.error()); \
  } while (false)

std::size_t size(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

/// A rounding to bf16 is off by up to 2^-8 of an element. Over a thousand elements that is 1.65e-3 in the
/// mean square; over fewer the largest decide.
double allowed_error(mlp::Shape const& shape) { return shape.tokens * shape.model < 1000 ? 1.0 / 256 : 2e-3; }

/// Weights of three MLPs and a chain's buffers, with a row behind each that nobody may touch.
class Problem {
 public:
  static constexpr int mlps = 3;

  Problem(mlp::Shape const& of, unsigned seed)
      : shape(of),
        input_(size(of.tokens, of.model)),
        rounded_(size(of.tokens, of.hidden)),
        sums_(size(of.tokens, of.hidden) * 2),
        reference_(size(of.tokens, of.model)),
        h_(size(of.tokens + 1, of.hidden)) {
    bool const gated = of.form == Form::swiglu;
    for (unsigned i = 0; i < mlps; ++i) {
      fill(weights_.emplace_back(size(of.model, of.hidden) * (gated ? 2 : 1)), 10 * seed + 2 * i,
           1 / std::sqrt(double(of.model)));
      // What comes out is about as large as what goes in. (SwiGLU squares what is off.)
      fill(weights_.emplace_back(size(of.model, of.hidden)), 10 * seed + 2 * i + 1,
           (gated ? 1.67 : 1.7) / std::sqrt(double(of.hidden)));
    }
    fill(input_, 10 * seed + 9, 1);
    for (int i = 0; i < 2; ++i) x_.emplace_back(size(of.tokens + 1, of.model));
    start_again();
  }

  mlp::Shape shape;

  MlpChainBuffers buffers() const {
    MlpChainBuffers result;
    result.x[0] = x_[0].get(), result.x[1] = x_[1].get();
    result.h = h_.get();
    for (std::size_t i = 0; i < weights_.size(); i += 2)
      result.weights.push_back({weights_[i].get(), weights_[i + 1].get()});
    return result;
  }
  void start_again() const {
    for (auto const* array : {&x_[0], &x_[1], &h_}) bench::poison(array->get(), array->size(), nullptr);
    ok(cudaMemcpy(x_[1].get(), input_.get(), input_.size() * 2, cudaMemcpyDeviceToDevice));
    ok(cudaDeviceSynchronize());
  }
  /// What a launch of so many MLPs has written last, and what its last MLP has read.
  std::vector<unsigned short> result(int launched) const { return numbers(x_[launched % 2 == 0 ? 1 : 0]); }
  std::vector<unsigned short> last_input(int launched) const {
    return numbers(x_[launched % 2 == 0 ? 0 : 1]);
  }
  /// Of the last MLP against plain arithmetic on what it read.
  double error(int launched) const {
    auto const& from = x_[launched % 2 == 0 ? 0 : 1];
    auto const& to = x_[launched % 2 == 0 ? 1 : 0];
    auto const w = static_cast<std::size_t>((launched - 1) % mlps * 2);
    mlp::reference_mlp(shape, {from.get(), weights_[w].get(), rounded_.get(), weights_[w + 1].get(), nullptr},
                       sums_.get(), nullptr, reference_.get(), false, nullptr);
    return bench::relative_error(to.get(), reference_.get(), input_.size(), shape.type, nullptr);
  }
  bool kept_its_bounds() const {
    auto const untouched = [](Numbers const& array, int columns) {
      auto const row = static_cast<std::size_t>(columns);
      return bench::not_poisoned(array.get() + array.size() - row, row, nullptr) == 0;
    };
    return untouched(x_[0], shape.model) && untouched(x_[1], shape.model) && untouched(h_, shape.hidden);
  }

 private:
  void fill(Numbers const& array, unsigned seed, double deviation) const {
    bench::fill_random(array.get(), array.size(), shape.type, seed, static_cast<float>(deviation), nullptr);
  }
  std::vector<unsigned short> numbers(Numbers const& array) const {
    auto all = array.download();
    all.resize(input_.size());
    return all;
  }

  std::deque<Numbers> weights_, x_;
  Numbers input_, rounded_;
  DeviceBuffer<float> sums_, reference_;
  Numbers h_;
};

std::string words(mlp::Shape const& shape, MlpChainConfig const& config) {
  return std::to_string(shape.tokens) + " tokens, model " + std::to_string(shape.model) + ", hidden " +
         std::to_string(shape.hidden) + (shape.form == Form::gelu ? ", gelu" : ", swiglu") +
         (shape.type == ElementType::bf16 ? ", bf16" : ", fp16") + ", workers " +
         std::to_string(config.workers) + ", slots " + std::to_string(config.slots) + ", in flight " +
         std::to_string(config.in_flight) + ", late slots " + std::to_string(config.late_slots) +
         (config.starts_early ? ", starts early" : "") + (config.tokens_in_data ? ", tokens in data" : "");
}

/// Launches of 1, 2, 3, ... MLPs, each from the same input. The last MLP of each is right, and has read, bit
/// by bit, what the launch before came to: so all of its MLPs are.
void expect_right(mlp::Shape const& shape, MlpChainConfig const& config, int longest = 5) {
  SCOPED_TRACE(words(shape, config));
  Problem const problem(shape, 1);
  auto chain = MlpChain::make(shape, problem.buffers(), config);
  ASSERT_OK(chain);
  std::vector<unsigned short> before;
  for (int launched = 1; launched <= longest; ++launched) {
    problem.start_again();
    ASSERT_OK(chain->launch(nullptr, launched));
    ASSERT_OK(chain->finish());
    if (launched > 1) {
      ASSERT_EQ(problem.last_input(launched), before) << launched << " MLPs";
    }
    ASSERT_LE(problem.error(launched), allowed_error(shape)) << launched << " MLPs";
    ASSERT_TRUE(problem.kept_its_bounds());
    before = problem.result(launched);
  }
}

constexpr int k_tokens[] = {1, 2, 3, 8, 9, 16, 32};

void every_token_count(int model, int hidden, Form form, ElementType type) {
  for (int const tokens : k_tokens)
    for (bool const in_data : {false, true}) {
      if (in_data && tokens > 2) continue;
      MlpChainConfig config;
      config.tokens_in_data = in_data;
      expect_right({tokens, model, hidden, form, type}, config);
      if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(FewTokens, GeluBf16) { every_token_count(2048, 1024, Form::gelu, ElementType::bf16); }
TEST(FewTokens, GeluFp16) { every_token_count(1024, 1408, Form::gelu, ElementType::fp16); }
TEST(FewTokens, SwigluBf16) { every_token_count(1024, 2752, Form::swiglu, ElementType::bf16); }
TEST(FewTokens, SwigluFp16) { every_token_count(1536, 704, Form::swiglu, ElementType::fp16); }
TEST(FewTokens, SmallerThanTheGpu) {
  every_token_count(64, 64, Form::swiglu, ElementType::bf16);
  every_token_count(128, 64, Form::gelu, ElementType::fp16);
  every_token_count(64, 192, Form::gelu, ElementType::bf16);
}
TEST(FewTokens, Gpt3) {
  for (int const tokens : {1, 8, 32})
    expect_right({tokens, 12288, 6144, Form::gelu, ElementType::bf16}, {}, 4);
}
TEST(FewTokens, Llama) {
  for (int const tokens : {1, 8, 32})
    expect_right({tokens, 8192, 2752, Form::swiglu, ElementType::fp16}, {}, 4);
}

TEST(FewTokens, EveryWayToCutIsRight) {
  for (int const tokens : {1, 2, 16})
    for (bool const in_data : {false, true}) {
      if (in_data && tokens > 2) continue;
      for (auto const form : {Form::gelu, Form::swiglu}) {
        mlp::Shape const shape{tokens, 1024, 768, form, ElementType::bf16};
        MlpChainConfig config;
        config.tokens_in_data = in_data;
        for (int const in_flight : {1, 2, 3, 5}) {
          config.in_flight = in_flight;
          expect_right(shape, config, 3);
          config.slots = 4;
          expect_right(shape, config, 3);
          config.slots = 0;
          if (HasFatalFailure()) return;
        }
        config.in_flight = 0;
        for (int const workers : {16, 33, 100}) {
          config.workers = workers;
          expect_right(shape, config, 3);
        }
        config.workers = 0;
        for (int const late_slots : {4, 5, 16}) {
          config.late_slots = late_slots;
          expect_right(shape, config, 3);
        }
        if (HasFatalFailure()) return;
      }
    }
}

/// Launches one behind the other, of any length, with nothing that waits in between: the same bits as one by
/// one.
TEST(FewTokens, LaunchesInARowHaveTheSameBits) {
  for (int const tokens : {1, 2, 9})
    for (bool const in_data : {false, true})
      for (bool const starts_early : {false, true}) {
        if (in_data && tokens > 2) continue;
        mlp::Shape const shape{tokens, 1024, 768, Form::gelu, ElementType::bf16};
        MlpChainConfig config;
        config.tokens_in_data = in_data;
        config.starts_early = starts_early;
        SCOPED_TRACE(words(shape, config));
        Problem const problem(shape, 2);
        auto chain = MlpChain::make(shape, problem.buffers(), config);
        ASSERT_OK(chain);
        // Even numbers leave their result where the next launch reads.
        auto const run = [&](bool one_by_one, cudaStream_t stream) {
          for (int const launched : {2, 6, 4, 0, 2, 20}) {
            ASSERT_OK(chain->launch(stream, launched));
            if (one_by_one) ASSERT_OK(chain->finish());
          }
        };
        run(true, nullptr);
        ASSERT_LE(problem.error(20), allowed_error(shape));
        auto const expected = problem.result(20);
        cudaStream_t stream;
        ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        for (int round = 0; round < 20; ++round) {
          problem.start_again();
          run(false, stream);
          ASSERT_OK(chain->finish());
          ASSERT_EQ(problem.result(20), expected) << round;
        }
        cudaGraph_t graph;
        cudaGraphExec_t executable;
        ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        run(false, stream);
        ok(cudaStreamEndCapture(stream, &graph));
        ok(cudaGraphInstantiate(&executable, graph, 0));
        for (int round = 0; round < 20; ++round) {
          problem.start_again();
          ok(cudaGraphLaunch(executable, stream));
          ok(cudaStreamSynchronize(stream));
          ASSERT_EQ(problem.result(20), expected) << "replay " << round;
        }
        ok(cudaGraphExecDestroy(executable));
        ok(cudaGraphDestroy(graph));
        ok(cudaStreamDestroy(stream));
      }
}

/// Words carry 16 bits of the iteration, counted over all launches.
TEST(FewTokens, SerialNumbersMayWrapAround) {
  for (bool const in_data : {false, true}) {
    mlp::Shape const shape{1, 128, 64, Form::gelu, ElementType::bf16};
    MlpChainConfig config;
    config.tokens_in_data = in_data;
    Problem const problem(shape, 3);
    auto chain = MlpChain::make(shape, problem.buffers(), config);
    ASSERT_OK(chain);
    std::vector<unsigned short> expected;
    for (int launch = 0; launch < 11000; ++launch) {
      problem.start_again();
      ASSERT_OK(chain->launch(nullptr, 6));
      ASSERT_OK(chain->finish());
      auto const found = problem.result(6);
      if (launch == 0) {
        ASSERT_LE(problem.error(6), allowed_error(shape));
        expected = found;
      }
      ASSERT_EQ(found, expected) << launch;
    }
  }
}

TEST(FewTokens, TooManyRowsForABlockAreRefused) {
  mlp::Shape const shape{1, 2048, 64, Form::gelu, ElementType::bf16};
  Problem const problem(shape, 4);
  MlpChainConfig config;
  config.workers = 4;
  auto const chain = MlpChain::make(shape, problem.buffers(), config);
  ASSERT_FALSE(chain);
  EXPECT_EQ(chain.error().front().code, "E0565");
  EXPECT_NE(to_text(chain.error()).find("rows of weights for each of 4 blocks"), std::string::npos)
      << to_text(chain.error());
}

}  // namespace
}  // namespace tessera::few_tokens
