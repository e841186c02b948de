// Where the session is: in a server on this machine (`ccp play --browser`), or in a worker of this page (the playground).
// Both take and give the messages of `Session` in experiments/play/session.py.

const HUNG_S = 6; // without an answer; then the worker is replaced
const FIRST_S = 30; // for the first version of the first worker, which imports modules; twice that for the next worker
const SLOWER = 4; // than its slowest answer so far: the minimum time a worker has

export class Server {
  constructor({ events, messages }, receive) {
    this.messages = messages;
    const stream = new EventSource(events);
    stream.onmessage = ({ data }) => receive(JSON.parse(data));
    stream.onerror = () => receive({ type: "gone" });
  }

  async send(message) {
    await fetch(this.messages, { method: "POST", body: JSON.stringify(message) });
  }
}

// Besides messages of the session: `ready`, `accepted` (the source asked for runs), `begun`, `answered`, `broken`, and
// `hung`: with the version before the one that hung, or null; if a first version was slow, with itself, and `waitedS`.
export class Simulator {
  constructor({ worker, files, memory, extensions }) {
    this.url = worker;
    this.files = { files, memory, extensions };
    this.early = []; // messages before there is a listener
    this.receive = (message) => this.early.push(message);
    this.versions = []; // sources that flows ran, the current one last
    this.asked = null; // the source of a request without an answer
    this.firstS = FIRST_S;
    setInterval(() => this.watch(), 500);
    this.start();
  }

  listen(receive) {
    this.receive = receive;
    for (const message of this.early.splice(0)) receive(message);
  }

  start() {
    this.worker = new Worker(this.url, { type: "module" });
    this.worker.onmessage = ({ data }) => {
      if (typeof data === "string") for (const one of JSON.parse(data)) this.take(one);
      else this.take(data);
    };
    this.worker.onerror = (event) => this.receive({ type: "broken", text: event.message ?? "no worker" });
    this.worker.postMessage({ type: "load", ...this.files });
    this.askedMs = null; // time of a ping without an answer
    this.slowestS = 0;
    this.waiting = []; // messages until the worker is ready
    this.isReady = this.isBegun = false;
  }

  begin(setting, source, params, speed) {
    this.send({ type: "begin", setting, source, params, speed });
  }

  send(message) {
    if ("source" in message) this.asked = message.source;
    if (this.isReady) this.worker.postMessage(message);
    else this.waiting.push(message);
  }

  take(message) {
    if (message.type === "pong") {
      this.slowestS = Math.max(this.slowestS, (performance.now() - this.askedMs) / 1000);
      this.askedMs = null;
    } else {
      if (message.type === "ready") {
        this.isReady = true;
        for (const one of this.waiting.splice(0)) this.worker.postMessage(one);
      }
      if (message.type === "accepted") this.versions.push(this.asked);
      if (message.type === "begun") this.isBegun = true;
      if (message.type === "begun" || message.type === "answered") this.asked = null;
      this.receive(message);
    }
  }

  get patienceS() {
    return Math.max(this.isBegun ? HUNG_S : this.firstS, SLOWER * this.slowestS);
  }

  watch() {
    const now = performance.now();
    if (!this.isReady) return;
    if (this.askedMs === null) {
      this.askedMs = now;
      this.worker.postMessage({ type: "ping" });
    } else if (now - this.askedMs > 1000 * this.patienceS) this.replace();
  }

  // What hangs is the source that was asked for, or else the one that flows run. A first version may hang, or be slow on
  // a busy machine: it begins again, and has twice the time.
  replace() {
    this.worker.terminate();
    const { asked, isBegun, firstS } = this;
    if (asked === null) this.versions.pop();
    const source = this.versions.pop() ?? null;
    if (!isBegun) this.firstS *= 2;
    this.asked = null;
    this.start();
    if (source === null && !isBegun) this.receive({ type: "hung", source: asked, waitedS: firstS });
    else this.receive({ type: "hung", source });
  }
}
