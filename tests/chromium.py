"""A headless Chromium that opens nothing but this machine's pages, for the tests of the explorer."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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


def reason_to_skip() -> str:
    """Why there is no browser to test with; empty if there is one."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(missing)} not installed" if missing else ""


@contextmanager
def browser(folder: Path, width: int = 1280, height: int = 800) -> Iterator[Any]:
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


def complaints(driver: Any) -> list[str]:
    """What the console has said since it was last asked: errors only."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
