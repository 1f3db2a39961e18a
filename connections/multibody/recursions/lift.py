"""Between a closed chain's own velocities and those of its spanning tree, compiled.

With the spanning configuration q_s, G (v_s = G v), LG[s, j, k] = L_{X_j} G[s, k] and Gdot[s, k] =
LG[s, j, k] v^j,

    lift:           v_s = G v,                      lift_rate:     G a + Gdot w,
    project:        G^T f,                          project_rate:  G^T f + Gdot^T p,
    project_wide:   G^T Y.

A solution of one configuration is the vector [q_s | G | LG]: of G only the columns of the cluster to which a
spanning velocity belongs, of LG only their squares, [j, k]. `spans` says where: for each spanning velocity
the first column, the number of columns, and where in the solution its row of G and its block of LG begin.
Every function comes for one configuration (``_at``) and for rows (``_rows``), which release the interpreter's
lock, and returns whether all is well. What a caller of the public functions gave is checked here: sizes and
finiteness. Source: [W] VI-C.
"""

from connections.multibody.recursions.boundary import LARGEST
from connections.multibody.recursions.lanes import inlined, one, rows
from connections.multibody.recursions.layout import is_current


@inlined
def _lift(spans, solution, v, out):
    for s in range(spans.shape[0]):
        first, count, G = spans[s, 0], spans[s, 1], spans[s, 2]
        total = 0.0
        for k in range(count):
            total += solution[G + k] * v[first + k]
        out[s] = total


@inlined
def _lift_rate(spans, solution, v, w, a, out):
    for s in range(spans.shape[0]):
        first, count, G, LG = spans[s, 0], spans[s, 1], spans[s, 2], spans[s, 3]
        total = 0.0
        for j in range(count):
            total += solution[G + j] * a[first + j]
            rate = 0.0
            for k in range(count):
                rate += solution[LG + j * count + k] * w[first + k]
            total += v[first + j] * rate
        out[s] = total


@inlined
def _project(spans, solution, f, out):
    out[:] = 0.0
    for s in range(spans.shape[0]):
        first, count, G = spans[s, 0], spans[s, 1], spans[s, 2]
        for k in range(count):
            out[first + k] += solution[G + k] * f[s]


@inlined
def _project_rate(spans, solution, v, f, p, out):
    out[:] = 0.0
    for s in range(spans.shape[0]):
        first, count, G, LG = spans[s, 0], spans[s, 1], spans[s, 2], spans[s, 3]
        for j in range(count):
            out[first + j] += solution[G + j] * f[s]
            scaled = v[first + j] * p[s]
            for k in range(count):
                out[first + k] += solution[LG + j * count + k] * scaled


@inlined
def _project_wide(spans, solution, Y, out):
    width = Y.size // spans.shape[0]
    out[:] = 0.0
    for s in range(spans.shape[0]):
        first, count, G = spans[s, 0], spans[s, 1], spans[s, 2]
        for k in range(count):
            factor = solution[G + k]
            if factor != 0.0:
                for column in range(width):
                    out[(first + k) * width + column] += factor * Y[s * width + column]


@inlined
def _is_vector(v, n):
    """Whether v (n,) has the right size and finite numbers."""
    good = v.shape[0] == n
    for k in range(v.shape[0]):
        good &= abs(v[k]) <= LARGEST
    return good


@one
def lift_at(memory, spans, n, solution, v, out):
    if not (is_current(memory) and _is_vector(v, n)):
        return False
    _lift(spans, solution, v, out)
    return True


@rows
def lift_rows(memory, spans, n, solution, v, out):
    good = is_current(memory)
    for row in range(out.shape[0]):
        good &= _is_vector(v[row], n)
        _lift(spans, solution[row], v[row], out[row])
    return good


@one
def lift_rate_at(memory, spans, n, solution, v, w, a, out):
    if not (is_current(memory) and _is_vector(v, n) and _is_vector(w, n) and _is_vector(a, n)):
        return False
    _lift_rate(spans, solution, v, w, a, out)
    return True


@rows
def lift_rate_rows(memory, spans, n, solution, v, w, a, out):
    good = is_current(memory)
    for row in range(out.shape[0]):
        good &= _is_vector(v[row], n)
        good &= _is_vector(w[row], n)
        good &= _is_vector(a[row], n)
        _lift_rate(spans, solution[row], v[row], w[row], a[row], out[row])
    return good


@one
def project_at(memory, spans, n, solution, f, out):
    if not (is_current(memory) and out.shape[0] == n):
        return False
    _project(spans, solution, f, out)
    return True


@rows
def project_rows(memory, spans, n, solution, f, out):
    for row in range(out.shape[0]):
        _project(spans, solution[row], f[row], out[row])
    return is_current(memory)


@one
def project_rate_at(memory, spans, n, solution, v, f, p, out):
    if not (is_current(memory) and out.shape[0] == n and _is_vector(v, n)):
        return False
    _project_rate(spans, solution, v, f, p, out)
    return True


@rows
def project_rate_rows(memory, spans, n, solution, v, f, p, out):
    good = is_current(memory)
    for row in range(out.shape[0]):
        good &= _is_vector(v[row], n)
        _project_rate(spans, solution[row], v[row], f[row], p[row], out[row])
    return good


@one
def project_wide_at(memory, spans, n, solution, Y, out):
    if not (is_current(memory) and out.shape == (n, Y.shape[1])):
        return False
    _project_wide(spans, solution, Y.reshape(Y.size), out.reshape(out.size))
    return True


@rows
def project_wide_rows(memory, spans, n, solution, Y, out):
    for row in range(out.shape[0]):
        _project_wide(spans, solution[row], Y[row], out[row])
    return is_current(memory)
