# SPDX-License-Identifier: MIT
"""Tests of the drop-in under servers whose workers are replaced and killed: ./dev test --servers."""
