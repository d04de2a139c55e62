"""Names of curves: at the ends of lines where they fit, otherwise in a legend. And unusual names."""

from __future__ import annotations

from drawing import NS, Draw, case, drawn_row, legend, sweep
from matplotlib.text import Text

from kbench.plotting.names import LONGEST_SHOWN_NAME, natural, shorten
from kbench.results.case import value_order


def test_labels_of_lines_that_end_close_together_do_not_overlap(draw: Draw) -> None:
    speeds = {"a": 2000.0, "b": 2001.0, "c": 2002.0}
    [figure] = draw(*(drawn_row(case(n), name, gbps=speed) for n in NS for name, speed in speeds.items()))
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in sorted(figure.axes[0].texts, key=Text.get_text)]
    assert len(boxes) == 3 and boxes == sorted(boxes, key=lambda box: box.y0), "each stands at the end of its own line"
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_a_very_long_name_loses_its_middle_and_two_that_would_read_alike_do_not(draw: Draw) -> None:
    long = "very-" * 40
    [figure] = draw(*sweep(f"{long}a", "b"))
    [shown, _] = sorted(legend(figure), key=len, reverse=True)
    assert len(shown) <= LONGEST_SHOWN_NAME and shown.startswith("very-") and shown.endswith("a")
    alike = [f"{long}{i}{long}" for i in (1, 2)]
    assert shorten(alike) == {name: name for name in alike}


def test_names_with_numbers_are_sorted_by_the_numbers() -> None:
    assert natural(["b", "a[n=16]", "a[n=4]"]) == ["a[n=4]", "a[n=16]", "b"]
    assert sorted(["N=1024", "N=256", 3, "forward"], key=value_order) == [3, "forward", "N=256", "N=1024"]
