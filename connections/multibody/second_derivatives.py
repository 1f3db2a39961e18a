"""Second derivatives of a robot's dynamics along its frame fields, as tensors, and weighted by a vector.

``dq`` is a left-trivialized derivative L_k, as in `linearization`: along the frame field X_k, so that a
quaternion has three directions. Two of them do not commute within one spherical or free joint, because
L_k L_j - L_j L_k = s^i_kj L_i by the brackets of the frame. So the order matters: in all results the last
index belongs to the derivative that is taken last. Where the fields commute, the results are symmetric.

Arguments and errors are those of the recursions (`connections.multibody.functions`).
Source: derived for this package from [B] Tables 4 to 8; docs/second_derivatives.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from connections._jax import ArrayLike
from connections.checks import as_array
from connections.multibody.functions import (
    documented,
    joined,
    matrices_of,
    plus,
    product,
    recursion_of,
    tensors_of,
    with_forces,
)
from connections.multibody.model import Model
from connections.multibody.passive_forces import passive_bends
from connections.multibody.program.closed import SolvedLoops


@documented
def inverse_dynamics_hessian_product(
    model: Model,
    q: ArrayLike | SolvedLoops,
    v: ArrayLike,
    a: ArrayLike,
    w: ArrayLike,
    *,
    passive: bool = False,
    out: Any = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Second derivatives of phi = w . tau, (..., nv, nv) each, for fixed w and tau = H a + C v + g.

    They are sums over i of w_i times the second derivatives of tau_i, in O(N d): no tensor is formed. The
    blocks that are not returned are transposes of these, or zero: tau is linear in a, and H does not depend
    on v. The results are views of one array (..., 4, nv, nv), which is `out` if that is given.

    Returns
    -------
    d2_dqdq : entry [j, k] is L_k L_j phi, the derivative along X_k of that along X_j.
    d2_dvdq : entry [j, k] is the derivative of dphi/dv_j along X_k.
    d2_dvdv : entry [j, k] is d2phi/dv_j dv_k = w^i (Gamma_ijk + Gamma_ikj).
    d2_dadq : entry [j, k] is the derivative of dphi/da_j = (H w)_j along X_k.

    Source: derived for this package from [B] Tables 4 to 8.
    """
    recursion = recursion_of(model, "inverse_dynamics_hessian_product")
    if passive is False:
        in_qq, in_vq, in_vv, in_xq = matrices_of(recursion(q, v, a, w, (), out))
        return in_qq, in_vq, in_vv, in_xq
    return _second(recursion, model, False, q, v, a, w, passive, out)


