// Kernels that run on the host, so that the interface of CUDA sources can be tested without a GPU.
#include "kernel.h"

namespace kbench {

// z = a * x + y, for float64 tensors with any strides.
cudaError_t axpy(const Call& call) {
  const Tensor &x = call.inputs[0], &y = call.inputs[1], &z = call.outputs[0];
  require(x.dtype == Dtype::float64, "x must be float64");
  const double a = call.real("a") + static_cast<double>(call.integer("more"));
  for (std::int64_t i = 0; i < z.elements(); ++i) {
    std::int64_t left = i, at[3] = {};
    for (int d = z.rank - 1; d >= 0; --d) {
      for (int t = 0; t < 3; ++t) at[t] += left % z.sizes[d] * (t == 0 ? x : t == 1 ? y : z).strides[d];
      left /= z.sizes[d];
    }
    z.data<double>()[at[2]] = a * x.data<double>()[at[0]] + y.data<double>()[at[1]];
  }
  return cudaSuccess;
}

// Declines every call, and says what it was called with.
cudaError_t describe(const Call& call) {
  const Tensor& x = call.inputs[0];
  std::string text = std::string(name_of(x.dtype)) + " of " + std::to_string(x.itemsize()) + " bytes";
  for (int i = 0; i < x.rank; ++i) text += " " + std::to_string(x.sizes[i]) + ":" + std::to_string(x.strides[i]);
  if (x.contiguous()) text += " contiguous";
  if (x.dense_rows()) text += " dense";
  if (x.aligned_rows()) text += " aligned";
  throw Unsupported(text);
}

// y = 2 x, for float32 matrices with dense rows.
cudaError_t twice(const Call& call) {
  const Tensor &x = call.inputs[0], &y = call.outputs[0];
  require_rows(x, {&y});
  for (std::int64_t r = 0; r < x.sizes[0]; ++r) {
    for (std::int64_t c = 0; c < x.sizes[1]; ++c) {
      y.data<float>()[r * x.sizes[1] + c] = 2 * x.data<const float>()[r * x.strides[0] + c];
    }
  }
  return cudaSuccess;
}

// y is the stream on which it is called.
cudaError_t stream(const Call& call) {
  call.outputs[0].data<std::int64_t>()[0] = reinterpret_cast<std::int64_t>(call.stream);
  return cudaSuccess;
}

cudaError_t fail(const Call&) { return 9; }

cudaError_t misspelt(const Call& call) { return call.integer("block") ? cudaSuccess : 1; }

const std::vector<Kernel> kernels = {
    {"axpy", axpy, {"x", "y"}, {"z"}, {"a", "more=0"}},
    {"describe", describe, {"x"}, {"y"}, {}},
    {"twice", twice, {"x"}, {"y"}, {}},
    {"stream", stream, {}, {"y"}, {}},
    {"fail", fail, {}, {"y"}, {"limit=1.5"}},
    {"misspelt", misspelt, {}, {"y"}, {"blocks=4"}},
};

}  // namespace kbench
