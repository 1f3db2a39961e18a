"""What sphinx-gallery is told: which examples, in which order, and which pictures and films are theirs.

`python docs/gallery_build.py` prints the names, one a line; `.ci/run` leaves these to the documentation.
"""

import shutil
import tempfile
from pathlib import Path

#: The gallery, in the order in which it is shown.
EXAMPLES = (
    "what_torsion_does",
    "films",
    "foucault",
    "spinning_body",
    "contorsion_tracking",
    "explore_a_family",
    "four_bar",
    "collision_observer",
    "snakeboard_gait",
    "controllability",
    "lqr_balancing",
    "bos_validation",
    "robot_postures",
    "sweep_of_torsion",
)


class Order:
    """The place of an example's file in the gallery."""

    def __init__(self, src_dir):
        self.src_dir = src_dir

    def __call__(self, filename):
        """Return the place; examples outside the gallery are asked for too."""
        name = Path(filename).stem
        return EXAMPLES.index(name) if name in EXAMPLES else len(EXAMPLES)

    def __repr__(self):
        return "<Order>"  # the same in every build, so that unchanged pages are not built again


def arguments(gallery_conf, script_vars):
    """Arguments of a script: a new folder for what it writes."""
    script_vars["folder"] = tempfile.mkdtemp(prefix="connections-gallery-")
    return [script_vars["folder"]]


def figures(block, block_vars, gallery_conf):
    """The pictures and films that the script wrote, as images of its page."""
    from sphinx_gallery.scrapers import figure_rst

    folder = Path(block_vars["folder"])
    written = sorted([*folder.glob("*.png"), *folder.glob("*.gif")])
    blocks = []
    for path, numbered in zip(written, block_vars["image_path_iterator"], strict=False):
        image = Path(numbered).with_suffix(path.suffix)
        shutil.move(path, image)
        alternative = path.stem.replace("_", " ")
        blocks.append(figure_rst([str(image)], gallery_conf["src_dir"], alternative))
    return "\n".join(
        blocks
    )  # one block each: at the width of the page, below one another


if __name__ == "__main__":
    print(*EXAMPLES, sep="\n")
