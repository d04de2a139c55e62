"""Pictures of a comparison: the change of every row with its 95 % interval, beside the margin, and the verdict on it.

`table` makes points of verdicts, `verdicts` says how each of them looks, `scale` what the axis of changes shows; `sweep`,
`listing` and `ranking` draw a panel, and `picture` chooses between these and puts the page together.
"""

from kbench.plotting.changes.picture import draw, pages

__all__ = ["draw", "pages"]
