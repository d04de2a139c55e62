"""Pictures of a comparison: the change of every row with its 95 % interval, the margin, and the verdict.

`rows` makes a table of the verdicts, `pages` chooses panels, `picture` puts a page together. `panels` draw the three forms
of a panel, `axis` is the axis of changes, and `marks` says how each verdict looks.
"""

from kbench.plotting.changes.pages import pages
from kbench.plotting.changes.picture import draw

__all__ = ["draw", "pages"]
