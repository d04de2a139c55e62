"""Pictures of a history: the change of every provider's time since its first level, run by run.

`pages` chooses the cases and numbers the events, `time_axis` places runs along x, `panel` draws a case, and `picture` puts a
page together.
"""

from kbench.plotting.over_time.pages import history_pages
from kbench.plotting.over_time.picture import draw_history

__all__ = ["draw_history", "history_pages"]
