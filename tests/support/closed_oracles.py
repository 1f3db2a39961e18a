"""Independent references for closed chains: they share no function with the package.

`Assembly` solves a `Plan` in NumPy: poses by SciPy's rotations, loops by Gauss-Newton on residuals written
from what a joint lets move, along a path of small steps. Its mass matrix is the kinetic energy of differenced
poses, its Gamma the Koszul formula on a differenced mass matrix; no Jacobian is derived by hand.
`ReducedPinocchio` is Pinocchio's spanning tree under a constant G written by hand.
"""

from __future__ import annotations

import numpy as np
from mechanisms import move, normalized, structure_functions
from pinocchio_oracle import PinocchioRobot
from scipy.spatial.transform import Rotation

from connections import multibody as mb

OFFSETS = np.array([-2.0, -1.0, 1.0, 2.0])
WEIGHTS = np.array([1.0, -8.0, 8.0, -1.0]) / 12.0
AXES = np.eye(3)


# --- poses ------------------------------------------------------------------------------------------------


def transform(rotation, position):
    """(..., 4, 4) out of (..., 3, 3) and (..., 3)."""
    out = np.zeros((*np.broadcast_shapes(rotation.shape[:-2], position.shape[:-1]), 4, 4))
    out[..., :3, :3], out[..., :3, 3], out[..., 3, 3] = rotation, position, 1.0
    return out


def turned(axis, angle):
    """Rotation matrices (..., 3, 3) about an axis (3,), by SciPy."""
    flat = Rotation.from_rotvec(np.multiply.outer(np.ravel(angle), np.asarray(axis)))
    return flat.as_matrix().reshape(*np.shape(angle), 3, 3)


def joint_transform(joint, q):
    """The child frame in the joint frame, (..., 4, 4), at q (..., nq)."""
    still, origin = np.eye(3), np.zeros(3)
    match joint:
        case mb.Revolute():
            return transform(turned(joint.axis, q[..., 0]), origin)
        case mb.Prismatic():
            return transform(still, q * np.asarray(joint.axis))
        case mb.Helical():
            return transform(turned(joint.axis, q[..., 0]), joint.pitch * q * np.asarray(joint.axis))
        case mb.Cylindrical():
            return transform(turned(joint.axis, q[..., 0]), q[..., 1:] * np.asarray(joint.axis))
        case mb.Universal():
            return transform(turned(joint.axis_1, q[..., 0]) @ turned(joint.axis_2, q[..., 1]), origin)
        case mb.Planar():
            return transform(turned(AXES[2], q[..., 2]), q * [1.0, 1.0, 0.0])
        case mb.Spherical() | mb.Free():
            flat = Rotation.from_quat(q[..., -4:].reshape(-1, 4)).as_matrix()
            moved = q[..., :3] if isinstance(joint, mb.Free) else origin
            return transform(flat.reshape(*q.shape[:-1], 3, 3), moved)
    raise NotImplementedError(joint)


def poses(plan, x):
    """World poses of all bodies, {body: (..., 4, 4)}, at x = {joint: (..., nq)}."""
    found = {"world": np.eye(4)}
    for name, (parent, body, joint, placement) in plan.joints.items():
        found[body] = found[parent] @ placement @ joint_transform(joint, x[name])
    return found


# --- closures ---------------------------------------------------------------------------------------------


def rotation_vector(R):
    """Rotation vectors (..., 3)."""
    return Rotation.from_matrix(R.reshape(-1, 3, 3)).as_rotvec().reshape(*R.shape[:-2], 3)


