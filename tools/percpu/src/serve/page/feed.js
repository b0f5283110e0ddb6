// SPDX-License-Identifier: MIT
// The connection to the server: events, one after the other, and again when it was lost.

/** Without an event for so long, the connection is lost. */
const SILENCE = 6000;
const AGAIN = [1000, 1000, 2000, 3000, 5000];

function sleep(ms) {
  return new Promise((done) => {
    setTimeout(done, ms);
  });
}

export class Feed {
  /** `take` gets each message, and `tell` gets "live" or "lost", and why. */
  constructor(take, tell) {
    this.take = take;
    this.tell = tell;
    this.abort = null;
  }

  get running() {
    return this.abort !== null;
  }

  start() {
    if (this.abort) return;
    this.abort = new AbortController();
    this.run(this.abort);
  }

  stop() {
    this.abort?.abort();
    this.abort = null;
  }

  async run(abort) {
    for (let failures = 0; !abort.signal.aborted; failures += 1) {
      let why = "the server does not answer";
      const got = () => {
        failures = -1;
      };
      try {
        why = await this.read(abort, got);
      } catch {
        // The network has failed, or it was silent for too long.
      }
      if (abort.signal.aborted) return;
      this.tell("lost", why);
      await sleep(AGAIN[Math.min(Math.max(failures, 0), AGAIN.length - 1)]);
    }
  }

  async read(abort, got) {
    const once = new AbortController();
    const stop = () => once.abort();
    abort.signal.addEventListener("abort", stop);
    let timer = setTimeout(stop, SILENCE);
    try {
      const answer = await fetch("events", { signal: once.signal, cache: "no-store" });
      if (!answer.ok) return (await answer.text()).slice(0, 200).trim() || `status ${answer.status}`;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let parts = [];
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return "the server has closed the connection";
        clearTimeout(timer);
        timer = setTimeout(stop, SILENCE);
        parts.push(value);
        // An event ends with an empty line, and has no other.
        if (!value.endsWith("\n") && !value.includes("\n\n")) continue;
        const events = parts.join("").split("\n\n");
        parts = [events.pop()];
        for (const event of events) {
          if (abort.signal.aborted) return "";
          got();
          this.take(JSON.parse(event.slice("data: ".length)));
          this.tell("live", "");
        }
      }
    } finally {
      clearTimeout(timer);
      abort.signal.removeEventListener("abort", stop);
      once.abort();
    }
  }
}
