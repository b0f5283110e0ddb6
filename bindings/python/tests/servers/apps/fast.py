# SPDX-License-Identifier: MIT
"""An app of FastAPI, with a call that runs in the loop and one that runs in a thread."""

import counted
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from prometheus_client import make_asgi_app

app = FastAPI()


@app.get("/count", response_class=PlainTextResponse)
async def count(amount: int) -> str:
    """Count a request in the loop."""
    return counted.count("/count", amount)


@app.get("/load", response_class=PlainTextResponse)
def load(amount: int) -> str:
    """Count a request in a thread."""
    return counted.count("/load", amount)


@app.get("/hold", response_class=PlainTextResponse)
def hold() -> str:
    """Stay in flight in a thread."""
    return counted.hold()


app.mount("/metrics", make_asgi_app(counted.registry()))
