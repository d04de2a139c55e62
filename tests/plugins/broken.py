"""A plug-in that cannot be imported."""

import kbench

softmax = kbench.operator("softmax")

undefined_name  # noqa: B018, F821
