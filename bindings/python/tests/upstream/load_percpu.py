# SPDX-License-Identifier: MIT
"""A plugin of pytest: the drop-in is loaded and not switched on."""

import percpu_prometheus  # noqa: F401
