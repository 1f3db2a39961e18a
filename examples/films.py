"""
Three films: transport, free motion, a gait
===========================================

A frame is carried around a circle, with torsion and without; an arm moves without torques; a snakeboard
starts from rest. The films are GIF files of less than 1 MB, for pages that explain what they show.
Run: python examples/films.py [directory]
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.ticker import MultipleLocator
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from PIL import Image

import connections as cn
from connections import multibody as mb
from connections import plots, systems
from connections.plots.canvas import BLACK, BLUE, GREEN, GREY, RED, new_figure

LIMIT = 1_000_000  # bytes of a film
directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")

# %%
# A film is small if it has few colours: all frames share one palette, of greys and of our colours mixed with
# white. Pillow stores what differs from the frame before.

OCHRE, VIOLET = "#c07f00", "#7b3fa0"
SHADES = 8
mixed = np.linspace(1.0, 1.0 / SHADES, SHADES)[:, None]
greys = np.repeat(np.linspace(0.0, 1.0, 32)[:, None], 3, axis=1)
tints = [1.0 - mixed * (1.0 - np.array(to_rgb(c))) for c in (BLUE, RED, GREEN, OCHRE, VIOLET)]
palette = Image.new("P", (1, 1))
palette.putpalette((255 * np.concatenate([greys, *tints])).round().astype(np.uint8).tobytes())


def write(name, figure, draw, order, pause, rate=15):
    """The frames draw(0), draw(1), ... in an order, the last one for some seconds, as a GIF."""
    pictures = {}
    figure.set_dpi(96)
    for number in sorted(set(order)):
        draw(number)
        figure.canvas.draw()
        pictures[number] = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[..., :3])
    film = [pictures[n].quantize(palette=palette, dither=Image.Dither.NONE) for n in order]
    lasting = [round(1000 / rate)] * (len(order) - 1) + [round(1000 * pause)]  # ms
    path = directory / f"{name}.gif"
    film[0].save(path, save_all=True, append_images=film[1:], duration=lasting, loop=0, optimize=True)
    print(f"{path}: {len(order)} frames")
    assert path.stat().st_size < LIMIT


# %%
# A frame carried around a circle
# -------------------------------
#
# Space is flat, and a mass of 1 kg has C = 0 or C = beta (v x): both keep lengths and angles, and have
# straight geodesics. Around a circle of radius R, the first connection brings every vector back as it was.
# The second has turned the frame by 2 pi sqrt(1 + (beta R / m)^2): seen from the mass, the turn about the
# velocity and the turn of the circle add up to a turn about a fixed axis.

MASS, BETA, RADIUS = 1.0, -3.0, 0.5  # kg, kg/m, m
family = cn.ContorsionFamily(cn.ConstantMetric(cn.CoordinateFrame(3), MASS * np.eye(3)))


def circle(t):
    """The point after t seconds at 1 m/s."""
    angle = t / RADIUS
    return RADIUS * jnp.stack([jnp.cos(angle), jnp.sin(angle), 0.0 * angle])


times = np.linspace(0.0, 2.0 * np.pi * RADIUS, 61)
points = np.stack([np.asarray(circle(t)) for t in times])
frames = np.asarray(
    family.sweep(
        np.array([[0.0], [BETA]]), lambda nabla: cn.parallel_transport(nabla, circle, np.eye(3), times)
    )
)  # (connection, vector, time, 3)
back = np.arccos(np.clip((np.trace(frames[:, :, -1], axis1=1, axis2=2) - 1.0) / 2.0, -1.0, 1.0))
whole = 2.0 * np.pi * np.hypot(1.0, BETA * RADIUS / MASS)
expected = abs((whole + np.pi) % (2.0 * np.pi) - np.pi)
print(f"after one round the frame is turned by {np.rad2deg(back[0]):.3f} degrees without torsion,")
print(f"by {np.rad2deg(back[1]):.3f} degrees with torsion; the formula says {np.rad2deg(expected):.3f}")
assert back[0] < 1e-6 and abs(back[1] - expected) < 1e-6

figure = new_figure(7.4, 3.9)
figure.suptitle("A frame is carried around a circle at 1 m/s", fontsize=12)
panels = [figure.add_subplot(1, 2, k + 1, projection="3d", computed_zorder=False) for k in range(2)]
figure.subplots_adjust(left=0.0, right=0.95, bottom=0.04, top=0.92, wspace=0.1)
LOOK = ("without torsion: it comes back unchanged", BLUE), ("with torsion: it comes back turned by ", RED)
SIZE = 0.3  # m, the length of an arrow


def draw_transport(number):
    """The frame after some steps, and the strip that one of its vectors left behind."""
    for axes, (title, shade), vectors, angle in zip(panels, LOOK, frames, back, strict=True):
        axes.cla()
        for vector in vectors:
            axes.plot(*np.stack([points[0], points[0] + SIZE * vector[0]]).T, color=GREY, lw=3.5, alpha=0.4)
        axes.plot(*points.T, color=GREY, lw=0.8)
        axes.plot(*points[: number + 1].T, color=BLACK, lw=1.6)
        edges = points[: number + 1], points[: number + 1] + SIZE * vectors[2, : number + 1]
        strip = np.stack([edges[0][:-1], edges[0][1:], edges[1][1:], edges[1][:-1]], axis=1)
        axes.add_collection3d(Poly3DCollection(strip, facecolor=shade, alpha=0.25, edgecolor=shade, lw=0.3))
        for vector, color in zip(vectors, (GREEN, OCHRE, shade), strict=True):
            axes.quiver(
                *points[number], *(SIZE * vector[number]), color=color, lw=2.2, arrow_length_ratio=0.3
            )
        axes.set(xlim=(-0.7, 0.8), ylim=(-0.7, 0.8), zlim=(-0.4, 0.4))
        axes.set_box_aspect((1.5, 1.5, 0.8), zoom=1.0)
        axes.set_xlabel("x [m]", labelpad=-4), axes.set_ylabel("y [m]", labelpad=-4)
        axes.set_zlabel("z [m]", labelpad=-6)
        axes.tick_params(labelsize=7, pad=-2)
        for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
            axis.set_major_locator(MultipleLocator(0.4))
        axes.view_init(28.0, -58.0)
        turned = f"{np.rad2deg(angle):.0f}°" if title.endswith("by ") else ""
        axes.set_title(title + turned, color=shade, fontsize=10, y=0.98)


write("frame_around_circle", figure, draw_transport, range(len(times)), pause=2.0)

# %%
# A robot's free motion
# ---------------------
#
# Without gravity and torques an arm follows a geodesic of its mass matrix: its kinetic energy is constant and
# its joint rates are not. The grey arm starts with the same velocity and keeps its joint rates, for which its
# motors have to work. Run backward, a geodesic is a geodesic again, so the film goes to and fro.

robot = mb.example("arm")
q, v = np.full(robot.nq, 0.3), np.ones(robot.nv)
moments = np.linspace(0.0, 1.2, 49)
free, rates = cn.geodesic(robot.connection, q, v, moments)
steady = q + moments[:, None] * v
energy = {
    name: 0.5 * np.einsum("ti,tij,tj->t", w, mb.mass_matrix(robot, path), w)
    for name, path, w in (("free", free, rates), ("steady", steady, np.broadcast_to(v, steady.shape)))
}
print(
    f"kinetic energy of the free arm: {energy['free'][0]:.3f} J, changes by {np.ptp(energy['free']):.0e} J;"
)
print(f"at constant joint rates: {energy['steady'].min():.3f} J to {energy['steady'].max():.3f} J")
assert np.ptp(energy["free"]) < 1e-6 * energy["free"][0] < np.ptp(energy["steady"])

tool = np.array([0.0, 0.0, -0.12, 1.0])  # m, the end of the last link


def skeleton(path):
    """The ground, the origins of all joints and the tool's end, (time, point, 3) [m]."""
    poses = mb.forward_kinematics(robot, path)
    joints = poses[:, :, :3, 3]
    end = (poses[:, -1] @ tool)[:, None, :3]
    return np.concatenate([np.zeros_like(end), joints, end], axis=1)


