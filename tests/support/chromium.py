"""A headless Chromium that opens nothing but this machine's pages, for the tests of the explorer."""

from __future__ import annotations

import io
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import viser
from PIL import Image

CHANGED = 0.002  # of the pixels of a picture
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--hide-scrollbars",
)


def require_chromium() -> None:
    """Skip the test where there is no browser; fail it where the variable CI is set."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if missing:
        reason = f"{' and '.join(missing)} not installed: apt-get install chromium chromium-driver"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


@contextmanager
def browser(folder: Path, width: int = 1120, height: int = 600) -> Iterator[Any]:
    """A browser with an empty profile in `folder`; its console is kept."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*FLAGS, f"--user-data-dir={folder}", f"--window-size={width},{height}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    no_proxy = os.environ.get("no_proxy", "")
    os.environ["no_proxy"] = ",".join(filter(None, (no_proxy, "127.0.0.1", "localhost")))
    driver = webdriver.Chrome(options, Service(str(shutil.which("chromedriver"))))
    try:
        driver.set_page_load_timeout(60)
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        yield driver
    finally:
        driver.quit()


class Window:
    """The explorer's page as a person has it before them: words, controls by their labels, the picture.

    Parameters
    ----------
    driver : the browser.
    url : of the page.
    resolution : pixels of the scene per pixel of the page; few, as there is no graphics card.
    """

    def __init__(self, driver: Any, url: str, resolution: float = 0.5) -> None:
        self.driver = driver
        driver.get(f"{url}&fixedDpr={resolution}")  # the resolution does not follow the machine's load

    @property
    def text(self) -> str:
        """All words that are seen."""
        return self.driver.execute_script("return document.body.innerText")

    def wait(self, what: str | Callable[[str], Any], seconds: float = 120.0) -> Any:
        """Until words are seen, or until a function of all words returns something true."""
        seen = (lambda text: what in text) if isinstance(what, str) else what
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            answer = seen(self.text)
            if answer:
                return answer
            time.sleep(0.1)
        raise AssertionError(f"not seen within {seconds:g} s: {what}. The page says: {self.text}")

    def number(self, pattern: str) -> float:
        """The number in parentheses of a regular expression, among the words."""
        return float(self.wait(lambda text: re.search(pattern, text))[1].replace("\u2212", "-"))

    def control(self, label: str) -> Any:
        """What the label belongs to."""
        owner = self.driver.find_element("xpath", f"//label[normalize-space()='{label}']").get_attribute(
            "for"
        )
        return self.driver.find_element("id", owner)

    def act(self, find: Callable[[], Any], does: Callable[[Any], None], seconds: float = 20.0) -> None:
        """Do something with what is found, once it can be done: folders unfold, notes slide away."""
        from selenium.common import exceptions
        from selenium.webdriver.support.wait import WebDriverWait

        passing = (
            exceptions.ElementNotInteractableException,
            exceptions.ElementClickInterceptedException,
            exceptions.StaleElementReferenceException,
        )
        WebDriverWait(self.driver, seconds, 0.1, passing).until(lambda _: does(find()) is None)

    def click(self, words: str) -> None:
        """Click what says these words."""
        self.act(
            lambda: self.driver.find_element("xpath", f"//*[normalize-space()='{words}']"),
            lambda found: found.click(),
        )

    def press(self, label: str) -> None:
        """Click what the label belongs to."""
        self.act(lambda: self.control(label), lambda found: found.click())

    def slide(self, label: str, *keys: str) -> float:
        """Press keys on a slider, and where it then stands."""
        self.act(
            lambda: self.control(label).find_element("css selector", "[role=slider]"),
            lambda found: found.send_keys(*keys),
        )
        return self.standing(label)

    def standing(self, label: str) -> float:
        """Where a slider stands."""
        thumb = self.control(label).find_element("css selector", "[role=slider]")
        return float(thumb.get_attribute("aria-valuenow"))

    def choose(self, label: str, option: str) -> None:
        """Choose from a list."""
        self.press(label)
        end = time.monotonic() + 10.0
        while time.monotonic() < end:
            for item in self.driver.find_elements("css selector", "[role=option]"):
                if item.is_displayed() and item.text == option:
                    item.click()
                    return
            time.sleep(0.1)
        raise AssertionError(f"{label}: there is no {option}")

    def close_warnings(self) -> None:
        """Close the note that there is no graphics card."""
        for button in self.driver.find_elements("css selector", ".mantine-Notification-closeButton"):
            button.click()

    def picture(self) -> np.ndarray:
        """The scene, (height, width, 3), without the panels."""
        canvas = self.driver.find_element("css selector", "canvas[data-engine]")
        image = Image.open(io.BytesIO(canvas.screenshot_as_png)).convert("RGB")
        return np.asarray(image, dtype=np.int16)

    def picture_changes(self, before: np.ndarray, seconds: float = 20.0) -> bool:
        """Whether the scene becomes another than `before` within the time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if differing(before, self.picture()) > CHANGED:
                return True
            time.sleep(0.2)
        return False

    def can_talk_to(self, server: Any) -> str:
        """Whether the page that is shown, of whatever site, can open the WebSocket of an explorer."""
        return self.driver.execute_async_script(
            """const [port, version, done] = arguments;
            const socket = new WebSocket(`ws://127.0.0.1:${port}/`, [`viser-v${version}`]);
            socket.onopen = () => { socket.close(); done("open"); };
            socket.onerror = () => done("refused");""",
            server.port,
            viser.__version__,
        )

    def complaints(self) -> list[str]:
        """What the console has said: errors only."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]


def differing(first: np.ndarray, second: np.ndarray) -> float:
    """The part of the pixels that clearly differ."""
    return float((np.abs(first - second).max(axis=2) > 40).mean())
