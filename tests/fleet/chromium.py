# SPDX-License-Identifier: MIT
"""chromium.py - drive a headless Chromium by its DevTools protocol, over a pair of pipes."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

SECONDS = 30
KEYS = {
    "Enter": 13,
    "Escape": 27,
    " ": 32,
    "PageDown": 34,
    "End": 35,
    "Home": 36,
    "ArrowUp": 38,
    "ArrowDown": 40,
    "Tab": 9,
}


def program() -> str | None:
    """Return where a Chromium is, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Pipe:
    """Messages to a browser, and from it."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, back: int) -> None:
        self.process, self.to, self.back = process, to, back
        self.read, self.number = b"", 0
        self.events: list[dict[str, Any]] = []

    def receive(self, seconds: float) -> dict[str, Any] | None:
        """Return the next message; None: there was none for so long."""
        end = time.monotonic() + seconds
        while b"\0" not in self.read:
            left = max(0.0, end - time.monotonic())
            if not select.select([self.back], [], [], left)[0]:
                return None
            more = os.read(self.back, 1 << 20)
            assert more, "the browser has ended"
            self.read += more
        message, _, self.read = self.read.partition(b"\0")
        result: dict[str, Any] = json.loads(message)
        return result

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Call a method, and return its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            answer = self.receive(end - time.monotonic())
            if answer and answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            if answer:
                self.events.append(answer)
        raise AssertionError(f"the browser does not answer {method}")


class Tab:
    """A page in the browser."""

    def __init__(self, pipe: Pipe, width: int, height: int, scheme: str) -> None:
        self.pipe = pipe
        target = pipe.call("Target.createTarget", url="about:blank")["targetId"]
        attach = pipe.call("Target.attachToTarget", targetId=target, flatten=True)
        self.target, self.session = target, attach["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")
        self.look(width, height, scheme)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.pipe.call(method, self.session, **parameters)

    def look(self, width: int, height: int, scheme: str) -> None:
        """Set the size of the window, and whether the user likes it dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.call("Emulation.setEmulatedMedia", features=features)

    def go(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def js(self, code: str) -> Any:
        """Return what an expression of JavaScript gives."""
        options = {"returnByValue": True, "awaitPromise": True}
        result = self.call("Runtime.evaluate", expression=code, **options)
        assert "exceptionDetails" not in result, f"{code[:200]}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def until(self, code: str, seconds: float = SECONDS) -> Any:
        """Wait until an expression gives something true, and return that, or true for an element."""
        code = f"(() => {{ const it = {code}; return it instanceof Node || it; }})()"
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.js(code)
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(
            f"not within {seconds} s: {code}; {self.js('document.body.innerText')}"
        )

    def key(self, key: str) -> None:
        text = {"Enter": "\r", "Escape": "", "Tab": ""}.get(key, key if len(key) == 1 else "")
        codes = {"key": key, "windowsVirtualKeyCode": KEYS.get(key, 0)}
        kind = "keyDown" if text else "rawKeyDown"
        self.call("Input.dispatchKeyEvent", type=kind, text=text, **codes)
        self.call("Input.dispatchKeyEvent", type="keyUp", **codes)

    def keys(self, text: str) -> None:
        for key in text:
            self.key(key)

    def picture(self, path: str) -> None:
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def said(self) -> list[str]:
        """Return errors and warnings on the console, and exceptions."""
        out = []
        for event in self.mine():
            method, parameters = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                out.append(str(parameters["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled" and parameters["type"] != "log":
                out.append(str(parameters["args"]))
            elif method == "Log.entryAdded":
                out.append(parameters["entry"]["text"])
        return out

    def asked(self) -> list[str]:
        """Return the addresses that the page asked for."""
        sent = (e for e in self.mine() if e["method"] == "Network.requestWillBeSent")
        return [e["params"]["request"]["url"] for e in sent]

    def mine(self) -> list[dict[str, Any]]:
        self.js("0")  # what happened before is known now
        return [e for e in self.pipe.events if e.get("sessionId") == self.session]

    def close(self) -> None:
        self.pipe.call("Target.closeTarget", targetId=self.target)
        self.pipe.events.clear()


@contextlib.contextmanager
def browser() -> Iterator[Pipe]:
    """Run a browser that keeps nothing."""
    path = program()
    assert path, "there is no Chromium"
    read, to = os.pipe()
    back, write = os.pipe()
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    options += ["--disable-background-networking", "--remote-debugging-pipe"]
    with tempfile.TemporaryDirectory() as directory:
        command = [path, *options, f"--user-data-dir={directory}", "about:blank"]
        script = f'exec "$@" 3<&{read} 4>&{write}'
        process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(read, write),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        pipe = Pipe(process, to, back)
        try:
            yield pipe
        finally:
            with contextlib.suppress(AssertionError, OSError):
                pipe.call("Browser.close")
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
            os.close(to)
            os.close(back)
            time.sleep(0.2)  # its children write into the folder until they end
