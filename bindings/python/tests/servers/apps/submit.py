# SPDX-License-Identifier: MIT
"""submit.py NUMBER SECONDS - send tasks and print as JSON which amounts were sent and done."""

import json
import random
import sys
import time

import tasks

amounts = [random.randrange(1, 1001) for _ in range(int(sys.argv[1]))]
waiting = [(amount, tasks.work.delay(amount)) for amount in amounts]
until = time.monotonic() + float(sys.argv[2])
done = []
while waiting and time.monotonic() < until:
    time.sleep(0.1)
    seen = [(amount, result, result.state) for amount, result in waiting]
    done += [amount for amount, _, state in seen if state == "SUCCESS"]
    waiting = [(amount, result) for amount, result, state in seen if state == "PENDING"]
print(json.dumps({"sent": amounts, "answered": done}))