bones = {"free": skeleton(free), "steady": skeleton(steady)}
TICKS = (0.0, 0.3, 0.6)  # m
figure = new_figure(7.4, 3.9)
figure.suptitle("An arm moves without torques: a geodesic of its mass matrix", fontsize=12)
space = figure.add_axes((-0.02, 0.02, 0.52, 0.92), projection="3d", computed_zorder=False)
upper, lower = figure.add_axes((0.6, 0.55, 0.37, 0.33)), figure.add_axes((0.6, 0.14, 0.37, 0.3))


def draw_arm(number):
    """Both arms at one moment, and the curves up to it."""
    for axes in (space, upper, lower):
        axes.cla()
    for name, shade, width in (("steady", GREY, 2.5), ("free", BLUE, 4.0)):
        space.plot(*bones[name][: number + 1, -1].T, color=shade, lw=1.0)
        label = {"free": "free", "steady": "constant joint rates"}[name]
        space.plot(*bones[name][number].T, "o-", color=shade, lw=width, ms=width + 1.0, label=label)
        lower.plot(moments, energy[name], color=shade, lw=0.7)
        lower.plot(moments[: number + 1], energy[name][: number + 1], color=shade, lw=2.2)
    space.set(xlim=(-0.3, 0.7), ylim=(-0.2, 0.8), zlim=(0.0, 0.7), xticks=TICKS, yticks=TICKS, zticks=TICKS)
    space.set_box_aspect((1.0, 1.0, 0.7), zoom=0.95)
    space.set_xlabel("x [m]", labelpad=-4), space.set_ylabel("y [m]", labelpad=-4)
    space.set_zlabel("z [m]", labelpad=-6)
    space.tick_params(labelsize=7, pad=-2)
    space.view_init(22.0, -60.0)
    space.legend(loc="upper left", fontsize=8, frameon=False, reverse=True)
    for joint, joint_name in enumerate(robot.joint_names):
        color = (BLUE, RED, GREEN, OCHRE, VIOLET, BLACK)[joint]
        upper.plot(moments[: number + 1], rates[: number + 1, joint], color=color, lw=1.4, label=joint_name)
    upper.set(ylabel="joint rate [rad/s]", xlim=moments[[0, -1]], ylim=(-3.0, 4.5), xticklabels=())
    upper.legend(fontsize=7, ncols=3, frameon=False, loc="upper left")
    lower.set(ylabel="kinetic energy [J]", xlabel="time [s]", xlim=moments[[0, -1]], ylim=(0.0, 2.0))
    for axes in (upper, lower):
        axes.axvline(moments[number], color=BLACK, lw=0.8)
        axes.tick_params(labelsize=8)


