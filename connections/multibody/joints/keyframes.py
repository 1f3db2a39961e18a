"""Configurations and velocities that a robot's description names, such as "home"."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from connections.evaluation.content import by_identity

#: {name: {joint: (its configuration (nq_J,), its velocity (nv_J,))}}
Keyframes: TypeAlias = Mapping[str, Mapping[str, tuple[np.ndarray, np.ndarray]]]


@by_identity
class Keyframe(NamedTuple):
    """A configuration and a velocity that a robot's description names.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> text = '''<mujoco><worldbody><body name="rod"><joint name="hinge" axis="0 1 0"/>
    ...   <geom type="capsule" size=".02" fromto="0 0 0 0 0 -.4"/></body></worldbody>
    ...   <keyframe><key name="raised" qpos="1.5" qvel="-0.5"/></keyframe></mujoco>'''
    >>> raised = mb.from_mjcf(text).keyframes["raised"]
    >>> raised.q, raised.v, raised.spanning
    (array([1.5]), array([-0.5]), array([1.5]))
    """

    q: np.ndarray  #: (nq,) of the independent joints
    v: np.ndarray  #: (nv,)
    #: (nq_s,) of all joints, as in ``SolvedLoops.spanning``: a guess for `close_loops`; the file's numbers,
    #: with which loops need not close exactly
    spanning: np.ndarray


def keyframes_of(
    keyframes: Keyframes, names: Sequence[str], independent: Sequence[str]
) -> dict[str, Keyframe]:
    """{name: keyframe} of a robot with joints of these names, some of which are independent."""
    return {
        name: Keyframe(
            np.concatenate([joints[joint][0] for joint in independent]),
            np.concatenate([joints[joint][1] for joint in independent]),
            np.concatenate([joints[joint][0] for joint in names]),
        )
        for name, joints in keyframes.items()
    }


def keyframes_with(keyframes: Keyframes, joints: Collection[str]) -> Keyframes:
    """The keyframes of a robot that has no other joints than these."""
    return {
        name: {joint: state for joint, state in states.items() if joint in joints}
        for name, states in keyframes.items()
    }
