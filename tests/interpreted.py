"""Definitions evaluated by NumPy, equation by equation, instead of being compiled first.

Most definitions are evaluated a few times in a test, and to compile one takes a hundred times as long. What
JAX has traced is the same; only who adds and multiplies is different. Operations that are not in the table
below are JAX's own. Functions that run often, or whose loops are long, are compiled after all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax._src import pjit
from jax._src.array import ArrayImpl
from jax._src.core import trace_state_clean
from jax.extend import core
from scipy.linalg import lapack

COMPILED_CALL = pjit._pjit_call_impl_python  # JAX's own
WORTH = 40  # how often the equations of a function may be evaluated before it is compiled
FOREIGN = 20  # what an operation of JAX's own counts


class TooLong(Exception):
    """A call has more equations than is worth it."""


def interpreted(function: Callable[..., Any], compiled: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of arrays; outside of JAX's transformations by NumPy, as long as that is quicker."""
    plans: dict[Any, Any] = {}

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        leaves, tree = jax.tree_util.tree_flatten(arguments)
        if not trace_state_clean() or any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return compiled(*arguments)
        key = (
            tree,
            tuple(
                (np.shape(leaf), np.result_type(leaf), getattr(leaf, "weak_type", False)) for leaf in leaves
            ),
        )
        if key not in plans:
            traced = jax.jit(function).trace(*arguments)
            out_tree = jax.tree_util.tree_structure(traced.out_info)
            try:
                plan = Plan.of(traced.jaxpr)
                plans[key] = plan, out_tree, [WORTH * max(plan.size, 1)]
            except TooLong:
                plans[key] = None, out_tree, [0]
        plan, out_tree, left = plans[key]
        if left[0] > 0:
            try:
                with np.errstate(all="ignore"):
                    values = plan.run([np.asarray(leaf) for leaf in leaves], left)
                return jax.tree_util.tree_unflatten(out_tree, [jax.numpy.asarray(value) for value in values])
            except TooLong:
                pass
        return compiled(*arguments)

    return call


def operations_by_numpy() -> None:
    """From now on, operations of JAX outside of `jit` are NumPy's: most run a few times in a test.

    So are functions of JAX's that consist of a few, such as `jnp.einsum`. What has operations that are not in
    the table, and what is used often, is compiled.
    """
    compiled = pjit._pjit_call_impl_python
    plans: dict[int, tuple[Any, Plan | None, list[int]]] = {}

    def call(*arguments: Any, jaxpr: Any, **how: Any) -> Any:
        known = plans.get(id(jaxpr))
        if known is None or known[0] is not jaxpr:
            known = plans[id(jaxpr)] = jaxpr, *_eager(jaxpr)
        _, plan, left = known
        if plan is not None and left[0] > 0:
            try:
                with np.errstate(all="ignore"):
                    values = plan.run([np.asarray(argument) for argument in arguments], left)
                pairs = zip(values, jaxpr.out_avals, strict=True)
                return [_array(value, aval.weak_type) for value, aval in pairs], None, None, []
            except TooLong:
                pass
        return compiled(*arguments, jaxpr=jaxpr, **how)

    pjit._pjit_call_impl_python = call


def _eager(jaxpr: Any) -> tuple[Plan | None, list[int]]:
    """How to compute a short function by NumPy, if it has only operations of the table, and how often."""
    if any(equation.primitive.name == "platform_index" for equation in jaxpr.eqns):
        return None, [0]  # JAX's own operation computes it
    try:
        plan = Plan.of(jaxpr)
    except TooLong:
        return None, [0]
    good = plan.size < FOREIGN and all(
        aval.dtype.kind in "fib" for aval in (*jaxpr.in_avals, *jaxpr.out_avals)
    )
    return plan if good else None, [WORTH * max(plan.size, 1)]


def _array(value: Any, weak_type: bool) -> Any:
    """An array of JAX."""
    made = jax.device_put(value)
    if not weak_type:
        return made
    return ArrayImpl(made.aval.update(weak_type=True), made.sharding, [made], committed=False)


