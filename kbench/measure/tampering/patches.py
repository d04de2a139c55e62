"""Functions that were replaced: remembers the watched ones, finds those that are no longer the same, and puts them back."""

from __future__ import annotations

import builtins
import operator as operators
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from gc import get_referents
from importlib import import_module
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any

from kbench.contract.operator import Operator
from kbench.contract.provider import Provider
from kbench.measure.tampering.same_objects import same_objects
from kbench.measure.tampering.watched import WATCHED, Watched

CONSTANTS = (int, float, str, tuple, frozenset)


class Namespace:
    """The watched names of a module, a class or an object, and what they stood for.

    label  the name of the owner in reasons; empty for built-ins
    open   whether other code may add names
    """

    def __init__(self, owner: Any, label: str, values: dict[str, Any], *, open_: bool) -> None:
        self.owner, self.label, self.open = owner, label, open_
        self._values = values
        self._known = frozenset(vars(owner))
        self._count = len(self._known)

    @property
    def names(self) -> dict[str, Any]:
        """The dictionary itself. A class shows only a view of its own."""
        shown = vars(self.owner)
        found: dict[str, Any] = shown if isinstance(shown, dict) else get_referents(shown)[0]
        return found

    def changed(self) -> list[str]:
        """The names that stand for something else, after they stand for the same as before again."""
        now = vars(self.owner)
        found = []
        if any(map(operators.is_not, map(now.get, self._values), self._values.values())):
            found = [name for name, value in self._values.items() if vars(self.owner).get(name) is not value]
            for name in found:
                _set(self.owner, name, self._values[name])
        if len(now) != self._count:
            for name in self._added():
                delattr(self.owner, name)
                found.append(name)
            self._count = len(vars(self.owner))
        return [f"{self.label}.{name}" if self.label else name for name in dict.fromkeys(found)]

    def _added(self) -> list[str]:
        """New names that take the place of others: a method of a base class, or a built-in function."""
        new = vars(self.owner).keys() - self._known
        if isinstance(self.owner, type):
            return [name for name in new if any(name in vars(base) for base in self.owner.__mro__[1:])]
        return [name for name in new if hasattr(builtins, name) and not name.startswith("__")] if not self.open else []


class Bodies:
    """Python functions, and what is inside them: the code and the defaults can be replaced while the function stays."""

    def __init__(self) -> None:
        self._bodies: dict[FunctionType, tuple[str, tuple[Any, ...]]] = {}
        self._refers: list[Any] = []

    def watch(self, label: str, function: FunctionType) -> None:
        if function not in self._bodies:
            self._bodies[function] = label, _body(function)
            self._refers = []

    def changed(self) -> list[str]:
        """The functions with something else inside, after they are as before again.

        Reading the attributes of a thousand functions takes a millisecond, because each causes an audit event. One call
        lists all objects that the functions refer to. If these are the same as before, nothing has changed.
        """
        refers = get_referents(*self._bodies)
        if same_objects(refers, self._refers):
            return []
        found = []
        for function, (label, body) in self._bodies.items():
            if any(map(operators.is_not, _body(function), body)):
                function.__code__, function.__defaults__, function.__kwdefaults__ = body
                found.append(label)
        self._refers = get_referents(*self._bodies)
        return found


def _body(function: FunctionType) -> tuple[Any, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__


class Patches:
    """Everything that `WATCHED` names, as it is now, with the fields and the providers of some operators."""

    def __init__(self) -> None:
        self._namespaces: dict[int, Namespace] = {}
        self._all: list[dict[str, Any]] = []
        self._seen: tuple[list[str], list[Any]] = [], []
        self._bodies = Bodies()
        self._providers: dict[str, tuple[dict[str, Provider], dict[str, Provider]]] = {}
        for watched in WATCHED:
            for name in _tree(watched) if watched.tree else [watched.module]:
                with suppress(ImportError):
                    self._watch_module(import_module(name), watched)

    def watch_operator(self, operator: Operator) -> None:
        """Watch an operator: its reference, its tolerance, and its present providers. New providers may be added."""
        label = f"operator {operator.name}"
        self._watch(operator, label, _named(vars(operator), None), code=True)
        for name, provider in operator.providers.items():
            self._watch(provider, f"{label}, provider {name}", _named(vars(provider), None), code=True)

        self._providers[label] = operator.providers, dict(operator.providers)

    def undone(self) -> list[str]:
        """The names of what was replaced since it was watched. Everything is as it was when this returns."""
        found = [] if self._same_names() else self._changed_names()
        found += self._bodies.changed()
        for label, (now, before) in self._providers.items():
            if replaced := [name for name, provider in before.items() if now.get(name) is not provider]:
                now.update(before)
                found += [f"{label}, provider {name}" for name in replaced]
        return found

    def _same_names(self) -> bool:
        """Whether all names of all namespaces, also those that are not watched, stand for the same objects as at the last look.
        It is usual, and to see it takes a fifth of the time of a look at each namespace."""
        names, values = self._seen
        try:
            now = get_referents(*self._all)  # also the keys of a dictionary, unless all of them are plain strings
            if not same_objects(now, values):
                return False
            return bool(names) and list(chain.from_iterable(self._all)) == names
        except RuntimeError:  # another thread adds a name
            return False

    def _changed_names(self) -> list[str]:
        found = [name for namespace in self._namespaces.values() for name in namespace.changed()]
        self._all = [namespace.names for namespace in self._namespaces.values()]
        with suppress(RuntimeError):
            self._seen = list(chain.from_iterable(self._all)), get_referents(*self._all)
        return found

    def _watch_module(self, module: ModuleType, watched: Watched) -> None:
        label = "" if module is builtins else module.__name__
        kinds = (ModuleType, *CONSTANTS) if watched.tree else (ModuleType,)
        values = _named(vars(module), kinds)
        chosen = set(watched.names or values) - set(watched.without)
        values = {name: value for name, value in values.items() if name in chosen}
        self._watch(module, label, values, code=watched.code, open_=not watched.tree)
        for name, value in list(vars(module).items()):
            own = watched.tree and isinstance(value, type) and value.__module__ == module.__name__
            if own or name in watched.classes:
                members = _named(vars(value), (property, staticmethod, classmethod, *CONSTANTS))
                self._watch(value, f"{module.__name__}.{name}", members, code=watched.code)

    def _watch(self, owner: Any, label: str, values: dict[str, Any], *, code: bool, open_: bool = True) -> None:
        if id(owner) in self._namespaces:
            return
        self._namespaces[id(owner)] = Namespace(owner, label, values, open_=open_)
        self._seen = [], []  # one more to look at
        for name, value in values.items():
            if code and isinstance(value, FunctionType):
                self._bodies.watch(f"{label}.{name}", value)


def _named(names: Mapping[str, Any], kinds: Sequence[type] | None) -> dict[str, Any]:
    """The functions and classes among some names, and the values of other kinds that may not change; None: all values."""
    return {
        name: value
        for name, value in names.items()
        if kinds is None or callable(value) or isinstance(value, tuple(kinds))
    }


def _tree(watched: Watched) -> Iterable[str]:
    """The modules below a module that are imported, and all of kbench.measure: they are imported when first needed."""
    package = import_module(f"{watched.module}.measure")
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    loaded = [name for name in sys.modules if name.split(".")[0] == watched.module]
    return [*loaded, *(info.name for info in found if not info.name.endswith("__main__"))]


def _set(owner: Any, name: str, value: Any) -> None:
    setter: Callable[[Any, str, Any], None] = type.__setattr__ if isinstance(owner, type) else object.__setattr__
    setter(owner, name, value)
