// The page's data: rows of the last minutes, and the columns of flows.

const KEPT_S = 120;

class Store {
  constructor() {
    this.quantities = [];
    this.flows = new Map(); // column -> {id, src, dst, algorithm, failed, gone}
    this.rows = []; // {t, width, values}: values[quantity * width + column]
    this.hidden = new Set();
    this.version = 0; // changes with the set of flows or the colours
    this.turnedAway = 0;
    this.marks = []; // {t, kind, text}
  }

  get now() {
    return this.rows.length ? this.rows[this.rows.length - 1].t : 0;
  }

  add({ kind, shape }, [times, values]) {
    const [n, nQuantities, width] = shape;
    if (kind === "past") this.rows = [];
    const all = new Float32Array(copied(values));
    const when = new Float64Array(copied(times));
    const size = nQuantities * width;
    for (let i = 0; i < n; i++) {
      this.rows.push({ t: when[i], width, values: all.subarray(i * size, (i + 1) * size) });
    }
    const first = this.rows.findIndex((row) => row.t >= this.now - KEPT_S);
    if (first > 0) this.rows.splice(0, first);
  }

  setFlows({ flows, turned_away }) {
    const there = new Map(flows.map((flow) => [flow.column, flow]));
    for (const [column, flow] of there) {
      const before = this.flows.get(column);
      if (before && before.id !== flow.id) this.forget(column);
      this.flows.set(column, flow);
    }
    for (const [column, flow] of this.flows) flow.gone = !there.has(column);
    this.turnedAway = turned_away;
    this.version++;
  }

  forget(column) {
    this.hidden.delete(column);
    for (const { width, values } of this.rows) {
      if (column >= width) continue;
      for (let at = column; at < values.length; at += width) values[at] = NaN;
    }
  }

  // Closed flows are drawn until their last value leaves the window.
  dropGone() {
    for (const [column, flow] of this.flows) {
      if (!flow.gone) flow.goneAt = undefined;
      else if (flow.goneAt === undefined) flow.goneAt = this.now;
      else if (this.now - flow.goneAt > KEPT_S) {
        this.flows.delete(column);
        this.version++;
      }
    }
  }

  forgetQuantity(index) {
    for (const { width, values } of this.rows) values.fill(NaN, index * width, (index + 1) * width);
  }

  at(row, quantity, column) {
    return column < row.width ? row.values[quantity * row.width + column] : NaN;
  }

  last(quantity, column) {
    for (let i = this.rows.length - 1; i >= 0 && i > this.rows.length - 20; i--) {
      const value = this.at(this.rows[i], quantity, column);
      if (!Number.isNaN(value)) return value;
    }
    return NaN;
  }

  algorithms() {
    return [...new Set([...this.flows.values()].map((flow) => flow.algorithm))].sort();
  }
}

function copied(view) {
  return view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
}

function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && name !== "list") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function shortNumber(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e5) return value.toExponential(2);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size === 0 ? 0 : 2);
}

function clock(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

// A box with the parts of errors.
function errorBox(errors) {
  return el(
    "div",
    { className: "error", role: "alert" },
    ...errors.map((one) =>
      el(
        "div",
        {},
        el("b", { textContent: one.message }),
        ...["where", "why", "fix"]
          .filter((part) => one[part])
          .map((part) => el("div", {}, el("i", { textContent: part === "where" ? "at" : part }), ` ${one[part]}`)),
      ),
    ),
  );
}
