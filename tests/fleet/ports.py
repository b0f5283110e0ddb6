# SPDX-License-Identifier: MIT
"""ports.py - ports of this machine."""

import socket


def free_port():
    """Return a port of 127.0.0.1 that nobody uses now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