class Plan:
    """A traced function as a list of NumPy calls on numbered values."""

    _known: dict[int, tuple[Any, Plan]] = {}

    @classmethod
    def of(cls, closed: Any) -> Plan:
        """That of a jaxpr with its constants, made once."""
        known = cls._known.get(id(closed))
        if known is None or known[0] is not closed:
            known = cls._known[id(closed)] = closed, cls(closed.jaxpr, closed.consts)
        return known[1]

    @classmethod
    def forget(cls) -> None:
        """Let go of what was traced."""
        cls._known.clear()

    def __init__(self, jaxpr: Any, constants: Any) -> None:
        self._values: list[Any] = []
        self._steps: list[tuple[Any, list[int], list[int], bool, bool]] = []
        self.size = self._cost = 0  # equations here and in what is called; of one run without that
        places: dict[Any, int] = {}

        def place(variable: Any) -> int:
            if isinstance(variable, core.Literal):
                self._values.append(np.asarray(variable.val, variable.aval.dtype))
                return len(self._values) - 1
            if variable not in places:
                places[variable] = len(self._values)
                self._values.append(None)
            return places[variable]

        for variable, value in zip(jaxpr.constvars, constants, strict=True):
            self._values[place(variable)] = np.asarray(value)
        self._inputs = [place(variable) for variable in jaxpr.invars]
        for equation in jaxpr.eqns:
            operation, called, cost = operation_of(equation)
            self.size += cost
            self._cost += 1 if called else cost
            given, made = (
                [place(variable) for variable in side] for side in (equation.invars, equation.outvars)
            )
            self._steps.append((operation, given, made, equation.primitive.multiple_results, called))
        self._outputs = [place(variable) for variable in jaxpr.outvars]
        self._dtypes = [variable.aval.dtype for variable in jaxpr.outvars]

    def run(self, arguments: Any, budget: list[int]) -> list[Any]:
        """The values of the outputs."""
        budget[0] -= self._cost
        if budget[0] < 0:
            raise TooLong
        values = self._values.copy()
        for number, value in zip(self._inputs, arguments, strict=True):
            values[number] = value
        for operation, given, made, several, called in self._steps:
            taken = [values[i] for i in given]
            result = operation(budget, *taken) if called else operation(*taken)
            if several:
                for number, value in zip(made, result, strict=True):
                    values[number] = value
            else:
                values[made[0]] = result
        return [np.asarray(values[i], dtype) for i, dtype in zip(self._outputs, self._dtypes, strict=True)]


BODIES = {  # operations that are functions, and under which name
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
}


# Integrators, which take as long as to compile them, and what calls back: compiled at once.
COMPILED = {
    "unvmap_any",
    "unvmap_all",
    "unvmap_max",
    "select_if_vmap",
    "ffi_call",
    "pure_callback",
    "io_callback",
}


def operation_of(equation: Any) -> tuple[Callable[..., Any], bool, int]:
    """What computes an equation, whether it calls other plans and has to know what is left, and its size."""
    name = equation.primitive.name
    if name in COMPILED:
        raise TooLong
    if name in BODIES:
        body = equation.params[BODIES[name]]
        plan = Plan.of(body if hasattr(body, "consts") else core.ClosedJaxpr(body, ()))
        return (lambda budget, *given: plan.run(given, budget)), True, plan.size
    if name in CALLING:
        operation, plans = CALLING[name](equation)
        return operation, True, sum(plan.size for plan in plans)
    make = OPERATIONS.get(name)
    operation = make(equation) if make else None
    return (operation, False, 1) if operation else (foreign(equation), False, FOREIGN)


