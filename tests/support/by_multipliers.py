"""Constrained systems by NumPy alone: accelerations from the multiplier equations, no connection anywhere.

M qddot = F + W^T lambda with W qdot = 0 for a mass matrix that is constant in coordinates. Derivatives are
complex steps, exact to round-off, of plain formulas for the forms and the fields.
"""

import numpy as np
import sympy

STEP = 1e-30


def closed_form(system, array, q, parameters=None):
    """Values (..., *shape) of an array of expressions at points (..., nq), by NumPy."""
    symbols = [*system.coordinates, *system.parameters]
    function = sympy.lambdify(symbols, array.ravel().tolist(), modules="numpy", cse=True)
    entries = function(*np.moveaxis(q, -1, 0), *system.parameter_values(parameters).values())
    stacked = np.stack(np.broadcast_arrays(*entries), axis=-1)
    return stacked.reshape(stacked.shape[:-1] + array.shape)


def slope(function, q, direction):
    """Derivative of `function` at q along `direction`."""
    return np.imag(function(q + 1j * STEP * direction)) / STEP


def acceleration(M, forms, q, q_dot, force):
    """qddot (nq,) and the multipliers (p,)."""
    W = forms(q)
    p = len(W)
    saddle = np.block([[M, -W.T], [W, np.zeros((p, p))]])
    right = np.concatenate([force, -slope(forms, q, q_dot) @ q_dot])
    solution = np.linalg.solve(saddle, right)
    return solution[:-p], solution[-p:]


def coefficients(M, forms, fields, q):
    """Gamma[k, i, j] (m, m, m): symmetric part from free accelerations, the rest from projected brackets."""
    E = fields(q)
    m = E.shape[1]
    dE = np.stack([slope(fields, q, E[:, i]) for i in range(m)])  # dE[i, :, j] = L_{X_i} X_j
    components = np.linalg.solve(E.T @ M @ E, E.T @ M)

    def rate(v):
        q_ddot, _ = acceleration(M, forms, q, E @ v, np.zeros(len(M)))
        return components @ (q_ddot - np.einsum("i,iaj,j->a", v, dE, v))

    Gamma = np.empty((m, m, m))
    for i, j in np.ndindex(m, m):
        e, f = np.eye(m)[i], np.eye(m)[j]
        bracket = components @ (dE[i, :, j] - dE[j, :, i])
        Gamma[:, i, j] = (rate(e) + rate(f) - rate(e + f) + bracket) / 2
    return Gamma


def input_coefficients(M, forms, fields, q, covectors):
    """Y[k, a] (m, a): what each covector changes in the acceleration."""
    E = fields(q)
    still = np.zeros(len(M))
    pushed = np.stack([acceleration(M, forms, q, still, F)[0] for F in covectors], axis=1)
    return np.linalg.lstsq(E, pushed, rcond=None)[0]


def derivatives_of_fields(coefficients_of_full, fields, q):
    """nabla_{X_i} X_j (nq, m, m) of a connection on all of TQ, in coordinates."""
    E = fields(q)
    dE = np.stack([slope(fields, q, E[:, i]) for i in range(E.shape[1])])
    return np.transpose(dE, (1, 0, 2)) + np.einsum("abc,bi,cj->aij", coefficients_of_full, E, E)
