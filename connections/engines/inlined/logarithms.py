"""The derivative of the logarithm of rotations and poses, as series in the squared angle s = t^2; of float64.

    dtau^-1_x = 1 + ad_x / 2 + a ad_x^2 + b ad_x^4,      F = (t/2) cot(t/2) = 1 - sum f_n s^n

on twists x with a turn of t; on rotation vectors 1 + x / 2 + c x^2 with c = (1 - F) / s. The series serve
turns of at most half a turn. Closed forms lose digits to cancellation, those of b a long way from zero.
Source: Bullo and Murray, Proportional derivative control on the Euclidean group, 1995.
"""

from connections.engines.inlined.simd import inlined

TERMS, FEW, MORE, NEAR = 26, 9, 12, 0.25  # for half a turn; for squared angles up to NEAR; for rates there


def _series(count):
    """f_n of F: (2n + 1) f_n = sum f_i f_{n-i}, f_1 = 1/12."""
    f = [0.0, 1.0 / 12.0]
    for n in range(2, count + 1):
        f.append(sum(f[i] * f[n - i] for i in range(1, n)) / (2 * n + 1))
    return tuple(f)


F = _series(TERMS)


@inlined
def logarithm_series(s, terms):
    """c, a and b for a squared angle s: sums of f_n s^(n-1), (2 - n) f_n s^(n-1) and (1 - n) f_n s^(n-2)."""
    c, a, b = 0.0, 0.0, 0.0
    for n in range(terms, 1, -1):
        c, a, b = c * s + F[n], a * s + (2 - n) * F[n], b * s + (1 - n) * F[n]
    return c * s + F[1], a * s + F[1], b


@inlined
def logarithm_coefficients(s):
    """c, a and b for a squared angle s, by as many terms as it needs."""
    return logarithm_series(s, FEW if s < NEAR else TERMS)


@inlined
def logarithm_rates(s):
    """The derivatives of a and b by the squared angle s."""
    a, b = 0.0, 0.0
    for n in range(MORE if s < NEAR else TERMS, 2, -1):
        a, b = a * s + (2 - n) * (n - 1) * F[n], b * s + (1 - n) * (n - 2) * F[n]
    return a * s, b
