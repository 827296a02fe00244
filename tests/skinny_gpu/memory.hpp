// SPDX-License-Identifier: Apache-2.0
// Device memory of MLPs for tests, with the reference beside it.
#pragma once

#include <gtest/gtest.h>

#include "gpu/device_buffer.hpp"
#include "gpu/launch.hpp"
#include "gpu/launches.hpp"
#include "kernels/common/mlp_reference.hpp"
#include "kernels/skinny_mlp_sm90/skinny.hpp"

namespace tessera::skinny_sm90 {

using bench::differing;
using bench::not_poisoned;
using bench::poison;
using bench::relative_error;
using gpu::DeviceBuffer;
using gpu::k_poison;
using gpu::ok;

constexpr double allowed_error = 2e-3;

/// Weights and inputs for up to 128 tokens. What two MLPs one after the other make: y = mlp(x), z = mlp(y).
struct Memory {
  mlp::Shape shape;
  DeviceBuffer<unsigned short> x, w1, h, w2, y, z;
  DeviceBuffer<float> sums, y_reference, z_reference;
  DeviceBuffer<unsigned> workspace;
  DeviceBuffer<StallRecord> stall;

  Memory(mlp::Shape const& of, unsigned seed)
      : shape(of),
        x(size(of.tokens, of.model), k_poison),
        w1(size(of.model, of.hidden) * (of.form == mlp::Form::swiglu ? 2 : 1), k_poison),
        h(size(of.tokens, of.hidden), k_poison),
        w2(size(of.model, of.hidden), k_poison),
        y(size(of.tokens, of.model), k_poison),
        z(size(of.tokens, of.model), k_poison),
        sums(size(of.tokens, of.hidden) * 2, k_poison),
        y_reference(size(of.tokens, of.model), k_poison),
        z_reference(size(of.tokens, of.model), k_poison),
        workspace(workspace_words(of.hidden), 0),
        stall(1, 0) {
    auto fill = [&](DeviceBuffer<unsigned short>& array, unsigned number, double deviation) {
      bench::fill_random(array.get(), array.size(), of.type, 10 * seed + number,
                         static_cast<float>(deviation), nullptr);
    };
    fill(x, 1, 1);
    fill(w1, 2, 1 / std::sqrt(double(of.model)));
    // What comes out is about as large as what goes in, so that MLPs can be chained.
    fill(w2, 3, (of.form == mlp::Form::swiglu ? 2.8 : 1.7) / std::sqrt(double(of.hidden)));
    mlp::reference_mlp(shape, buffers(x, y), sums.get(), nullptr, y_reference.get(), false, nullptr);
    ok(cudaDeviceSynchronize());
  }

  mlp::Buffers buffers(DeviceBuffer<unsigned short> const& from,
                       DeviceBuffer<unsigned short> const& to) const {
    return {from.get(), w1.get(), h.get(), w2.get(), to.get()};
  }
  Call call(mlp::Buffers const& of, bool programmatic, double deadline_seconds = 0.2) const {
    Call one;
    one.buffers = of;
    one.workspace = workspace.get();
    one.programmatic = programmatic;
    one.watch = {stall.get(), static_cast<unsigned long long>(gpu::patient(deadline_seconds) * 1e9)};
    return one;
  }
  StallRecord record() const { return stall.download()[0]; }

 private:
  static std::size_t size(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }
};

}  // namespace tessera::skinny_sm90
