"""Decides whether a candidate is faster than the champion, so that all candidates of a ledger together are promoted without
being faster with a probability of at most 5 %.

One observation is the gain of a session, a fresh process: the mean over the cases of the logarithm of the champion's time over
the candidate's, paired round by round. Between sessions of the same code it scatters by a fraction of a per cent to a few per
cent, sometimes in two groups. So the test assumes no normal distribution, but only this: if the candidate is not faster, a gain
of some size is at most as likely as a loss of this size. Both run in the same processes, in an order that is drawn anew.

- **Screen.** Two sessions. A candidate whose mean gain is below LEAST_GAIN, after either of them, has lost.
- **Confirmation.** Fresh sessions, of which each bets on a gain. A session multiplies the evidence by 2 / (1 + exp(-b x)), with
  its gain x and a stake b that earlier sessions fix: about what is most probable if they tell the truth. For a gain and a
  loss of the same size the mean of this factor is 1. So the evidence of a candidate that is not faster is a nonnegative
  supermartingale: with a probability of at most alpha it ever reaches 1 / alpha, however often one looks (Ville's inequality;
  Ramdas, Gruenwald, Vovk and Shafer, Game-theoretic statistics and safe anytime-valid inference, Statistical Science 38, 2023;
  for symmetric distributions: Vovk and Wang, Nonparametric e-tests of symmetry, New England Journal of Statistics in Data
  Science 2, 2024). The candidate is promoted when it does.
- **Alpha spending.** The i-th confirmation of a ledger has alpha = 0.05 * 6 / (pi^2 i^2). All of them together have 0.05, and
  this needs no independence (Tian and Ramdas, Online control of the familywise error rate, Statistical Methods in Medical
  Research 30, 2021). A candidate that the screen stops spends nothing, because it cannot be promoted.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from statistics import fmean

ERROR_RATE = 0.05
"""The most probable that a ledger promotes any candidate that is not faster than the champion of its time."""

SCREEN_SESSIONS, MOST_SESSIONS = 2, 24
"""The sessions of the screen, and the most of the confirmation. Evidence doubles at most with each session."""

LEAST_GAIN = math.log(1.005)
"""The mean gain below which a candidate is not worth a confirmation."""

GIVE_UP = 0.05
"""A candidate whose evidence has fallen below this has lost."""


class Decision(enum.StrEnum):
    """What follows from the sessions so far."""

    GO_ON = "go-on"
    BETTER = "better"
    NOT_BETTER = "not-better"


def level(number: int) -> float:
    """The alpha of a confirmation, by its number in the ledger, from 1."""
    return ERROR_RATE * 6 / (math.pi * number) ** 2


def screened(gains: Sequence[float]) -> Decision:
    """Whether to go on, after each session of the screen."""
    return Decision.GO_ON if fmean(gains) >= LEAST_GAIN else Decision.NOT_BETTER


def evidence(screen: Sequence[float], confirmation: Sequence[float]) -> float:
    """The evidence for the candidate after some sessions of its confirmation."""
    product = 1.0
    for number, gain in enumerate(confirmation):
        before = [*screen, *confirmation[:number]]
        mean = fmean(before)
        # few sessions may agree by chance, so their scatter counts as at least half of their mean
        variance = max(fmean((earlier - mean) ** 2 for earlier in before), (mean / 2) ** 2, 1e-12)
        stake = 2 * max(mean, 0.0) / variance
        product *= 2 / (1 + math.exp(min(-stake * gain, 700.0)))
    return product


def confirmed(screen: Sequence[float], confirmation: Sequence[float], alpha: float) -> Decision:
    """Whether to go on, after each session of the confirmation."""
    so_far = evidence(screen, confirmation)
    if so_far >= 1 / alpha:
        return Decision.BETTER
    reachable = so_far * 2 ** (MOST_SESSIONS - len(confirmation)) >= 1 / alpha
    return Decision.GO_ON if reachable and so_far > GIVE_UP else Decision.NOT_BETTER
