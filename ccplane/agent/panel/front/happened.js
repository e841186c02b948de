// Telemetry and events, next to the curves.

const LINES = 60;

class Happened {
  constructor() {
    this.samples = new Map();
    this.telemetry = el("div", { className: "samples" });
    this.events = el("ol", { className: "events" });
    this.none = el("p", { className: "dim" });
    this.root = el(
      "section",
      { className: "happened" },
      el("div", { className: "bar" }, el("h3", { textContent: "Telemetry" })),
      this.none,
      this.telemetry,
      el("div", { className: "bar" }, el("h3", { textContent: "Events" })),
      this.events,
    );
  }

  setState({ kinds }) {
    this.none.textContent =
      kinds === null || kinds === undefined
        ? "This agent has no telemetry bus; start it with ccp run --broker."
        : this.samples.size
          ? ""
          : `Subscribed to ${kinds.join(", ") || "nothing"}; no samples yet.`;
  }

  add({ events, telemetry, past }) {
    if (past) this.events.replaceChildren();
    for (const event of events) {
      const time = new Date(event.t_wall_us / 1000).toLocaleTimeString([], { hourCycle: "h23" });
      const about = [event.algorithm, event.flow, brief(event.detail)].filter(Boolean).join(" · ");
      this.events.prepend(el("li", { title: JSON.stringify(event.detail) }, el("time", { textContent: time }), el("b", { textContent: event.kind }), about));
    }
    while (this.events.children.length > LINES) this.events.lastChild.remove();
    for (const sample of telemetry) this.sample(sample);
  }

  sample(sample) {
    const key = `${sample.kind} from ${sample.sender}`;
    if (!this.samples.has(key)) {
      const made = { count: 0, head: el("b"), body: el("dl") };
      this.samples.set(key, made);
      this.telemetry.append(el("div", {}, made.head, made.body));
      this.none.textContent = "";
    }
    const shown = this.samples.get(key);
    shown.count++;
    shown.head.textContent = `${key} · ${shown.count}`;
    const fields = Object.entries(sample.body ?? {}).filter(([name, value]) => name !== "kind" && value !== null && typeof value !== "object");
    shown.body.replaceChildren(
      ...fields.flatMap(([name, value]) => [el("dt", { textContent: name }), el("dd", { textContent: typeof value === "number" ? shortNumber(value) : String(value) })]),
    );
  }
}

function brief(detail) {
  return Object.entries(detail)
    .filter(([, value]) => value !== null && typeof value !== "object" && !/^[0-9a-f]{64}$/.test(value))
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
}
