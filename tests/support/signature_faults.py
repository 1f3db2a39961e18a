"""What is wrong with what a public callable does with values that its arguments do not take.

Each call of `good_calls` is made again and again, with one argument replaced by one of `bad_values`. All
faults of callables whose name contains a text, one line each:

    python tests/support/signature_faults.py multibody.mass_matrix
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":
    os.environ |= {"MPLBACKEND": "Agg", "JAX_PLATFORMS": "cpu", "CONNECTIONS_QUIET": "1"}
    from connections._jax import unoptimized

    os.environ.setdefault("XLA_FLAGS", unoptimized())

import public_calls
from bad_values import RESULTS, WrongResult, bad_values, verdict
from fuzz_exceptions import ACCEPTED, NOT_RUN, named_by, reason_for_no_call
from good_calls import GoodCall, Recorder, folder_of, programs, public_callables, recorded, run, statements


def is_exempt(name: str) -> bool:
    """Whether a callable takes nothing, cannot be called, or has a reason not to be."""
    thing = public_callables()[name]
    abstract = inspect.isclass(thing) and inspect.isabstract(thing)
    takes = set(inspect.signature(thing).parameters) - {"self", "cls"}
    return abstract or not takes or reason_for_no_call(name) is not None


def uncalled() -> list[str]:
    """Methods that no program's text calls, without a reason."""
    texts = "".join(source for program in programs() for source, _ in statements(program))
    texts += Path(public_calls.__file__).read_text()
    methods = {name for name in public_callables() if name not in programs() and not is_exempt(name)}
    methods = {name for name in methods if not name.endswith("__call__")}  # whose name no call contains
    return sorted(name for name in methods if not re.search(rf"\.{name.rpartition('.')[2]}\b", texts))


def calls_of(program: str, done: set[str]) -> Iterator[GoodCall]:
    """The calls of a program that are tried there: of its own name, and of methods that were not yet.

    Parameters
    ----------
    done : the names of those that were tried, to which these are added.
    """
    with contextlib.redirect_stdout(io.StringIO()):
        found = recorded(program)
    for name, call in found.items():
        own = name == program or name not in programs() or name in NOT_RUN
        if own and name not in done and not is_exempt(name):
            done.add(name)
            yield call


def faults(call: GoodCall) -> Iterator[str]:
    """What is wrong with a call, one line for each bad value; what it writes is removed."""
    with contextlib.chdir(folder_of(call.program).name):
        yield from _faults(call)


def _faults(call: GoodCall) -> Iterator[str]:
    for parameter in call.parameters():
        name, right = parameter.name, call.arguments.get(parameter.name, parameter.empty)
        for kind, bad in bad_values(parameter, right):
            if not is_excepted(call.name, name, kind):
                found = verdict(named_by(call.name, name), lambda given=name, bad=bad: call(**{given: bad}))
                if found:
                    yield f"{call.name}({name}={kind}): {found}"
        if inspect.isfunction(right):
            yield from faults_of_results(call, name, right)


def faults_of_results(call: GoodCall, name: str, right: object) -> Iterator[str]:
    """The whole program again, with a function that returns something else, if the function is called."""
    for kind, change in RESULTS.items():
        wrong = WrongResult(right, change)
        recorder = Recorder(call.program, (call.number, {name: wrong.function}))
        subject = "" if kind == "NaN" else named_by(call.name, name)  # where it is noticed depends on its use
        found = verdict(subject, lambda recorder=recorder: run(call.program, recorder))
        if found and wrong.calls and not is_excepted(call.name, name, f"returns {kind}"):
            yield f"{call.name}({name} that returns {kind}): {found}"


def is_excepted(name: str, argument: str, kind: str) -> bool:
    """Whether a reason is written why it is not asked."""
    short = name.removeprefix("connections.")
    return any(key in ACCEPTED for key in [(short, argument, kind), (short, argument), (argument, kind)])


def main(text: str) -> None:
    warnings.simplefilter("ignore")
    done: set[str] = set()
    for program in programs():
        if program in NOT_RUN or not re.search(text, program):
            continue
        start, count = time.time(), 0
        for call in calls_of(program, done):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                found = list(faults(call))
            count += len(found)
            for line in found:
                print(line[:300].replace("\n", " "), flush=True)
        print(f"# {program}: {count} faults, {time.time() - start:.1f} s", file=sys.stderr, flush=True)
    print(f"# {len(done)} callables", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