def residual(closure, T):
    """What keeps the frame b from where it may be in frame a, (..., k), with T (..., 4, 4) its transform.

    Written from the motion that the closure allows: the relative axis moves, the point leaves the axis, ...
    """
    R, r = T[..., :3, :3], T[..., :3, 3]
    match closure:
        case mb.Coincident() | mb.Spherical():
            return r
        case mb.Distance():
            return np.linalg.norm(r, axis=-1, keepdims=True) - closure.length
        case mb.ConstantVelocity():
            return np.concatenate([r, rotation_vector(R) @ np.asarray(closure.axis)[:, None]], axis=-1)
        case mb.Fixed():
            return np.concatenate([r, rotation_vector(R)], axis=-1)
        case mb.Revolute():
            return np.concatenate([r, R @ closure.axis - closure.axis], axis=-1)
        case mb.Prismatic():
            return np.concatenate([np.cross(r, closure.axis), rotation_vector(R)], axis=-1)
        case mb.Cylindrical():
            return np.concatenate([np.cross(r, closure.axis), R @ closure.axis - closure.axis], axis=-1)
        case mb.Helical():
            axis = np.asarray(closure.axis)
            thread = turned(axis, r @ axis / closure.pitch)  # where the screw is, by how far it came out
            turn = rotation_vector(np.swapaxes(thread, -1, -2) @ R)
            return np.concatenate([np.cross(r, axis), turn], axis=-1)
        case mb.Universal():
            square = np.dot(closure.axis_1, closure.axis_2)
            return np.concatenate([r, (R @ closure.axis_2 @ closure.axis_1 - square)[..., None]], axis=-1)
        case mb.Planar():
            return np.concatenate([r[..., 2:], R[..., 2] - AXES[2]], axis=-1)
    return np.asarray(closure(T))  # a user's function


