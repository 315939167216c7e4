# SPDX-License-Identifier: BSD-3-Clause
"""browser.py - a headless Chromium that shows a page, with the actions of a user."""
import contextlib
import importlib.util
import os
import shutil
import sys
import time

DEBIAN = "/usr/bin/python3"  # has Debian's modules for this interpreter
PATIENCE_S = 60
# Wait until the canvas is painted and the panels are updated.
PAINTED = "return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def missing():
    """What is not installed of the requirements; None: nothing."""
    if not shutil.which("chromium"):
        return "chromium"
    if not shutil.which("chromedriver"):
        return "chromium-driver"
    if not importlib.util.find_spec("selenium"):
        return "python3-selenium"
    return None


def with_selenium():
    """Restart in a Python that has the module, if there is one."""
    if importlib.util.find_spec("selenium") or sys.executable == DEBIAN:
        return
    if os.path.exists("/usr/lib/python3/dist-packages/selenium"):
        os.execv(DEBIAN, [DEBIAN, *sys.argv])


class Browser:
    """One window."""

    def __init__(self, shots, width=1440, height=980):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                         "--disable-dev-shm-usage", "--disable-background-networking",
                         "--no-first-run", f"--window-size={width},{height}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")),
                                       options=options)
        self.shots = shots
        os.makedirs(shots, exist_ok=True)

    def close(self):
        self.driver.quit()

    def open(self, address):
        self.driver.get(address)

    def run(self, script, *arguments):
        """The return value of a script in the page."""
        return self.driver.execute_script(script, *arguments)

    def until(self, script, *arguments, what=None):
        """Poll until a script in the page returns something true; returns that."""
        end = time.monotonic() + PATIENCE_S
        while True:
            value = self.run(script, *arguments)
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"it does not come: {what or script}")
            time.sleep(0.05)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def text(self, selector):
        """The text of an element, up to date: panels follow with the next frame."""
        self.run(PAINTED)
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def click(self, selector):
        self.find(selector).click()

    def click_at(self, x, y):
        """Click a point of the canvas."""
        from selenium.webdriver.common.action_chains import ActionChains
        canvas = self.find("#canvas")
        size = canvas.size
        ActionChains(self.driver).move_to_element_with_offset(
            canvas, x - size["width"] / 2, y - size["height"] / 2).click().perform()

    def keys(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys
        chain = ActionChains(self.driver)
        for key in keys:
            chain.send_keys(getattr(Keys, key) if len(key) > 1 else key)
        chain.perform()

    def back(self, key):
        """A key with Shift."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys
        ActionChains(self.driver).key_down(Keys.SHIFT).send_keys(getattr(Keys, key)).key_up(
            Keys.SHIFT).perform()

    def size(self, width, height):
        """Set the size of the page in pixels, even below the smallest size of a window."""
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})

    def prefers(self, scheme):
        """Set the system's preference: light or dark."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def shot(self, name):
        self.driver.save_screenshot(os.path.join(self.shots, name + ".png"))

    def complaints(self):
        """Errors that the browser reported about the page."""
        with contextlib.suppress(Exception):
            return [entry["message"] for entry in self.driver.get_log("browser")]
        return []
