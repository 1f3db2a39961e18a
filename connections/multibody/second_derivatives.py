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

from connections.multibody.functions import documented, matrices_of, recursion_of, tensors_of
from connections.multibody.model import Model


@documented
def inverse_dynamics_hessian_product(
    model: Model, q: Any, v: Any, a: Any, w: Any, *, out: Any = None
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
    d2_dqdq, d2_dvdq, d2_dvdv, d2_dadq = matrices_of(
        recursion_of(model, "inverse_dynamics_hessian_product")(q, v, a, w, (), out)
    )
    return d2_dqdq, d2_dvdq, d2_dvdv, d2_dadq


@documented
def forward_dynamics_hessian_product(
    model: Model, q: Any, v: Any, tau: Any, w: Any, *, out: Any = None
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
    d2_dqdq, d2_dvdq, d2_dvdv, d2_dtaudq = matrices_of(
        recursion_of(model, "forward_dynamics_hessian_product")(q, v, tau, w, (), out)
    )
    return d2_dqdq, d2_dvdq, d2_dvdv, d2_dtaudq


@documented
def inverse_dynamics_second_derivatives(
    model: Model, q: Any, v: Any, a: Any, *, out: Any = None
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
    d2tau_dqdq, d2tau_dvdq, d2tau_dvdv, d2tau_dadq = tensors_of(
        recursion_of(model, "inverse_dynamics_second_derivatives")(q, v, a, (), out)
    )
    return d2tau_dqdq, d2tau_dvdq, d2tau_dvdv, d2tau_dadq


@documented
def forward_dynamics_second_derivatives(
    model: Model, q: Any, v: Any, tau: Any, *, out: Any = None
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
    d2a_dqdq, d2a_dvdq, d2a_dvdv, d2a_dtaudq = tensors_of(
        recursion_of(model, "forward_dynamics_second_derivatives")(q, v, tau, (), out)
    )
    return d2a_dqdq, d2a_dvdq, d2a_dvdv, d2a_dtaudq