class Assembly:
    """A plan that closes.

    Parameters
    ----------
    plan : the mechanism.
    model : the package's model of it, of which the names and slices of the independent joints are taken, and
        with them the meaning of q and v.
    """

    def __init__(self, plan, model):
        self.plan, self.model, self.free = plan, model, model.joint_names
        starts = np.cumsum([0, *(joint[2].nq for joint in plan.joints.values())])
        names = list(plan.joints)
        self.slices = {name: slice(*starts[i : i + 2]) for i, name in enumerate(names)}
        tied = [np.arange(*starts[i : i + 2]) for i, name in enumerate(names) if name not in self.free]
        self.tied = np.concatenate(tied) if tied else np.zeros(0, dtype=int)
        start = np.concatenate([plan.reference[name] for name in names])
        self.reference = self.close(start, sweeps=50)

    def by_name(self, x):
        """{joint: (..., nq)} of x (..., nx), the coordinates of all joints in the order of the plan."""
        return {name: x[..., at] for name, at in self.slices.items()}

    def independent(self, x):
        """q (..., nq) of x."""
        q = np.empty((*x.shape[:-1], self.model.nq))
        for name in self.free:
            q[..., self.model.configuration_slice(name)] = x[..., self.slices[name]]
        return q

    def with_independent(self, x, q):
        """X with its independent coordinates replaced, over the batch of q."""
        x = np.array(np.broadcast_to(x, (*np.broadcast_shapes(x.shape[:-1], q.shape[:-1]), x.shape[-1])))
        for name in self.free:
            x[..., self.slices[name]] = q[..., self.model.configuration_slice(name)]
        return x

    def conditions(self, x):
        """Residuals (..., m) of all loops and couplings, and of the norms of quaternions, at x (..., nx)."""
        joints = self.by_name(x)
        at, parts = poses(self.plan, joints), []
        for body_a, body_b, closure, end_a, end_b, _ in self.plan.loops.values():
            T = np.linalg.inv(at[body_a] @ end_a) @ at[body_b] @ end_b
            parts.append(residual(closure, T))
        for coefficients, offset, function, _ in self.plan.couplings.values():
            tied = [joints[name][..., 0] for name in coefficients]
            if function is None:
                sums = sum(c * q for c, q in zip(coefficients.values(), tied, strict=True))
                parts.append((sums - offset)[..., None])
            else:
                parts.append(np.asarray(function(*tied))[..., None] - offset)
        for name, (_, _, joint, _) in self.plan.joints.items():
            if isinstance(joint, mb.Spherical | mb.Free):
                parts.append(np.sum(joints[name][..., -4:] ** 2, axis=-1, keepdims=True) - 1.0)
        parts = [np.broadcast_to(part, (*x.shape[:-1], part.shape[-1])) for part in parts]
        return np.concatenate(parts, axis=-1)

    def slope(self, x, h=1e-4):
        """Derivatives (m, dependent) of the conditions at x (nx,), by differences."""
        steps = np.zeros((len(OFFSETS), len(self.tied), x.shape[-1]))
        steps[:, np.arange(len(self.tied)), self.tied] = h * OFFSETS[:, None]
        return np.tensordot(WEIGHTS, self.conditions(x + steps), axes=1).T / h

    def close(self, x, sweeps=6, slope=None):
        """X (..., nx) with the dependent coordinates moved to where the loops close, by Gauss-Newton steps.

        Parameters
        ----------
        slope : (m, dependent) held for all steps; by differences at every step if None.
        """
        x = np.array(x)
        held = None if slope is None else np.linalg.pinv(slope, rcond=1e-8)
        for _ in range(sweeps):
            if not len(self.tied):
                break
            inverse = np.linalg.pinv(self.slope(x), rcond=1e-8) if held is None else held
            step = np.einsum("dm,...m->...d", inverse, self.conditions(x))
            x[..., self.tied] -= step
            if np.max(np.abs(step)) < 1e-15:
                break
        worst = np.max(np.abs(self.conditions(x)), initial=0.0)
        assert worst < 1e-12, f"the oracle does not close: {worst:.1e}"
        return x

    def follow(self, q, steps=50):
        """X (nx,) at q (nq,), by small steps on the straight line from the reference, quaternions scaled."""
        start, x = self.independent(self.reference), self.reference
        end = np.array(q)
        for name in self.free:
            if isinstance(self.plan.joints[name][2], mb.Spherical | mb.Free):
                quaternion = slice(*[self.model.configuration_slice(name).stop - k for k in (4, 0)])
                end[quaternion] *= np.sign(end[quaternion] @ start[quaternion])
        for part in np.arange(1, steps + 1) / steps:
            between = normalized(self.model, start + part * (end - start)) if part < 1.0 else np.asarray(q)
            x = self.close(self.with_independent(x, between))
        return x

    # --- the reduced mass matrix --------------------------------------------------------------------------

    def stack(self, x):
        """World poses (..., N, 4, 4) of the bodies in the order of the plan."""
        found = poses(self.plan, self.by_name(x))
        shape = (*x.shape[:-1], 4, 4)
        return np.stack([np.broadcast_to(found[body], shape) for body in self.plan.bodies], axis=-3)

    def mass_matrix(self, q, near, slope, h=1e-3):
        """H (..., n, n) at q (..., nq): the kinetic energy of velocities by differences of closed poses.

        Parameters
        ----------
        near : (nx,) a closed configuration that is near; slope, that of the conditions there.
        """
        n = self.model.nv
        x = self.close(self.with_independent(near, q), 12, slope)
        points = move(self.model, q[..., None, None, :], h * np.multiply.outer(OFFSETS, np.eye(n)))
        moved = self.close(self.with_independent(near, points), 12, slope)
        T = np.moveaxis(self.stack(moved), -5, 0)  # (4, ..., n, N, 4, 4)
        T_dot = np.tensordot(WEIGHTS, T, axes=1) / h
        twist = np.linalg.inv(self.stack(x))[..., None, :, :, :] @ T_dot
        omega, v = twist[..., [2, 0, 1], [1, 2, 0]], twist[..., :3, 3]
        H = np.zeros((*q.shape[:-1], n, n))
        for body, inertia in enumerate(self.plan.bodies.values()):
            w = omega[..., body, :]
            u = v[..., body, :] + np.cross(w, inertia["center_of_mass"])
            H += inertia["mass"] * u @ np.swapaxes(u, -1, -2)
            H += w @ inertia["inertia"] @ np.swapaxes(w, -1, -2)
        return H

    def koszul(self, q, h=2e-3):
        """(H, Gamma_ijk) at q (nq,): [W] (8) on differences of `mass_matrix` along the frame fields."""
        near = self.follow(q)
        slope = self.slope(near)
        n = self.model.nv
        points = move(self.model, q, h * np.multiply.outer(OFFSETS, np.eye(n)))
        H = self.mass_matrix(q, near, slope)
        dH = np.tensordot(WEIGHTS, self.mass_matrix(points, near, slope), axes=1) / h  # [i, j, k] = X_i H_jk
        s = np.tensordot(H, structure_functions(self.model), axes=1)  # s[k, i, j], first index lowered
        twice = np.transpose(dH, (1, 2, 0)) + np.transpose(dH, (1, 0, 2)) - dH
        return H, (twice + np.transpose(s, (1, 2, 0)) + np.transpose(s, (1, 0, 2)) + s) / 2.0

    def potential(self, x):
        """Potential energy of gravity at x (..., nx)."""
        height, T = 0.0, self.stack(x)
        for body, inertia in enumerate(self.plan.bodies.values()):
            center = T[..., body, :3, :3] @ inertia["center_of_mass"] + T[..., body, :3, 3]
            height = height - inertia["mass"] * center @ np.asarray(self.plan.gravity)
        return height


