// The gradient of the logits of cross-entropy, after the forward pass. Each element is read once and written once; no row is
// reduced.
#include "cross_entropy_row.cuh"

namespace kbench {

cudaError_t cross_entropy_backward(const Call& call) {
  const Tensor &d_loss = call.inputs[0], &x = call.inputs[1], &labels = call.inputs[2], &saved = call.inputs[3];
  const Tensor& dx = call.outputs[0];
  require_rows(x, {&dx}, {});
  require_logits(x, labels, {&d_loss});
  require_statistics(x, saved);
  const CrossEntropyArguments arguments = {labels.data<const std::int64_t>(), d_loss.data<const float>(),
                                           nullptr,                           saved.data<const float>(),
                                           x.address,                         x.strides[0],
                                           x.sizes[0]};
  return with_type(x.dtype, [&](auto zero) {
    using Op = CrossEntropyGradient<true>;
    return launch_rows(call, rows_call<decltype(zero), Op>(call, arguments, {&x}, {&dx}), {});
  });
}

const std::vector<Kernel> kernels = {{"cross_entropy_backward",
                                      cross_entropy_backward,
                                      {"d_loss", "x", "labels", "saved"},
                                      {"dx"},
                                      {KBENCH_ROW_OPTIONS}}};

}  // namespace kbench