@documented
def forward_dynamics_hessian_product(
    model: Model,
    q: ArrayLike | SolvedLoops,
    v: ArrayLike,
    tau: ArrayLike,
    w: ArrayLike,
    *,
    passive: bool = False,
    out: Any = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Second derivatives of phi = w . vdot, (..., nv, nv) each, for fixed w and vdot = H^-1 (tau - C v - g).

    They are sums over i of w_i times the second derivatives of vdot_i; no tensor is formed. They are what
    Newton's method and differential dynamic programming need. The blocks that are not returned are transposes
    of these, or zero. The results are views of one array (..., 4, nv, nv), which is `out` if that is given.

    Returns
    -------
    d2_dqdq : entry [j, k] is L_k L_j phi, the derivative along X_k of that along X_j.
    d2_dvdq : entry [j, k] is the derivative of dphi/dv_j along X_k.
    d2_dvdv : entry [j, k] is d2phi/dv_j dv_k.
    d2_dtaudq : entry [j, k] is the derivative of dphi/dtau_j = (H^-1 w)_j along X_k.

    Source: derived for this package from [B] Tables 4 to 9.
    """
    recursion = recursion_of(model, "forward_dynamics_hessian_product")
    if passive is False:
        in_qq, in_vq, in_vv, in_xq = matrices_of(recursion(q, v, tau, w, (), out))
        return in_qq, in_vq, in_vv, in_xq
    return _second(recursion, model, True, q, v, tau, w, passive, out)


@documented
def inverse_dynamics_second_derivatives(
    model: Model,
    q: ArrayLike | SolvedLoops,
    v: ArrayLike,
    a: ArrayLike,
    *,
    passive: bool = False,
    out: Any = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Second derivatives of tau = H a + C v + g, (..., nv, nv, nv) each; O(N d^2) numbers that are not zero.

    The first index is the component of tau, the last one is the derivative that is taken last. The arrays
    that are not returned are transposes of these in their last two axes, or zero: tau is linear in a, and H
    does not depend on v. The results are views of one array (..., 4, nv, nv, nv), which is `out` if that is
    given.

    Returns
    -------
    d2tau_dqdq : entry [i, j, k] is L_k L_j tau_i, the derivative along X_k of that along X_j.
    d2tau_dvdq : entry [i, j, k] is the derivative of dtau_i/dv_j along X_k.
    d2tau_dvdv : entry [i, j, k] is Gamma_ijk + Gamma_ikj, of the first kind.
    d2tau_dadq : entry [i, j, k] is the derivative of H_ij along X_k.

    Source: derived for this package from [B] Tables 4 to 8.
    """
    recursion = recursion_of(model, "inverse_dynamics_second_derivatives")
    if passive is False:
        in_qq, in_vq, in_vv, in_xq = tensors_of(recursion(q, v, a, (), out))
        return in_qq, in_vq, in_vv, in_xq
    return _second(recursion, model, False, q, v, a, None, passive, out)


@documented
def forward_dynamics_second_derivatives(
    model: Model,
    q: ArrayLike | SolvedLoops,
    v: ArrayLike,
    tau: ArrayLike,
    *,
    passive: bool = False,
    out: Any = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Second derivatives of a = H^-1 (tau - C v - g), (..., nv, nv, nv) each.

    The first index is the component of a, the last one is the derivative that is taken last. The arrays that
    are not returned are transposes of these in their last two axes, or zero. The results are views of one
    array (..., 4, nv, nv, nv), which is `out` if that is given.

    Returns
    -------
    d2a_dqdq : entry [i, j, k] is L_k L_j a_i, the derivative along X_k of that along X_j.
    d2a_dvdq : entry [i, j, k] is the derivative of da_i/dv_j along X_k.
    d2a_dvdv : entry [i, j, k] is d2a_i/dv_j dv_k, -Gamma^i_jk - Gamma^i_kj.
    d2a_dtaudq : entry [i, j, k] is the derivative of (H^-1)_ij along X_k.

    Source: derived for this package from [B] Tables 4 to 9.
    """
    recursion = recursion_of(model, "forward_dynamics_second_derivatives")
    if passive is False:
        in_qq, in_vq, in_vv, in_xq = tensors_of(recursion(q, v, tau, (), out))
        return in_qq, in_vq, in_vv, in_xq
    return _second(recursion, model, True, q, v, tau, None, passive, out)


def _second(
    recursion: Any, model: Model, forward: bool, q: Any, v: Any, x: Any, w: Any, passive: bool, out: Any
) -> tuple[Any, Any, Any, Any]:
    """The blocks (q, q), (v, q), (v, v) and (x, q) of a recursion under passive forces."""
    q, force = with_forces(model, q, v, passive)
    if forward:
        x = joined("tau", as_array("tau", x, (model.nv,)), "forces", force)
    given = (q, v, x) if w is None else (q, v, x, w)
    in_qq, in_vq, in_vv, in_xq = _blocks(recursion(*given, (), out), w)
    if forward:
        more = _of_forces(model, q, v, w, in_xq)
    else:
        more = [-block for block in _blocks(passive_bends(model, q, v, w), w)]
    return plus(in_qq, more[0]), plus(in_vq, more[1]), plus(in_vv, more[2]), in_xq


def _of_forces(model: Model, q: Any, v: Any, w: Any, m: Any) -> list[Any]:
    """Terms that passive forces add to second derivatives of a, or of w . a, by the chain rule.

    With m the derivative of H^-1, or of H^-1 w, along the fields, and P = tau_p:

        (q, q)  m_tj dP_t/dq_k + m_tk dP_t/dq_j + H^-1 d2P/dqdq,
        (v, q)  m_tk dP_t/dv_j + H^-1 d2P/dvdq,              (v, v)  H^-1 d2P/dvdv.
    """
    inverse = recursion_of(model, "inverse_mass_matrix")(q, (), None)
    in_q, in_v = model.passive_slopes(q, v)
    if w is None:
        in_q, in_v = in_q[..., None, :, :], in_v[..., None, :, :]
        tensors = _blocks(passive_bends(model, q, v), None)
        bends = [_over_first(inverse, tensor) for tensor in tensors]
    else:
        bends = [*_blocks(passive_bends(model, q, v, product(inverse, w)), w)]
    of_q, of_v = (np.swapaxes(slope, -1, -2) @ m for slope in (in_q, in_v))
    return [bends[0] + of_q + np.swapaxes(of_q, -1, -2), bends[1] + of_v, bends[2]]


def _over_first(matrix: Any, tensor: Any) -> Any:
    """M_it T_tjk of matrices (..., n, n) and tensors (..., n, n, n)."""
    n = tensor.shape[-1]
    flat = matrix @ tensor.reshape(*tensor.shape[:-2], n * n)
    return flat.reshape(*flat.shape[:-1], n, n)


def _blocks(stacked: Any, w: Any) -> tuple[Any, ...]:
    return tensors_of(stacked) if w is None else matrices_of(stacked)