# --- the planar four-bar in closed form -------------------------------------------------------------------


BARS = (1.0, 0.35, 0.9, 0.7)  # ground, crank, coupler, rocker: the crank turns all the way round


def four_bar_angles(crank, bars=BARS, side=1.0):
    """(coupler, rocker) angles to the x axis of a four-bar at this crank angle; `side` is the assembly mode.

    The rocker's tip lies on a circle about the crank's tip: with d the vector from the crank's tip to the
    rocker's pivot, the law of cosines gives the angle of the coupler to d.
    """
    ground, a, b, c = bars
    dx, dy = ground - a * np.cos(crank), -a * np.sin(crank)
    square = dx * dx + dy * dy
    inner = np.arccos((b * b + square - c * c) / (2.0 * b * np.sqrt(square)))
    coupler = np.arctan2(dy, dx) + side * inner
    tip = a * np.sin(crank) + b * np.sin(coupler), a * np.cos(crank) + b * np.cos(coupler) - ground
    return coupler, np.arctan2(*tip)


def four_bar_rates(crank, bars=BARS, side=1.0):
    """First and second derivatives (2, 2) of (coupler, rocker) by the crank angle.

    From a e^{i crank} + b e^{i coupler} = ground + c e^{i rocker}, differentiated once and twice; the
    2 x 2 system is solved by Cramer's rule.
    """
    _, a, b, c = bars
    coupler, rocker = four_bar_angles(crank, bars, side)
    first = a / np.sin(rocker - coupler) * np.array([np.sin(crank - rocker) / b, np.sin(crank - coupler) / c])
    # i b e^{i coupler} coupler'' - i c e^{i rocker} rocker'' = known
    known = a * np.exp(1j * crank) + b * first[0] ** 2 * np.exp(1j * coupler)
    known -= c * first[1] ** 2 * np.exp(1j * rocker)
    matrix = np.array([b * 1j * np.exp(1j * coupler), -c * 1j * np.exp(1j * rocker)])
    second = np.linalg.solve(np.stack([matrix.real, matrix.imag]), [known.real, known.imag])
    return first, second


def four_bar_inertia(plan, crank, bars=BARS, side=1.0):
    """(H, dH/dcrank) of `closed_chains.four_bar`, from planar vectors as complex numbers."""
    inertias = list(plan.bodies.values())
    arms = [complex(*inertia["center_of_mass"][:2]) for inertia in inertias]
    coupler, rocker = four_bar_angles(crank, bars, side)
    first, second = four_bar_rates(crank, bars, side)
    e = np.exp(1j * np.array([crank, coupler, rocker]))
    rate, curvature = np.array([1.0, *first]), np.array([0.0, *second])
    tip, tip_rate = bars[1] * 1j * e[0], -bars[1] * e[0]
    H, slope = 0.0, 0.0
    for body, (inertia, arm) in enumerate(zip(inertias, arms, strict=True)):
        v = 1j * e[body] * arm * rate[body]
        dv = 1j * e[body] * arm * curvature[body] - e[body] * arm * rate[body] ** 2
        if body == 1:
            v, dv = v + tip, dv + tip_rate
        m, moment = inertia["mass"], inertia["inertia"][2, 2]
        H += m * abs(v) ** 2 + moment * rate[body] ** 2
        slope += 2.0 * m * (v.conjugate() * dv).real + 2.0 * moment * rate[body] * curvature[body]
    return H, slope


