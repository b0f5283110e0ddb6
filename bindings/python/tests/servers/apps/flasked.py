# SPDX-License-Identifier: MIT
"""An app of Flask; prometheus_client's own WSGI app serves the metrics."""

import counted
from flask import Flask, request
from prometheus_client import make_wsgi_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware

app = Flask(__name__)


@app.get("/count")
def count() -> str:
    """Count a request."""
    return counted.count(request.path, int(request.args["amount"]))


@app.get("/load")
def load() -> str:
    """Count a request of the load."""
    return count()


@app.get("/hold")
def hold() -> str:
    """Stay in flight."""
    return counted.hold()


metrics = make_wsgi_app(counted.registry())
app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/metrics": metrics})  # type: ignore[method-assign]