def foreign(equation: Any) -> Callable[..., Any]:
    """JAX's own operation."""
    parameters = equation.primitive.get_bind_params(equation.params)
    dtypes = [variable.aval.dtype for variable in equation.invars]

    def run(*given: Any) -> Any:
        given = [jax.numpy.asarray(x, dtype) for x, dtype in zip(given, dtypes, strict=True)]
        out = equation.primitive.bind(*given, **parameters)
        if equation.primitive.multiple_results:
            return [np.asarray(x) for x in out]
        return np.asarray(out)

    return run


# --- the table ----------------------------------------------------------------------------------------------


def plain(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda equation: function


def rounded(division: Any) -> Any:
    """Division as XLA does it: of integers towards zero."""
    if np.issubdtype(division.outvars[0].aval.dtype, np.integer):
        return lambda x, y: np.trunc(np.divide(x, y)).astype(division.outvars[0].aval.dtype)
    return np.divide


def integer_power(equation: Any) -> Any:
    exponent = equation.params["y"]
    if exponent == 2:
        return np.square
    if exponent < 0:
        return lambda x: 1.0 / _power(x, -exponent)
    return lambda x: _power(x, exponent)


def _power(x: Any, exponent: int) -> Any:
    result = None
    while exponent:
        if exponent & 1:
            result = x if result is None else result * x
        exponent >>= 1
        if exponent:
            x = x * x
    return np.ones_like(x) if result is None else result


def select(equation: Any) -> Any:
    if len(equation.invars) == 3 and equation.invars[0].aval.dtype == bool:
        return lambda which, no, yes: np.where(which, yes, no)
    return lambda which, *cases: np.choose(which, cases)


def broadcast(equation: Any) -> Any:
    shape, dimensions = equation.params["shape"], equation.params["broadcast_dimensions"]
    aval = equation.invars[0].aval
    middle = [1] * len(shape)
    for axis, size in zip(dimensions, aval.shape, strict=True):
        middle[axis] = size
    if tuple(middle) == tuple(shape):
        return lambda x: np.reshape(x, shape)

    def run(x: Any) -> Any:  # three times as quick as `np.broadcast_to`
        out = np.empty(shape, aval.dtype)
        out[...] = np.reshape(x, middle)
        return out

    return run


def sliced(equation: Any) -> Any:
    p = equation.params
    steps = p["strides"] or (1,) * len(p["start_indices"])
    where = tuple(slice(*each) for each in zip(p["start_indices"], p["limit_indices"], steps, strict=True))
    return lambda x: np.asarray(x)[where]


def dynamic_slice(equation: Any) -> Any:
    sizes, shape = equation.params["slice_sizes"], equation.invars[0].aval.shape

    def run(x: Any, *starts: Any) -> Any:
        firsts = [min(max(int(i), 0), n - size) for i, n, size in zip(starts, shape, sizes, strict=True)]
        return np.asarray(x)[tuple(slice(i, i + size) for i, size in zip(firsts, sizes, strict=True))]

    return run


def dynamic_update_slice(equation: Any) -> Any:
    shape, sizes = equation.invars[0].aval.shape, equation.invars[1].aval.shape

    def run(x: Any, update: Any, *starts: Any) -> Any:
        firsts = [min(max(int(i), 0), n - size) for i, n, size in zip(starts, shape, sizes, strict=True)]
        out = np.array(x)
        out[tuple(slice(i, i + size) for i, size in zip(firsts, sizes, strict=True))] = update
        return out

    return run


def padded(equation: Any) -> Any:
    config, shape = equation.params["padding_config"], equation.outvars[0].aval.shape
    if any(low < 0 or high < 0 for low, high, _ in config):
        return None
    where = tuple(
        slice(low, low + (size - 1) * (inside + 1) + 1 if size else low, inside + 1)
        for (low, _, inside), size in zip(config, equation.invars[0].aval.shape, strict=True)
    )

    def run(x: Any, value: Any) -> Any:
        out = np.full(shape, value, equation.outvars[0].aval.dtype)
        out[where] = x
        return out

    return run


def reduction(function: Callable[..., Any]) -> Callable[[Any], Any]:
    def make(equation: Any) -> Any:
        if 0 in equation.invars[0].aval.shape:
            return None
        return functools.partial(function, axis=tuple(equation.params["axes"]))

    return make


def summed(equation: Any) -> Any:
    axes, dtype = tuple(equation.params["axes"]), equation.outvars[0].aval.dtype
    return lambda x: np.add.reduce(x, axis=axes, dtype=dtype) if axes else x


def index_of(function: Callable[..., Any]) -> Callable[[Any], Any]:
    def make(equation: Any) -> Any:
        (axis,), dtype = equation.params["axes"], equation.params["index_dtype"]
        return lambda x: function(x, axis=axis).astype(dtype)

    return make


def cumulative(function: Callable[..., Any]) -> Callable[[Any], Any]:
    def make(equation: Any) -> Any:
        axis, reverse = equation.params["axis"], equation.params["reverse"]
        if reverse:
            return lambda x: np.flip(function(np.flip(x, axis), axis), axis)
        return lambda x: function(x, axis)

    return make


def product(equation: Any) -> Any:
    (left, right), (left_batch, right_batch) = equation.params["dimension_numbers"]
    a, b = (variable.aval for variable in equation.invars)
    left_free = [i for i in range(a.ndim) if i not in (*left, *left_batch)]
    right_free = [i for i in range(b.ndim) if i not in (*right, *right_batch)]
    shape = equation.outvars[0].aval.shape
    batch = [a.shape[i] for i in left_batch]
    inner = int(np.prod([a.shape[i] for i in left]))
    rows, columns = (
        int(np.prod([x.shape[i] for i in free])) for x, free in ((a, left_free), (b, right_free))
    )
    order_a, order_b = (*left_batch, *left_free, *left), (*right_batch, *right, *right_free)
    dtype = equation.outvars[0].aval.dtype

    def run(x: Any, y: Any) -> Any:
        x = np.transpose(x, order_a).reshape(*batch, rows, inner)
        y = np.transpose(y, order_b).reshape(*batch, inner, columns)
        return np.matmul(x, y, dtype=dtype).reshape(shape)

    return run


def _window(dims: Any, operand: Any, indices: Any, sizes: Any, offsets: Any) -> tuple[Any, Any]:
    """Index arrays (*batch, *window) into the operand, and whether all of a window is inside."""
    start_map, batching, indices_batching = dims
    batch, window = indices.shape[:-1], [size for axis, size in enumerate(sizes) if axis in offsets]
    inside = np.ones(batch, dtype=bool)
    starts: list[Any] = [None] * operand.ndim
    for number, axis in enumerate(start_map):
        start = indices[..., number].astype(np.int64)
        inside &= (start >= 0) & (start <= operand.shape[axis] - sizes[axis])
        starts[axis] = np.clip(start, 0, operand.shape[axis] - sizes[axis])
    for axis, other in zip(batching, indices_batching, strict=True):
        shape = [1] * len(batch)
        shape[other] = batch[other]
        starts[axis] = np.arange(batch[other]).reshape(shape)
    where = []
    for axis in range(operand.ndim):
        index = np.zeros((1,) * (len(batch) + len(window)), dtype=np.int64)
        if starts[axis] is not None:
            index = index + starts[axis].reshape(starts[axis].shape + (1,) * len(window))
        if axis in offsets:
            shape = [1] * (len(batch) + len(window))
            shape[len(batch) + offsets.index(axis)] = sizes[axis]
            index = index + np.arange(sizes[axis]).reshape(shape)
        where.append(index)
    return tuple(where), inside


def remembered(window: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`window` of one operand's shape; indices are mostly the same as in the call before."""
    last: list[Any] = [None, None]

    def run(operand: Any, indices: Any) -> Any:
        key = indices.tobytes()
        if key != last[0]:
            last[:] = key, window(operand, indices)
        return last[1]

    return run


def gathered(equation: Any) -> Any:
    p, dims = equation.params, equation.params["dimension_numbers"]
    if "FILL" not in str(p["mode"]) and "CLIP" not in str(p["mode"]) and "PROMISE" not in str(p["mode"]):
        return None
    sizes, fill = p["slice_sizes"], "FILL" in str(p["mode"])
    dropped = {*dims.collapsed_slice_dims, *dims.operand_batching_dims}
    offsets = [axis for axis in range(len(sizes)) if axis not in dropped]
    names = dims.start_index_map, dims.operand_batching_dims, dims.start_indices_batching_dims
    out = equation.outvars[0].aval
    batch_axes = [axis for axis in range(out.ndim) if axis not in dims.offset_dims]
    order = np.argsort([*batch_axes, *dims.offset_dims])
    missing = np.nan if np.issubdtype(out.dtype, np.floating) else None
    if fill and p["fill_value"] is not None:
        missing = p["fill_value"]

    window = remembered(functools.partial(_window, names, sizes=sizes, offsets=offsets))

    def run(x: Any, indices: Any) -> Any:
        x, indices = np.asarray(x), np.asarray(indices)
        where, inside = window(x, indices)
        result = x[where]
        result = np.broadcast_to(result, indices.shape[:-1] + tuple(sizes[axis] for axis in offsets))
        if fill and not inside.all():
            value = missing
            if value is None:
                value = (
                    False
                    if x.dtype == bool
                    else (np.iinfo(x.dtype).min if x.dtype.kind == "i" else np.iinfo(x.dtype).max)
                )
            result = np.where(
                inside.reshape(inside.shape + (1,) * len(offsets)), result, np.asarray(value, x.dtype)
            )
        return np.transpose(result, order)

    return run


def scattered(combine: Any) -> Callable[[Any], Any]:
    def make(equation: Any) -> Any:
        dims, shape = equation.params["dimension_numbers"], equation.invars[0].aval.shape
        updates = equation.invars[2].aval
        dropped = {*dims.inserted_window_dims, *dims.operand_batching_dims}
        offsets = [axis for axis in range(len(shape)) if axis not in dropped]
        sizes = [1] * len(shape)
        for axis, window in zip(offsets, dims.update_window_dims, strict=True):
            sizes[axis] = updates.shape[window]
        names = (
            dims.scatter_dims_to_operand_dims,
            dims.operand_batching_dims,
            dims.scatter_indices_batching_dims,
        )
        batch_axes = [axis for axis in range(updates.ndim) if axis not in dims.update_window_dims]
        order = [*batch_axes, *dims.update_window_dims]

        window = remembered(functools.partial(_window, names, sizes=sizes, offsets=offsets))

        def run(x: Any, indices: Any, update: Any) -> Any:
            out, indices = np.array(x), np.asarray(indices)
            where, inside = window(out, indices)
            update = np.transpose(update, order)
            where = [np.broadcast_to(index, update.shape) for index in where]
            if not inside.all():
                keep = np.broadcast_to(inside.reshape(inside.shape + (1,) * len(offsets)), update.shape)
                where, update = [index[keep] for index in where], update[keep]
            if combine is None:
                out[tuple(where)] = update
            else:
                combine.at(out, tuple(where), update)
            return out

        return run

    return make


def lower_upper(equation: Any) -> Any:
    def one(matrix: Any) -> tuple[Any, Any, Any]:
        factors, pivots, _ = lapack.dgetrf(matrix)
        order = np.arange(len(matrix))
        for i, j in enumerate(pivots):
            order[[i, j]] = order[[j, i]]
        return factors, pivots, order

    shapes, dtypes = zip(*((v.aval.shape, v.aval.dtype) for v in equation.outvars), strict=True)
    size = equation.invars[0].aval.shape[-2:]
    if size[0] != size[1] or 0 in equation.invars[0].aval.shape:
        return None

    def run(x: Any) -> Any:
        parts = zip(*(one(matrix) for matrix in np.reshape(x, (-1, *size))), strict=True)
        return [
            np.array(part, dtype).reshape(shape)
            for part, dtype, shape in zip(parts, dtypes, shapes, strict=True)
        ]

    return run


def triangular(equation: Any) -> Any:
    p, (A, B) = equation.params, (variable.aval for variable in equation.invars)
    if p["conjugate_a"] or 0 in B.shape:
        return None

    def one(a: Any, b: Any) -> Any:
        transposed = p["transpose_a"] == p["left_side"]
        x, _ = lapack.dtrtrs(
            a, b if p["left_side"] else b.T, lower=p["lower"], trans=transposed, unitdiag=p["unit_diagonal"]
        )
        return x if p["left_side"] else x.T

    def run(a: Any, b: Any) -> Any:
        pairs = zip(np.reshape(a, (-1, *A.shape[-2:])), np.reshape(b, (-1, *B.shape[-2:])), strict=True)
        return np.array([one(*pair) for pair in pairs]).reshape(B.shape)

    return run


def cholesky(equation: Any) -> Any:
    shape = equation.invars[0].aval.shape

    def one(matrix: Any) -> Any:
        factor, info = lapack.dpotrf(matrix, lower=True, clean=True)
        return np.full_like(factor, np.nan) if info else factor

    return lambda x: np.array([one(matrix) for matrix in np.reshape(x, (-1, *shape[-2:]))]).reshape(shape)


def split(equation: Any) -> Any:
    axis, places = equation.params["axis"], np.cumsum(equation.params["sizes"])[:-1]
    return lambda x: np.split(x, places, axis)


def conditional(equation: Any) -> Any:
    branches = [Plan.of(branch) for branch in equation.params["branches"]]

    def run(budget: Any, index: Any, *operands: Any) -> Any:
        return branches[min(max(int(index), 0), len(branches) - 1)].run(operands, budget)

    return run, branches


def repeated(equation: Any) -> Any:
    p = equation.params
    condition, body = Plan.of(p["cond_jaxpr"]), Plan.of(p["body_jaxpr"])
    first, second = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]

    def run(budget: Any, *operands: Any) -> Any:
        state = list(operands[second:])
        while True:
            going = condition.run([*operands[:first], *state], budget)[0]
            if not going.any():
                return state
            changed = body.run([*operands[first:second], *state], budget)
            if not going.all():  # rows of a batch that have come to their end stay as they are
                ends = [going.reshape(going.shape + (1,) * (np.ndim(x) - going.ndim)) for x in state]
                changed = [
                    np.where(end, new, old) for end, new, old in zip(ends, changed, state, strict=True)
                ]
            state = changed

    return run, (condition, body)


def scanned(equation: Any) -> Any:
    p, body = equation.params, Plan.of(equation.params["jaxpr"])
    count, kept, carried = p["length"], p["num_consts"], p["num_carry"]
    outputs = [variable.aval for variable in equation.outvars[carried:]]

    def run(budget: Any, *operands: Any) -> Any:
        state, rows = list(operands[kept : kept + carried]), operands[kept + carried :]
        made: list[Any] = [np.empty(aval.shape, aval.dtype) for aval in outputs]
        for i in range(count - 1, -1, -1) if p["reverse"] else range(count):
            result = body.run([*operands[:kept], *state, *(row[i] for row in rows)], budget)
            state = result[:carried]
            for array, value in zip(made, result[carried:], strict=True):
                array[i] = value
        return [*state, *made]

    return run, (body,)


def linear_solve(equation: Any) -> Any:
    lengths, solve = equation.params["const_lengths"], Plan.of(equation.params["jaxprs"].solve)
    first = lengths.matvec + lengths.vecmat
    count = sum(lengths)

    def run(budget: Any, *operands: Any) -> Any:
        return solve.run([*operands[first : first + lengths.solve], *operands[count:]], budget)

    return run, (solve,)


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    name: plain(function)
    for name, function in {
        "add": np.add,
        "add_any": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "neg": np.negative,
        "sin": np.sin,
        "cos": np.cos,
        "tan": np.tan,
        "asin": np.arcsin,
        "acos": np.arccos,
        "atan": np.arctan,
        "atan2": np.arctan2,
        "sinh": np.sinh,
        "cosh": np.cosh,
        "tanh": np.tanh,
        "exp": np.exp,
        "exp2": np.exp2,
        "log": np.log,
        "log1p": np.log1p,
        "expm1": np.expm1,
        "sqrt": np.sqrt,
        "rsqrt": lambda x: 1.0 / np.sqrt(x),
        "square": np.square,
        "pow": np.power,
        "abs": np.abs,
        "sign": np.sign,
        "floor": np.floor,
        "ceil": np.ceil,
        "is_finite": np.isfinite,
        "max": np.maximum,
        "min": np.minimum,
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "copy": lambda x: x,
        "copy_p": lambda x: x,
        "stop_gradient": lambda x: x,
        "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    }.items()
}
OPERATIONS |= {
    "and": lambda e: np.logical_and if e.invars[0].aval.dtype == bool else np.bitwise_and,
    "or": lambda e: np.logical_or if e.invars[0].aval.dtype == bool else np.bitwise_or,
    "xor": lambda e: np.logical_xor if e.invars[0].aval.dtype == bool else np.bitwise_xor,
    "not": lambda e: np.logical_not if e.invars[0].aval.dtype == bool else np.invert,
    "div": rounded,
    "integer_pow": integer_power,
    "select_n": select,
    "broadcast_in_dim": broadcast,
    "reshape": lambda e: (
        (lambda shape: lambda x: np.reshape(x, shape))(e.params["new_sizes"])
        if e.params["dimensions"] is None
        else None
    ),
    "squeeze": lambda e: (lambda shape: lambda x: np.reshape(x, shape))(e.outvars[0].aval.shape),
    "expand_dims": lambda e: (lambda shape: lambda x: np.reshape(x, shape))(e.outvars[0].aval.shape),
    "transpose": lambda e: (lambda order: lambda x: np.transpose(x, order))(e.params["permutation"]),
    "platform_index": lambda e: (lambda value: lambda: value)(foreign(e)()),
    "stack": lambda e: (lambda axis: lambda *parts: np.stack(parts, axis))(e.params["axis"]),
    "split": split,
    "lu": lower_upper,
    "triangular_solve": triangular,
    "cholesky": cholesky,
    "concatenate": lambda e: (lambda axis: lambda *parts: np.concatenate(parts, axis))(e.params["dimension"]),
    "slice": sliced,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "pad": padded,
    "rev": lambda e: (lambda axes: lambda x: np.flip(x, axes))(e.params["dimensions"]),
    "iota": lambda e: (lambda value: lambda: value)(
        np.broadcast_to(
            np.arange(e.params["shape"][e.params["dimension"]], dtype=e.params["dtype"]).reshape(
                [-1 if axis == e.params["dimension"] else 1 for axis in range(len(e.params["shape"]))]
            ),
            e.params["shape"],
        )
    ),
    "convert_element_type": lambda e: (lambda dtype: lambda x: np.asarray(x).astype(dtype))(
        e.params["new_dtype"]
    ),
    "reduce_sum": summed,
    "reduce_max": reduction(np.maximum.reduce),
    "reduce_min": reduction(np.minimum.reduce),
    "reduce_prod": reduction(np.multiply.reduce),
    "reduce_and": reduction(np.logical_and.reduce),
    "reduce_or": reduction(np.logical_or.reduce),
    "argmax": index_of(np.argmax),
    "argmin": index_of(np.argmin),
    "cumsum": cumulative(np.cumsum),
    "cumprod": cumulative(np.cumprod),
    "dot_general": product,
    "gather": gathered,
    "scatter": scattered(None),
    "scatter-add": scattered(np.add),
    "scatter_add": scattered(np.add),
}
CALLING: dict[str, Callable[[Any], Any]] = {
    "cond": conditional,
    "while": repeated,
    "scan": scanned,
    "custom_linear_solve": linear_solve,
}
