"""An axis that no input has, such as K of top-k."""

from __future__ import annotations

from promises.outside import Kbench, Write

TOP_K = """
import kbench

top_k = kbench.Operator(
    "top_k",
    axes=("M", "N", "K"),
    inputs={"logits": kbench.Tensor("M", "N")},
    outputs={"values": kbench.Tensor("M", "K")},
    reference=lambda logits, *, K: logits.topk(K).values,
    rows="M",
)


@top_k.provider("torch-native", factory=True)
def torch_native(case):
    return lambda logits: logits.topk(case.K).values
"""

CONFIG = "operator: top_k\nplugins: [top_k.py]\nsweep: {M: 4, N: 9, K: 3, dtype: float32}\nproviders: [torch-native]\n"


def test_a_provider_gets_the_size_from_the_case(kbench: Kbench, write: Write) -> None:
    write("top_k.py", TOP_K)
    write("top_k.yaml", CONFIG)
    ended = kbench("check", "top_k.yaml")
    assert ended.code == 0 and "ok" in ended.out


def test_a_provider_that_asks_for_it_is_told_to_be_a_factory(kbench: Kbench, write: Write) -> None:
    own = '\n\n@top_k.provider("mine")\ndef mine(logits, *, {axis}):\n    return logits\n'
    line = TOP_K.count("\n") + 3
    write("top_k.yaml", CONFIG)
    for axis, advice in (("K", False), ("N", True)):
        write("top_k.py", TOP_K + own.format(axis=axis))
        ended = kbench("check", "top_k.yaml")
        assert ended.code == 2 and f"top_k.py:{line}" in ended.err and "factory=True" in ended.err
        assert ("read the size from the inputs" in ended.err) is advice
