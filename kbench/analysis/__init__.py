"""Who wins within one file, by how much, and whether that is more than noise. Between two files see comparison/judge: there
sessions are the trials, and the machine may have changed.

    analysis = analyse(rows, baseline)   # rows of one file, controls included; baseline: the config's, None to find it
    analysis.noise.floor                 # a share: 95 % of the pairs of the same code differ by less; None: not known
    analysis.noise.too_noisy             # then kbench ranks no provider, and analysis.noise.sentence() says why
    analysis.winners                     # a Winner per case: configuration_name, tied, unclear, margin
    analysis.standings                   # a Standing per configuration: geomean, faster/tied/slower/unclear, sole, shared
    analysis.compare_pair(key, old, new) # two configurations of a case: a TimeDifference with outcome, ratio, half_width

The rule for two configurations of a case is in `pairwise.py`, the limits of a difference in `noise.py`, the winner of a case
and the standings in `ranking.py`. Nothing here imports pandas, numpy or scipy: the end of a run must not wait for them.
"""

from kbench.analysis.cases import CaseKey
from kbench.analysis.pairwise import Outcome
from kbench.analysis.ranking import Analysis, Standing, Winner, analyse

__all__ = ["Analysis", "CaseKey", "Outcome", "Standing", "Winner", "analyse"]
