"""Figures: those of the papers, and the graphs of mechanisms."""

from connections.plots.mechanisms import figure_mechanism
from connections.plots.paper import (
    figure_3,
    figure_6,
    figure_7,
    figure_spectra,
    figure_states,
    figure_sweep,
    four_contorsions,
    transported_frames,
    write_exploration,
    write_figures,
)

__all__ = [
    "figure_3",
    "figure_6",
    "figure_7",
    "figure_mechanism",
    "figure_spectra",
    "figure_states",
    "figure_sweep",
    "four_contorsions",
    "transported_frames",
    "write_exploration",
    "write_figures",
]
