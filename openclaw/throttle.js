// Fewer progress updates than a stream has events: the first, the last, and between them at most ten a second.
const INTERVAL_MS = 100;

/** Decides which values pass. Time is a parameter, in milliseconds; values that come too early wait and replace each other. */
export class Throttle {
  #intervalMs;
  #nextAt = -Infinity;
  #waiting = [];

  constructor(intervalMs = INTERVAL_MS) {
    this.#intervalMs = intervalMs;
  }

  /** The values to deliver now, none or one. */
  offer(value, now) {
    this.#waiting = [value];
    return this.due(now);
  }

  /** The waiting value, once its time has come. */
  due(now) {
    if (now < this.#nextAt) return [];
    if (this.#waiting.length > 0) this.#nextAt = now + this.#intervalMs;
    return this.drain();
  }

  /** The waiting value, whatever the time. */
  drain() {
    const values = this.#waiting;
    this.#waiting = [];
    return values;
  }

  /** Milliseconds until a waiting value is due; `undefined` when none waits. */
  waitMs(now) {
    return this.#waiting.length > 0 ? Math.max(0, this.#nextAt - now) : undefined;
  }
}

/**
 * A throttled sink over `deliver`: `offer(value)` for each update, `finish()` before the result is handed over, `stop()`
 * in any case. After `stop` nothing is delivered.
 */
export function throttled(deliver, throttle = new Throttle(), clock = () => performance.now()) {
  let timer;
  let stopped = false;

  function hand(values) {
    for (const value of values) {
      try {
        deliver(value);
      } catch {
        // Progress that cannot be shown must not cost the call its result, let alone end the process.
      }
    }
  }

  function pass(values) {
    if (stopped) return;
    hand(values);
    if (timer) return;
    const wait = throttle.waitMs(clock());
    if (wait === undefined) return;
    timer = setTimeout(() => {
      timer = undefined;
      pass(throttle.due(clock()));
    }, wait);
    timer.unref();
  }

  return {
    offer: (value) => pass(throttle.offer(value, clock())),
    async finish() {
      // Updates and the result come over separate queues; one turn of the event loop lets the updates catch up.
      await new Promise(setImmediate);
      if (!stopped) hand(throttle.drain());
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
