"""The functions that no provider may replace: what kbench measures and judges with, and what other providers call."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Watched:
    """A module whose functions must stay as they are.

    names    only these functions; empty for all
    without  functions that torch itself replaces: when the default dtype changes, and when it compiles for the first time
    classes  classes of the module whose methods must stay, too
    code     whether the code inside its Python functions is compared, and not only the functions
    tree     the modules below it are watched as well, with all their classes and constants. No name may be added to them,
             because `max` in a module takes the place of the built-in `max`
    """

    module: str
    names: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    code: bool = False
    tree: bool = False


WATCHED = (
    Watched("builtins"),
    Watched("time"),
    Watched("statistics", code=True),
    Watched("math"),
    Watched("random", classes=("Random",)),
    Watched("json", code=True),
    Watched("gc"),
    Watched("sys", ("settrace", "setprofile", "_getframe", "_current_frames", "addaudithook")),
    Watched("os", ("write", "fork", "getpid", "environ")),
    Watched("torch", without=("Storage", "manual_seed"), classes=("Tensor",)),
    Watched("torch.nn.functional"),
    Watched("torch.autograd"),
    Watched("torch.accelerator", code=True),
    Watched("torch.cuda", classes=("Event", "Stream", "CUDAGraph", "graph"), code=True),
    Watched("torch.profiler", classes=("profile",), code=True),
    Watched("triton"),
    Watched("triton.testing", code=True),
    Watched("triton.runtime.driver", classes=("DriverConfig",), code=True),
    Watched("kbench", code=True, tree=True),
)
"""All watched modules. A module that is not installed is left out."""
