"""A real browser, controlled over the DevTools protocol."""

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-dev-shm-usage", "--disable-extensions", "--remote-debugging-pipe",
)  # fmt: skip
# The browser reads from file descriptor 3 and writes to 4.
START = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3])
os.dup2(read, 3), os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """A browser with one page in it."""

    def __init__(self, folder):
        theirs, self.write = os.pipe()
        self.read, answers = os.pipe()
        self.log = (folder / "browser.log").open("wb")
        flags = [*FLAGS, f"--user-data-dir={folder / 'profile'}"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(theirs), str(answers), CHROMIUM, *flags],
            pass_fds=(theirs, answers),
            stdout=self.log,
            stderr=self.log,
        )
        os.close(theirs)
        os.close(answers)
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """Ask, and wait for the answer."""
        self.number += 1
        asked = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            asked["sessionId"] = self.session
        os.write(self.write, json.dumps(asked).encode() + b"\0")
        while True:
            said = self._next(30)
            if said.get("id") == self.number:
                assert "error" not in said, (method, said)
                return said["result"]

    def _next(self, seconds):
        until = time.monotonic() + seconds
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.read], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"the browser said nothing for {seconds} s"
            more = os.read(self.read, 1 << 20)
            assert more, "the browser has ended"
            self.rest += more
        said, _, self.rest = self.rest.partition(b"\0")
        said = json.loads(said)
        if "method" in said:
            self.events.append(said)
        return said

    def js(self, expression):
        """What an expression is, once its promise is kept."""
        done = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, condition, seconds=20):
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.js(condition):
            assert time.monotonic() < end, f"never: {condition}"
            time.sleep(0.05)

    def look(self, width=1100, height=900, night=False):
        """How wide the window is, and whether the reader prefers it dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if night else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def load(self, path):
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._next(30)

    def open(self, path, **looks):
        self.look(**looks)
        self.load(path)
        self.settle()

    def settle(self):
        """Wait until everything has been drawn."""
        drawn = "[...document.querySelectorAll('.plot')].every((p) => p.querySelector('.main-svg') && p._fullLayout"
        self.until(f"{drawn} && p._fullLayout.width === p.clientWidth)")

    def press(self, key, code, text=""):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text)

    def errors(self):
        """What the console complained about."""
        told = []
        for event in self.events:
            what = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                told.append(what["exceptionDetails"])
            if event["method"] == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
                told.append(what["args"])
            if event["method"] == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
                told.append(what["entry"])
        return told

    def asked(self):
        """Every address that was asked for."""
        found = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in found if not url.startswith(("data:", "blob:"))]

    def close(self):
        with contextlib.suppress(AssertionError, OSError):
            self.session = None
            self.call("Browser.close")
        self.process.wait(20)
        for fd in (self.write, self.read):
            os.close(fd)
        self.log.close()


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("there is no chromium on the PATH")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        made = Browser(Path(folder))
        yield made
        made.close()
