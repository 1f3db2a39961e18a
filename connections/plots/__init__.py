"""Figures: those of the papers, graphs of mechanisms, motions, filters, vehicles, errors of differences."""

from connections._moved import keep_old_names
from connections.plots.filters import figure_history
from connections.plots.linearization import StepSweep, figure_convergence
from connections.plots.mechanisms import figure_mechanism
from connections.plots.motions import figure_motion
from connections.plots.paper import (
    figure_lyapunov,
    figure_spectra,
    figure_states,
    figure_sweep,
    figure_trajectories,
    write_all,
    write_exploration,
    write_figures,
)
from connections.plots.paths import figure_path, figure_phase
from connections.plots.transport import figure_transport, four_contorsions, transported_frames
from connections.plots.vehicles import VehicleMotion, draw_motion, draw_shape, draw_vehicle

__all__ = [
    "StepSweep",
    "VehicleMotion",
    "draw_motion",
    "draw_shape",
    "draw_vehicle",
    "figure_transport",
    "figure_trajectories",
    "figure_lyapunov",
    "figure_convergence",
    "figure_history",
    "figure_mechanism",
    "figure_motion",
    "figure_path",
    "figure_phase",
    "figure_spectra",
    "figure_states",
    "figure_sweep",
    "four_contorsions",
    "transported_frames",
    "write_all",
    "write_exploration",
    "write_figures",
]

#: What rooms above import of this one besides its public names: file -> names.
_OFFERS = {
    "scene": "Scene figure_scene",
}

keep_old_names(__name__)
