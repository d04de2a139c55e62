// What the kernels of cross-entropy require of their tensors.
#pragma once

#include "kernel.h"

namespace kbench {

// Throws Unsupported unless the logits' rows have labels, and losses or gradients of losses in float32.
inline void require_logits(const Tensor& x, const Tensor& labels, std::initializer_list<const Tensor*> numbers) {
  require(x.sizes[1] > 0, "a row has no logits");
  require(labels.dtype == Dtype::int64, "labels must be int64");
  require(labels.has_sizes({x.sizes[0]}) && labels.contiguous(), "labels must have an element for each row, without gaps");
  for (const Tensor* number : numbers) {
    require(number->dtype == Dtype::float32, "losses and their gradients must be float32");
    require(number->has_sizes({x.sizes[0]}) && number->contiguous(),
            "losses and their gradients must have an element for each row, without gaps");
  }
}

// What the forward pass saves: the maxima of all rows, then their sums of exp(x - maximum). Throws Unsupported for another
// shape.
inline void require_statistics(const Tensor& x, const Tensor& saved) {
  require(saved.dtype == Dtype::float32 && saved.has_sizes({2, x.sizes[0]}) && saved.contiguous(),
          "what the forward pass saved must be (2, M) in float32");
}

}  // namespace kbench
