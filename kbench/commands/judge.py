"""`kbench judge`: one verdict on the providers of a file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from kbench.commands.options import Profile, Sets
from kbench.errors import ExitStatus, UsageError
from kbench.execute.spawning import start_ahead
from kbench.text import terminal
from kbench.text.words import plural, split_words


def judge(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.py",
            help="A Python file that registers the providers to judge, or a solution of the problem: a file with ModelNew, or "
            "a JSON file of FlashInfer-Trace.",
        ),
    ],
    against: Annotated[
        str,
        typer.Option(
            metavar="CONFIG",
            help="A config with the operator, the cases and the baselines: a built-in one such as rmsnorm, or a YAML file. Or "
            "a problem of KernelBench or FlashInfer-Trace.",
        ),
    ],
    provider: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Judge only these providers of the file, for example a,b."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Compare with these providers of the config. Default: all of them."),
    ] = None,
    sets: Sets = None,
    profile: Profile = None,
    shapes: Annotated[int, typer.Option(metavar="N", min=0, max=10_000, help="Number of random shapes to check.")] = 20,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Repeat the random shapes and inputs of the judgement that names this seed.",
        ),
    ] = None,
    min_speedup: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            min=0.0,
            help="Exit with 1 unless every provider is at least X times as fast as each baseline (geometric mean).",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Keep the results of the timing in this folder.")
    ] = None,
    champion: Annotated[
        Path | None,
        typer.Option(
            metavar="BEST.py",
            help="Ask whether the provider is better than that of this file: faster, and confirmed by fresh processes.",
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --champion: the folder with the results of all candidates. Their number sets how sure kbench must be.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the verdict as JSON (see kbench schema judge).")
    ] = False,
) -> ExitStatus:
    """Say whether the providers of a file are right, trusted and fast.

    kbench checks each provider on edge inputs and on random shapes, which are new each time. It then times those that are
    right, together with the baselines. A provider is trusted if kbench finds no sign of tampering, if it is not the
    baseline under another name, and if constant outputs would not pass the checks.

    With --champion, kbench instead times the provider and the champion in fresh processes until one has won. Over all
    candidates of a ledger, the probability that one is called better without being faster is at most 5 %.

    Exit code: 0 all providers are right, trusted and fast enough; 1 a provider is wrong, not trusted, too slow or not better
    than the champion; 2 bad input; 3 nothing could be measured, or a speed-up that --min-speedup asks for is not known; 130
    interrupted. Without --min-speedup, a provider that is right and trusted passes, even if it could not be timed.
    """
    if min_speedup is not None and not math.isfinite(min_speedup):
        raise UsageError(f"--min-speedup {min_speedup}: not a number to compare with; write one such as 1.05")
    for path in filter(None, [file, champion]):
        if not path.is_file():
            problem = "not a regular file" if path.exists() else "no such file"
            raise UsageError(f"{path}: {problem}; name a Python file that registers a provider")
        if path.suffix not in (".py", ".json"):
            raise UsageError(f"{path}: neither a Python file nor a solution of FlashInfer-Trace; name one (.py, .json)")
    if (champion is None) is not (ledger is None):
        raise UsageError("--champion and --ledger belong together: the ledger counts the candidates that were tried")
    if champion and out:
        raise UsageError("--out and --champion cannot be combined: the results are kept in the folder of --ledger")
    if champion and champion.resolve() == file.resolve():
        raise UsageError(f"--champion {champion}: this is the file that is judged")
    start_ahead(2)  # before the imports, which take half a second
    from kbench.judging.answer_text import verdict_lines
    from kbench.judging.judge import JudgeOptions
    from kbench.judging.judge import judge as judge_file

    options = JudgeOptions(
        against=against,
        providers=split_words(provider),
        baselines=split_words(baseline),
        sets=sets or (),
        profile=profile,
        shapes=shapes,
        seed=seed,
        min_speedup=min_speedup,
        out=out,
        champion=champion,
        ledger=ledger,
    )
    try:
        judged = judge_file(file, options)
    except KeyboardInterrupt:
        folder = ledger or out
        kept = f"; what was measured is in {folder}" if folder and folder.exists() else ""
        terminal.note(f"interrupted before there was a verdict{kept}")
        return ExitStatus.INTERRUPTED
    if as_json:
        print(judged.model_dump_json(by_alias=True, indent=1))
    else:
        for judged_provider in judged.providers:
            for line in verdict_lines(judged, judged_provider, min_speedup, has_champion=champion is not None):
                print(line)
            print()
    if judged.interrupted and judged.cases:
        place_of_rows = f"the rows are in {out}" if out else "without --out, kbench judge keeps no rows"
        cases = plural(judged.cases, "case")
        terminal.note(f"interrupted; the speed is from the {cases} timed so far; {place_of_rows}")
    return judged.exit_status
