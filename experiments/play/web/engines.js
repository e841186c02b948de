// Where the session is: in a server on this machine (`ccp play --browser`), or in a worker of this page (the playground).
// Both take and give the messages of `Session` in experiments/play/session.py.

const HUNG_S = 6; // without an answer; then the worker is replaced
const FIRST_S = 30; // for the first version of a worker, which imports modules

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
// `hung` (with the version before the one that hung, or null).
export class Simulator {
  constructor({ worker, files, memory, extensions }) {
    this.url = worker;
    this.files = { files, memory, extensions };
    this.early = []; // messages before there is a listener
    this.receive = (message) => this.early.push(message);
    this.versions = []; // sources that flows ran, the current one last
    this.asked = null; // the source of a request without an answer
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
    if (message.type === "pong") this.askedMs = null;
    else {
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

  watch() {
    const now = performance.now();
    if (!this.isReady) return;
    if (this.askedMs === null) {
      this.askedMs = now;
      this.worker.postMessage({ type: "ping" });
    } else if (now - this.askedMs > 1000 * (this.isBegun ? HUNG_S : FIRST_S)) this.replace();
  }

  // What hangs is the source that was asked for, or else the one that flows run.
  replace() {
    this.worker.terminate();
    if (this.asked === null) this.versions.pop();
    this.asked = null;
    this.start();
    this.receive({ type: "hung", source: this.versions.pop() ?? null });
  }
}
