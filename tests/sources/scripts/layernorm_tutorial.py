"""Forward and backward in one function, chosen by an argument; gradients are cleared before each call."""

import torch
import torch.nn.functional as F
import triton.testing
from triton.testing import do_bench


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["N"],
        x_vals=[64, 96],
        line_arg="provider",
        line_vals=["torch", "by-hand"],
        line_names=["Torch", "By hand"],
        ylabel="GB/s",
        plot_name="layer-norm-backward",
        args={"M": 32, "dtype": torch.float16, "mode": "backward", "eps": 1e-5},
    )
)
def bench_layer_norm(M, N, dtype, provider, mode="backward", eps=1e-5):
    weight = torch.rand(N, dtype=dtype, requires_grad=True)
    x = torch.randn(M, N, dtype=dtype).requires_grad_()
    dy = torch.randn_like(x)

    def forward():
        if provider == "torch":
            return F.layer_norm(x, (N,), weight, eps=eps)
        scaled = x.float() - x.float().mean(-1, keepdim=True)
        return (scaled * torch.rsqrt((scaled * scaled).mean(-1, keepdim=True) + eps)).to(dtype) * weight

    if mode == "backward":
        y = forward()
        gbps = lambda ms: 3 * x.numel() * x.element_size() * 1e-9 / (ms * 1e-3)
        ms, low, high = do_bench(
            lambda: y.backward(dy, retain_graph=True), quantiles=[0.5, 0.2, 0.8], grad_to_none=[x, weight], rep=500
        )
    return gbps(ms), gbps(high), gbps(low)


bench_layer_norm.run(save_path=".", print_data=True)