to_and_fro = [*range(len(moments)), *range(len(moments) - 2, 0, -1)]
write("free_arm", figure, draw_arm, to_and_fro, pause=0.07)

# %%
# A snakeboard's gait
# -------------------
#
# The rider swings the rotor and turns the wheels, both once in 2 s. The board starts from rest and pushes
# against nothing, and its momentum along X_1, the rotation that the wheels allow, grows in every cycle.

CYCLES, PER_CYCLE = 3, 24
board = systems.Locomotion(systems.snakeboard().numeric(), driven=(3, 4))
gait = systems.snakeboard_gaits()["drive"]
motion = board.simulate(gait, gait.times(CYCLES, PER_CYCLE))
ride = plots.VehicleMotion("snakeboard", motion.times, motion.q)
steps = np.diff(motion.q[::PER_CYCLE, 0])
print("a snakeboard goes forward by", ", ".join(f"{step:.3f} m" for step in steps), "in its first cycles")
assert np.all(np.diff(steps) > 0.1)

figure = new_figure(7.4, 3.9)
figure.suptitle("A snakeboard starts from rest; only rotor and wheels are driven", fontsize=12)
plane = figure.add_axes((0.11, 0.54, 0.86, 0.36))
shape, growth = figure.add_axes((0.11, 0.14, 0.37, 0.26)), figure.add_axes((0.6, 0.14, 0.37, 0.26))
momentum = ride.sizes["m"] * ride.sizes["l"] ** 2 * np.asarray(motion.v)[:, 0]


def draw_ride(number):
    """The board at one moment, where it was after each cycle, and its shape."""
    for axes in (plane, shape, growth):
        axes.cla()
    plane.plot(*ride.path[: number + 1].T, color=GREY, lw=1.2)
    for start in range(0, number, PER_CYCLE):
        plots.vehicles.draw_vehicle(plane, "snakeboard", ride.q[start], ride.sizes, 0.1)
    plots.vehicles.draw_vehicle(plane, "snakeboard", ride.q[number], ride.sizes)
    plane.set(xlabel="x [m]", ylabel="y [m]", xlim=(-0.3, 1.75), ylim=(-0.2, 0.2), aspect="equal")
    curves = (
        (shape, ride.q[:, 3], RED, "rotor"),
        (shape, ride.q[:, 4], BLACK, "wheels"),
        (growth, momentum, BLUE, ""),
    )
    for axes, values, color, label in curves:
        axes.plot(ride.times, values, color=color, lw=0.7)
        axes.plot(ride.times[: number + 1], values[: number + 1], color=color, lw=2.2, label=label)
    shape.set(xlabel="time [s]", ylabel="angle [rad]", xlim=ride.times[[0, -1]], ylim=(-0.9, 1.5))
    shape.legend(fontsize=8, ncols=2, loc="upper right", frameon=False)
    growth.set(xlabel="time [s]", ylabel="momentum\n[kg m²/s]", xlim=ride.times[[0, -1]])
    for axes in (shape, growth):
        axes.axvline(ride.times[number], color=BLACK, lw=0.8)
    for axes in (plane, shape, growth):
        axes.grid(alpha=0.3)
        axes.tick_params(labelsize=8)


write("snakeboard_drives", figure, draw_ride, range(len(ride.times)), pause=1.5, rate=12)
