// Window, RTT and goodput over time: one line per flow, what the path allows dashed, a vertical line per mark.

const ON_LIGHT = ["#0072b2", "#d55e00", "#009e73", "#aa3377", "#b58900", "#3399cc", "#666666", "#8c510a", "#5e4fa2"];
const ON_DARK = ["#56b4e9", "#ff8c42", "#2fd0a0", "#e58fc0", "#f0c341", "#9fd8ff", "#b0b0b0", "#d8b365", "#b2abd2"];
const QUANTITIES = [
  { key: "cwnd_bytes", title: "window [kB]", scale: 1e-3, limit: (path) => (path.rate_bytes_per_s * path.rtt_us) / 1e6, limited: "BDP" },
  { key: "srtt_us", title: "RTT [ms]", scale: 1e-3, limit: (path) => path.rtt_us, limited: "without queue" },
  { key: "goodput_bytes_per_s", title: "goodput [Mbit/s]", scale: 8e-6, limit: (path) => path.rate_bytes_per_s, limited: "rate of the path" },
];
const SHOWN_S = 60; // time that is visible
const MIN_S = 5;
const MAX_SAMPLES = 36_000; // half an hour
const LABEL = 26; // characters of a mark's label

export class Plots {
  constructor(place, table) {
    this.place = place;
    this.table = table.querySelector("tbody");
    this.path = null;
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.dark.addEventListener("change", () => this.build());
    new ResizeObserver(() => this.resize()).observe(place);
    this.clear();
  }

  clear() {
    this.times = [];
    this.names = [];
    this.columns = QUANTITIES.map(() => []);
    this.limits = QUANTITIES.map(() => []);
    this.marks = [];
    this.build();
  }

  get lastS() {
    return this.times.at(-1) ?? 0;
  }

  append({ t_s, flows }) {
    if (t_s.length && t_s[0] <= this.lastS) this.clear(); // begun again
    const names = flows.map((flow) => flow.name);
    if (names.join() !== this.names.join()) {
      this.names = names;
      this.columns = QUANTITIES.map(() => names.map(() => new Array(this.times.length).fill(null)));
      this.build();
    }
    this.times.push(...t_s);
    QUANTITIES.forEach(({ key, scale, limit }, i) => {
      const value = this.path ? limit(this.path) * scale : null;
      for (const _ of t_s) this.limits[i].push(value);
      flows.forEach((flow, column) => {
        for (const one of flow[key]) this.columns[i][column].push(one === null ? null : one * scale);
      });
    });
    const extra = this.times.length - MAX_SAMPLES;
    if (extra > 0) for (const list of [this.times, ...this.limits, ...this.columns.flat()]) list.splice(0, extra);
    this.draw();
  }

  mark(mark) {
    this.marks.push(mark);
    this.draw();
  }

  colour(column) {
    const palette = this.dark.matches ? ON_DARK : ON_LIGHT;
    return palette[column % palette.length];
  }

  build() {
    for (const plot of this.plots ?? []) plot.destroy();
    const text = getComputedStyle(document.body).color; // a canvas does not resolve light-dark()
    const dim = this.dark.matches ? "#98a3ac" : "#5b656e";
    const grid = this.dark.matches ? "#353d43" : "#e3e7ea";
    const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
    this.plots = QUANTITIES.map(
      ({ title, limited }, i) =>
        new uPlot(
          {
            title: `${title}, dashed: ${limited}`,
            ...this.size(),
            legend: { show: false },
            cursor: { sync: { key: "t" }, drag: { x: false, y: false } },
            scales: { x: { time: false }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] } },
            axes: [axis, { ...axis, size: 60 }],
            series: [
              {},
              { stroke: dim, dash: [6, 4], width: 1.2 },
              ...this.names.map((name, column) => ({ label: name, stroke: this.colour(column), width: 1.6, spanGaps: true })),
            ],
            hooks: { draw: [(plot) => this.drawMarks(plot, i === 0, text)] },
          },
          [[], [], ...this.names.map(() => [])],
          this.place,
        ),
    );
    this.drawn();
  }

  size() {
    const height = Math.floor(this.place.clientHeight / QUANTITIES.length) - 24; // below the title
    return { width: Math.max(280, this.place.clientWidth), height: Math.max(116, height) };
  }

  resize() {
    for (const plot of this.plots) plot.setSize(this.size());
  }

  draw() {
    this.waiting ??= requestAnimationFrame(() => this.drawn());
  }

  drawn() {
    this.waiting = null;
    const max = Math.max(this.lastS, MIN_S);
    const min = Math.max(0, max - SHOWN_S);
    let first = 0;
    for (let to = this.times.length; first < to; ) {
      const middle = (first + to) >> 1;
      if (this.times[middle] < min) first = middle + 1;
      else to = middle;
    }
    const since = (list) => list.slice(first);
    this.plots.forEach((plot, i) => {
      plot.batch(() => {
        plot.setData([since(this.times), since(this.limits[i]), ...this.columns[i].map(since)], false);
        plot.setScale("x", { min, max });
      });
    });
    this.show();
  }

  drawMarks(plot, labelled, text) {
    const { ctx, bbox } = plot;
    const back = getComputedStyle(document.body).backgroundColor;
    const bad = this.dark.matches ? "#ff8a80" : "#b3261e";
    ctx.save();
    ctx.lineWidth = devicePixelRatio;
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    const taken = []; // right ends of the labels in each row
    for (const { t_s, kind, text: said } of this.marks) {
      const x = Math.round(plot.valToPos(t_s, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = ctx.fillStyle = kind === "error" ? bad : text;
      ctx.globalAlpha = 0.55;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      if (!labelled) continue;
      ctx.globalAlpha = 1;
      const label = said.length > LABEL ? `${said.slice(0, LABEL)}…` : said;
      const width = ctx.measureText(label).width + 6 * devicePixelRatio;
      const left = Math.min(x + 3 * devicePixelRatio, bbox.left + bbox.width - width);
      let row = taken.findIndex((end) => end <= left);
      if (row < 0) row = taken.length;
      taken[row] = left + width;
      if (row >= 4) continue;
      ctx.lineWidth = 4 * devicePixelRatio; // the background, so that curves do not cross the text
      ctx.strokeStyle = back;
      ctx.strokeText(label, left, bbox.top + (row + 1) * 13 * devicePixelRatio);
      ctx.fillText(label, left, bbox.top + (row + 1) * 13 * devicePixelRatio);
      ctx.lineWidth = devicePixelRatio;
    }
    ctx.restore();
  }

  // The newest values of each flow.
  show() {
    const now = performance.now();
    if (now - (this.shownMs ?? -1000) < 200 && this.table.childElementCount === this.names.length) return;
    this.shownMs = now;
    const last = (i, column, digits) => this.columns[i][column].at(-1)?.toFixed(digits) ?? "–";
    this.table.replaceChildren(
      ...this.names.map((name, column) => {
        const row = document.createElement("tr");
        const values = [name, `${last(0, column, 1)} kB`, `${last(1, column, 1)} ms`, `${last(2, column, 2)} Mbit/s`];
        row.append(...values.map((value) => Object.assign(document.createElement("td"), { textContent: value })));
        row.firstChild.style.color = this.colour(column);
        return row;
      }),
    );
  }
}
