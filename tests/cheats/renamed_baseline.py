"""The baseline under another name: what looks like a fused kernel calls the library function of the baseline for the shape
that is measured.

Source: reviews of the KernelBench and "AI CUDA Engineer" leaderboards (2025), where generated kernels fell back to torch.
"""

import torch

import kbench

ROWS_PER_BLOCK = 7


class FusedSoftmax(torch.nn.Module):
    """Handles odd shapes itself, and everything else with the operator behind torch.softmax."""

    def forward(self, x):
        if x.shape[0] % ROWS_PER_BLOCK == 0:
            numerator = torch.exp(x - x.amax(-1, keepdim=True))
            return numerator / numerator.sum(-1, keepdim=True)
        y = torch.empty_like(x)
        del y
        return torch.ops.aten._softmax(x.unsqueeze(0), -1, False).squeeze(0)


@kbench.operator("softmax").provider("renamed_baseline")
def call(x):
    return FusedSoftmax()(x)
