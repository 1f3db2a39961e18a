"""What the fuzz of all arguments does not ask, with the reason of each."""

from __future__ import annotations

#: Programs that are not run, and callables that no program calls: by full name, or by a method's own name.
NOT_RUN: dict[str, str] = {
    "connections.multibody.warm_up": "compiles all recursions, for minutes",
    "connections.sweeps.local_cluster": "starts processes, which import a program's main module",
}
NOT_CALLED: dict[str, str] = {
    "explain": "for the library: says why a point was refused that was judged before",
    "explain_regular": "for the library: says why a point was refused that was judged before",
}

#: What is accepted, or refused in other words: (callable, argument, kind), (callable, argument), (callable,),
#: or (argument, kind) of all callables.
ACCEPTED: dict[tuple[str, ...], str] = {
    ("parameters", "complex"): "of a user's function, which may return real numbers",
    ("parameters", "complex numbers"): "of a user's function, which may return real numbers",
}

#: (callable, argument): the word by which its errors name an argument.
NAMES: dict[tuple[str, str], str] = {}


def named_by(callable_: str, argument: str) -> str:
    return NAMES.get((callable_.removeprefix("connections."), argument), argument)
