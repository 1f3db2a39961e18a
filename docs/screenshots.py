"""Pictures of the explorer for docs/explorer.md, taken in a headless Chromium.

Run: python docs/screenshots.py [DIRECTORY] (docs/figures by default). Needs chromium, chromedriver and the
packages of the extra ``test``.
"""

import io
import re
import sys
import tempfile
import time
import warnings
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from chromium import Window, browser  # noqa: E402
from robots import robot_path  # noqa: E402

from connections import explorer  # noqa: E402
from connections import multibody as mb  # noqa: E402

SIZE = (1500, 830)  # pixels
LEFT, RIGHT, HOME, PAGE_UP = "\ue012", "\ue014", "\ue011", "\ue00e"


def save(window, path):
    """The whole page, in few colours: a small file."""
    time.sleep(3.0)  # the last picture is drawn
    image = Image.open(io.BytesIO(window.driver.get_screenshot_as_png())).convert("RGB")
    image.quantize(192, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path, path.stat().st_size // 1024, "kB", window.complaints())


def open_page(driver, url, seen):
    """The page once `seen` is seen, without the note that there is no graphics card."""
    window = Window(driver, url, 1.0)
    window.wait(seen)
    window.close_warnings()
    return window


def views_of_space(folder, profile):
    """The three views of R^3."""
    with explorer.serve(port=0) as server, browser(profile, *SIZE) as driver:
        window = open_page(driver, server.url, "turn over 4 m")
        save(window, folder / "explorer_frames.png")
        window.choose("view", "The open parallelogram")
        window.wait("ratio")
        save(window, folder / "explorer_parallelogram.png")
        window.choose("view", "The controlled point mass")
        window.wait("zero crossings of v_z")
        window.slide("beta [kg/m]", *([LEFT] * 60))
        window.wait(lambda text: re.search(r"β = -5\s", text))
        save(window, folder / "explorer_point_mass.png")


def view_of_a_metric(folder, profile):
    """The torus of docs/explorer.md."""
    page = (ROOT / "docs" / "explorer.md").read_text()
    program = re.search(r"```python\n(import jax.*?)```", page, re.DOTALL)[1]
    namespace = {}
    exec(program, namespace)
    with (
        explorer.serve(system=namespace["torus"], name="torus", port=0) as server,
        browser(profile, *SIZE) as driver,
    ):
        window = open_page(driver, server.url, "Gauss's curvature")
        save(window, folder / "explorer_torus.png")


def view_of_a_robot(folder, profile, path, name, picture, floating_base=False):
    """A robot in the middle of its motion."""
    model = mb.from_urdf(path, floating_base=floating_base)
    with (
        explorer.serve(model, name, port=0, urdf=path) as server,
        browser(profile, *SIZE) as driver,
    ):
        window = open_page(driver, server.url, "angle between the two at the end")
        save(window, folder / picture)


def main():
    """All pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "figures"
    warnings.simplefilter("ignore")  # inertias of published robots
    six_bar = ROOT / "tests" / "data" / "urdf_plus" / "six_bar.urdf"
    robots = (
        (robot_path("ur5"), "ur5", "explorer_robot.png"),
        (robot_path("go2_description/urdf/go2.urdf"), "go2", "explorer_quadruped.png"),
        (six_bar, "six_bar", "explorer_loops.png"),
    )
    with tempfile.TemporaryDirectory() as profiles:
        views_of_space(folder, Path(profiles, "space"))
        view_of_a_metric(folder, Path(profiles, "metric"))
        for path, name, picture in robots:
            view_of_a_robot(
                folder, Path(profiles, name), path, name, picture, name == "go2"
            )


if __name__ == "__main__":
    main()
