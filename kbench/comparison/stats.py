"""Estimates the size of a change, its confidence interval, and its p value. The unit of observation is the session.

A session is one fresh process. Its rounds and samples share the memory placement, the clocks and the other load of that
process, so only sessions count as trials. A variance that is estimated from the few sessions of one row is unreliable. Two
observations improve the estimate:

- Most of the variation between sessions affects all rows of a session equally. This common part is estimated from the mean of
  the rows of each session, and added to the variance of every row.
- The rest is of similar size in all rows. The variance of each row is shrunk towards that of the sweep, by an amount that
  depends on how similar the rows are: Smyth's moderated t (Stat. Appl. Genet. Mol. Biol. 3, 2004).

All values are natural logarithms: an effect of 0.05 is a time that is 1.05 times as long.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, ndtr, ndtri, polygamma, stdtr, stdtrit

Array = npt.NDArray[np.float64]

CONFIDENCE = 0.95
LEAST_VARIANCE = 1e-12
"""The smallest variance: a scatter of 1e-6 of the time. It keeps the logarithm of the variance of equal times finite."""

FEWEST_TO_LEND = 5
"""With fewer rows than this, variances are not shrunk, because their scatter is poorly known."""


@dataclass(frozen=True)
class Effects:
    """The changes of a set of rows, each array of shape (rows,).

    effect      log ratio
    half_width  half the width of the 95 % interval of the effect
    p           two-sided p value for no change
    sd          standard deviation between the sessions of one side, from all sources
    mean, mean_half_width   the weighted mean of the effects of all rows, and half the width of its 95 % interval
    """

    effect: Array
    half_width: Array
    p: Array
    sd: Array
    mean: float
    mean_half_width: float


def estimate_effects(old: Array, new: Array, resolution: Array, weights: Array, scatter: Array) -> Effects:
    """The change from one set of sessions to another, not paired.

    `old` and `new` are log times of shape (rows, sessions), NaN if a session lacks a row. Each row needs two sessions in both.
    `resolution`, of shape (rows,), is the step of the clock as a share of the time. It gives the smallest variance of a row.
    `weights`, of shape (rows,), are those of the mean. `scatter`, of shape (rows,), is the smallest standard error of an
    effect: how far the changes of unchanged code scatter.
    """
    rows, sides = len(resolution), [old, new]
    effect = _mean(new) - _mean(old)
    # the variance of a uniform error of one step
    least = np.maximum(resolution**2 / 12, LEAST_VARIANCE)
    residuals = np.concatenate([side - _mean(side)[:, None] for side in sides], axis=1)
    common, common_df = _common(residuals, sides, np.ones(rows))
    of_mean, _ = _common(residuals, sides, weights)
    counts = [np.sum(~np.isnan(side), axis=1) for side in sides]
    own_df = (np.sum(counts, axis=0) - len(sides)) * (rows - 1) / rows
    own_variance = np.zeros(rows)
    if rows > 1:
        own_variance = np.nansum((residuals - _mean(residuals.T)) ** 2, axis=1) / own_df
        own_variance, own_df = _moderate(np.maximum(own_variance, least), own_df)
    variance = own_variance + common
    spread = common**2 / common_df + np.divide(own_variance**2, own_df, out=np.zeros(rows), where=own_df > 0)
    # Satterthwaite's approximation
    df = np.divide(variance**2, spread, out=np.full(rows, common_df), where=spread > 0)
    variance = np.maximum(variance, least)
    of_difference = np.sum(
        [1 / count for count in counts], axis=0
    )  # of means over n and m sessions: 1/n + 1/m variances
    error = np.sqrt(variance * of_difference)
    quantile = (1 + CONFIDENCE) / 2
    scores = np.divide(np.abs(effect), scatter, out=np.full(rows, np.inf), where=scatter > 0)
    return Effects(
        effect=effect,
        half_width=np.maximum(stdtrit(df, quantile) * error, ndtri(quantile) * scatter),
        p=np.maximum(2 * stdtr(df, -np.abs(effect) / error), 2 * ndtr(-scores)),
        sd=np.sqrt(variance),
        mean=float(np.average(effect, weights=weights)),
        mean_half_width=float(stdtrit(common_df, quantile) * np.sqrt(of_mean * of_difference.max())),
    )


def discoveries(p: npt.ArrayLike) -> Array:
    """q values from p values (Benjamini and Hochberg, 1995): the false discovery rate of the rows with this p value or less.

    scipy.stats has this function too, but takes a second to import.
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values)
    scaled = values[order] * len(values) / np.arange(1, len(values) + 1)
    q = np.empty_like(values)
    q[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return q


def _mean(values: Array) -> Array:
    """The mean of each row, without NaN; NaN for a row that has only NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        means: Array = np.nanmean(values, axis=1)
    return means


def _common(residuals: Array, sides: list[Array], weights: Array) -> tuple[float, float]:
    """The variance between sessions of the weighted mean of the rows, and its degrees of freedom: what all rows share.

    The estimate includes the own variance of the rows divided by their number. It is a little too large, never too small.
    """
    present_weights = ~np.isnan(residuals) * weights[:, None]
    total = present_weights.sum(axis=0)
    sums = np.nansum(residuals * present_weights, axis=0)
    shared = np.divide(sums, total, out=np.full(len(total), np.nan), where=total > 0)
    sessions = sum(int(np.sum(~np.all(np.isnan(side), axis=0))) for side in sides)
    df = float(sessions - len(sides))
    return float(np.nansum(shared**2)) / df, df


def _moderate(variance: Array, df: Array) -> tuple[Array, Array]:
    """Variances shrunk towards their centre, and their degrees of freedom afterwards (Smyth 2004, section 6.2).

    They shrink less if they scatter much more than variances with `df` degrees of freedom do by chance.
    """
    if len(variance) < FEWEST_TO_LEND:
        return variance, df
    logs = np.log(variance) - digamma(df / 2) + np.log(df / 2)
    excess = float(np.var(logs, ddof=1) - np.mean(polygamma(1, df / 2)))
    if excess <= 0:  # they scatter no more than by chance: all rows have one variance
        return np.full_like(variance, np.exp(logs.mean())), np.full_like(df, df.sum())
    prior_df = 2 * _inverse_trigamma(excess)
    prior = np.exp(logs.mean() + digamma(prior_df / 2) - np.log(prior_df / 2))
    total = df + prior_df
    return (df * variance + prior_df * prior) / total, np.minimum(total, df.sum())


def _inverse_trigamma(y: float) -> float:
    """x with trigamma(x) = y, by Newton's method on 1 / trigamma, which is nearly linear (Smyth 2004, appendix)."""
    if y > 1e7:
        return float(y**-0.5)
    if y < 1e-6:
        return 1 / y
    x = 0.5 + 1 / y
    for _ in range(50):
        value = float(polygamma(1, x))
        step = value * (1 - value / y) / float(polygamma(2, x))
        x += step
        if -step / x < 1e-8:
            break
    return x
