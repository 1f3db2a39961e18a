"""What sphinx-gallery is told: which examples, in which order, and which pictures and films are theirs.

`python docs/gallery_build.py` prints the names, one a line; `.ci/run` leaves these to the documentation.
`python docs/gallery_build.py docs/gallery/images` makes the thumbnails from the pictures of the last build.
They are files of the repository, because `examples/README.md` shows them, too.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

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
    "identification",
    "snakeboard_gait",
    "controllability",
    "lqr_balancing",
    "bos_validation",
    "robot_postures",
    "sweep_of_torsion",
    "swing_up",
    "torsion_monte_carlo",
    "parallel_ankle",
    "newton_swing",
    "minimum_effort",
    "torsion_on_arms",
    "how_curved_is_a_robot",
)

THUMBNAILS = Path(__file__).parent / "figures" / "thumbnails"

#: What a thumbnail shows of an example's first picture: left, top, right and bottom, as shares of width and
#: height. A whole figure of several panels cannot be read at this size.
SHOWN = {
    "what_torsion_does": (0.0, 0.0, 0.52, 1.0),
    "films": (0.5, 0.08, 1.0, 0.97),
    "explore_a_family": (0.0, 0.0, 0.5, 0.5),
    "four_bar": (0.0, 0.0, 0.34, 1.0),
    "collision_observer": (0.0, 0.0, 0.335, 1.0),
    "identification": (0.0, 0.0, 0.335, 1.0),
    "snakeboard_gait": (0.0, 0.33, 0.66, 1.0),
    "lqr_balancing": (0.0, 0.5, 0.29, 1.0),
    "bos_validation": (0.0, 0.0, 0.53, 1.0),
    "robot_postures": (0.0, 0.5, 0.42, 1.0),
    "sweep_of_torsion": (0.67, 0.08, 1.0, 1.0),
    "swing_up": (0.0, 0.0, 0.24, 1.0),
    "newton_swing": (0.0, 0.0, 0.355, 1.0),
    "minimum_effort": (0.0, 0.0, 0.56, 1.0),
    "torsion_monte_carlo": (0.345, 0.0, 0.675, 1.0),
    "torsion_on_arms": (0.0, 0.0, 0.69, 0.5),
    "how_curved_is_a_robot": (0.0, 0.0, 0.5, 0.5),
    "parallel_ankle": (0.0, 0.0, 0.33, 1.0),
}


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

    thumbnail = THUMBNAILS / Path(block_vars["src_file"]).with_suffix(".png").name
    if thumbnail.exists():  # not yet for a new example
        relative = thumbnail.relative_to(Path(__file__).parent)
        block_vars["file_conf"]["thumbnail_path"] = relative.as_posix()
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


def write_thumbnails(pictures):
    """Cut the thumbnails out of the pictures of a built gallery."""
    from PIL import Image

    THUMBNAILS.mkdir(exist_ok=True)
    for name in EXAMPLES:
        (path, *_) = sorted(pictures.glob(f"sphx_glr_{name}_001.*"))
        with Image.open(path) as picture:
            picture.seek(getattr(picture, "n_frames", 1) - 1)  # a film's last frame
            box = np.tile(picture.size, 2) * SHOWN.get(name, (0.0, 0.0, 1.0, 1.0))
            part = picture.convert("RGB").crop(tuple(box.round().astype(int).tolist()))
        part.thumbnail((400, 280), Image.Resampling.LANCZOS)
        paper = Image.new("RGB", (400, 280), "white")
        paper.paste(part, ((400 - part.width) // 2, (280 - part.height) // 2))
        paper.quantize(128, Image.Quantize.MAXCOVERAGE).save(
            THUMBNAILS / f"{name}.png", optimize=True
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write_thumbnails(Path(sys.argv[1]))
    else:
        print(*EXAMPLES, sep="\n")