# --- Pinocchio's spanning tree under a constant G ---------------------------------------------------------


class ReducedPinocchio:
    """Pinocchio's H, C, Gamma of a spanning tree, reduced by spanning velocities = G v with G constant.

    Parameters
    ----------
    robot : the spanning tree.
    model : the package's model, of which the order of the independent joints is taken.
    ratios : {dependent joint: ({independent joint: factor}, offset)}, written by hand.
    """

    def __init__(self, robot, model, ratios):
        self.robot, self.model, self.ratios = robot, model, ratios
        self.G = np.zeros((robot.model.nv, model.nv))
        for name, joint in zip(robot.joint_names, list(robot.model.joints)[1:], strict=True):
            rows = slice(joint.idx_v, joint.idx_v + joint.nv)
            if name in ratios:
                for other, factor in ratios[name][0].items():
                    self.G[rows, model.velocity_slice(other)] += factor
            else:
                self.G[rows, model.velocity_slice(name)] = np.eye(joint.nv)

    def configuration(self, q):
        """Spanning coordinates in our convention, joint by joint of Pinocchio's order."""
        parts = []
        for name in self.robot.joint_names:
            if name in self.ratios:
                factors, offset = self.ratios[name]
                followed = [f * q[self.model.configuration_slice(j)][0] for j, f in factors.items()]
                parts.append([offset + sum(followed)])
            else:
                parts.append(q[self.model.configuration_slice(name)])
        return np.concatenate(parts)

    def mass_matrix(self, q):
        return self.G.T @ self.robot.mass_matrix(self.configuration(q)) @ self.G

    def coriolis_matrix(self, q, v):
        return self.G.T @ self.robot.coriolis_matrix(self.configuration(q), self.G @ v) @ self.G

    def christoffel_symbols(self, q):
        each = [self.coriolis_matrix(q, e) for e in np.eye(self.model.nv)]
        return np.stack(each, axis=1)

    def inverse_dynamics(self, q, v, a):
        tau = self.robot.inverse_dynamics(self.configuration(q), self.G @ v, self.G @ a)
        return self.G.T @ tau


def pinocchio_of(plan):
    """Pinocchio's spanning tree of a plan of revolute, prismatic, spherical and free joints."""
    import pinocchio as pin

    model, bodies = pin.Model(), {"world": 0}
    children = {}
    for name, (parent, body, joint, placement) in plan.joints.items():
        children.setdefault(parent, []).append((name, body, joint, placement))

    def add(parent):
        for name, body, joint, placement in children.get(parent, ()):
            match joint:
                case mb.Revolute():
                    kind = pin.JointModelRevoluteUnaligned(*joint.axis)
                case mb.Prismatic():
                    kind = pin.JointModelPrismaticUnaligned(*joint.axis)
                case mb.Spherical():
                    kind = pin.JointModelSpherical()
                case mb.Free():
                    kind = pin.JointModelFreeFlyer()
            number = model.addJoint(bodies[parent], kind, pin.SE3(placement), name)
            inertia = plan.bodies[body]
            mass = pin.Inertia(inertia["mass"], np.asarray(inertia["center_of_mass"]), inertia["inertia"])
            model.appendBodyToJoint(number, mass, pin.SE3.Identity())
            bodies[body] = number
            add(body)

    add("world")
    model.gravity.linear = np.asarray(plan.gravity)
    return PinocchioRobot.of(model)
