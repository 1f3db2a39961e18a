"""Pinocchio in our conventions: twists angular part first, bodies in the order of the moving joints."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

AXES = {"body": pin.ReferenceFrame.LOCAL, "world": pin.ReferenceFrame.LOCAL_WORLD_ALIGNED}


class PinocchioRobot:
    """A robot read by Pinocchio; results permuted from its [v; omega] to our [omega; v]."""

    def __init__(self, path, floating_base=False):
        root = [pin.JointModelFreeFlyer()] if floating_base else []
        self._take(pin.buildModelFromUrdf(str(path), *root))

    @classmethod
    def of(cls, model):
        """The robot of a model that was built joint by joint."""
        robot = cls.__new__(cls)
        robot._take(model)
        return robot

    def _take(self, model):
        self.model = model
        self.data = self.model.createData()
        order = np.arange(self.model.nv)
        for joint in self.model.joints:
            if joint.shortname() == "JointModelFreeFlyer":
                block = slice(joint.idx_v, joint.idx_v + 6)
                order[block] = np.roll(order[block], 3)
        self.order = order  # ours[i] = pinocchio's[order[i]]
        # Its unbounded revolute and planar joints end with (cos, sin), ours with the angle.
        names = [joint.shortname() for joint in list(self.model.joints)[1:]]
        self.circles = ["RU" in name or "Unbounded" in name or name.endswith("Planar") for name in names]

    @property
    def joint_names(self):
        return tuple(self.model.names)[1:]

    def mass_matrix(self, q):
        H = pin.crba(self.model, self.data, self._configuration(q))
        H = np.triu(H) + np.triu(H, 1).T
        return H[np.ix_(self.order, self.order)]

    def coriolis_matrix(self, q, v):
        C = pin.computeCoriolisMatrix(self.model, self.data, self._configuration(q), self._theirs(v))
        return C[np.ix_(self.order, self.order)].copy()

    def gravity(self, q):
        return pin.computeGeneralizedGravity(self.model, self.data, self._configuration(q))[self.order].copy()

    def inverse_dynamics(self, q, v, a):
        return pin.rnea(self.model, self.data, self._configuration(q), self._theirs(v), self._theirs(a))[
            self.order
        ].copy()

    def forward_dynamics(self, q, v, tau):
        return pin.aba(self.model, self.data, self._configuration(q), self._theirs(v), self._theirs(tau))[
            self.order
        ].copy()

    def inverse_mass_matrix(self, q):
        inverse = pin.computeMinverse(self.model, self.data, self._configuration(q))
        inverse = np.triu(inverse) + np.triu(inverse, 1).T
        return inverse[np.ix_(self.order, self.order)]

    def regressor(self, q, v, a):
        """tau = Y pi, (nv, 10 N); pi per joint: m, h (3), Ixx, Ixy, Iyy, Ixz, Iyz, Izz about its frame."""
        Y = pin.computeJointTorqueRegressor(
            self.model, self.data, self._configuration(q), self._theirs(v), self._theirs(a)
        )
        return Y[self.order].copy()

    def christoffel_symbols(self, q):
        """Gamma_ijk = C_ik(q, e_j), (nv, nv, nv): one Coriolis matrix per unit velocity."""
        return np.stack([self.coriolis_matrix(q, e) for e in np.eye(self.model.nv)], axis=1)

    def potential(self, q):
        return pin.computePotentialEnergy(self.model, self.data, self._configuration(q))

    def nonlinear_effects(self, q, v):
        return pin.nonLinearEffects(self.model, self.data, self._configuration(q), self._theirs(v))[
            self.order
        ].copy()

    def center_of_mass(self, q):
        return pin.centerOfMass(self.model, self.data, self._configuration(q)).copy()

    def center_of_mass_jacobian(self, q):
        return pin.jacobianCenterOfMass(self.model, self.data, self._configuration(q))[:, self.order].copy()

    def frame_pose(self, q, frame):
        pin.framesForwardKinematics(self.model, self.data, self._configuration(q))
        return self.data.oMf[self.model.getFrameId(frame, pin.FrameType.BODY)].homogeneous

    def frame_jacobian(self, q, frame, axes):
        number = self.model.getFrameId(frame, pin.FrameType.BODY)
        J = pin.computeFrameJacobian(self.model, self.data, self._configuration(q), number, AXES[axes])
        return np.roll(J, 3, axis=0)[:, self.order]

    def frame_jacobian_rate(self, q, v, frame, axes):
        number = self.model.getFrameId(frame, pin.FrameType.BODY)
        pin.computeJointJacobiansTimeVariation(self.model, self.data, self._configuration(q), self._theirs(v))
        pin.updateFramePlacements(self.model, self.data)
        rate = pin.getFrameJacobianTimeVariation(self.model, self.data, number, AXES[axes])
        return np.roll(rate, 3, axis=0)[:, self.order]

    def body_jacobians(self, q):
        pin.computeJointJacobians(self.model, self.data, self._configuration(q))
        blocks = []
        for joint in range(1, self.model.njoints):
            J = pin.getJointJacobian(self.model, self.data, joint, pin.ReferenceFrame.LOCAL)
            blocks.append(np.roll(J, 3, axis=0)[:, self.order])
        return np.concatenate(blocks)

    def world_poses(self, q):
        """Homogeneous transforms of the bodies, (N, 4, 4)."""
        pin.forwardKinematics(self.model, self.data, self._configuration(q))
        return np.stack([pose.homogeneous for pose in list(self.data.oMi)[1:]])

    def _configuration(self, q):
        parts, start = [], 0
        for joint, circle in zip(list(self.model.joints)[1:], self.circles, strict=True):
            part = q[start : start + joint.nq - circle]
            parts.append([*part[:-1], np.cos(part[-1]), np.sin(part[-1])] if circle else part)
            start += len(part)
        return np.concatenate(parts)

    def _theirs(self, v):
        out = np.empty(self.model.nv)
        out[self.order] = v
        return out
