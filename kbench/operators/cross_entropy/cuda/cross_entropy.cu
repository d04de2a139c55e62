// Cross-entropy with the gradient of the logits: the row of softmax, with another output. A row is read once and written once.
//
//     loss = max + log(sum(exp(x - max))) - x[label]
#include "cross_entropy_row.cuh"

namespace kbench {

cudaError_t cross_entropy_full(const Call& call) {
  const Tensor &d_loss = call.inputs[0], &x = call.inputs[1], &labels = call.inputs[2];
  const Tensor &loss = call.outputs[0], &dx = call.outputs[1];
  require_rows(x, {&dx}, {});
  require_logits(x, labels, {&d_loss, &loss});
  const CrossEntropyArguments arguments = {labels.data<const std::int64_t>(), d_loss.data<const float>(),
                                           loss.data<float>(),                nullptr,
                                           x.address,                         x.strides[0],
                                           x.sizes[0]};
  return with_type(x.dtype, [&](auto zero) {
    using Op = CrossEntropyGradient<false>;
    return launch_rows(call, rows_call<decltype(zero), Op>(call, arguments, {&x}, {&dx}), {});
  });
}

const std::vector<Kernel> kernels = {
    {"cross_entropy_full", cross_entropy_full, {"d_loss", "x", "labels"}, {"loss", "dx"}, {KBENCH_ROW_OPTIONS}}};

}  // namespace kbench
