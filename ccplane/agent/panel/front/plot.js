// The curves: one line per flow or, with many flows, bands for each algorithm.

const HEIGHT = 340;
const NEAR_PX = 18;
const EVERY = 5; // sample every fifth value to find the usual range
const LONELY = 3; // a peak is an outlier above this multiple of the usual range
const MIN_S = 5; // minimum time window at the beginning

class Plot {
  constructor(place, store, colours, onHover) {
    this.place = place;
    this.store = store;
    this.colours = colours;
    this.onHover = onHover;
    this.quantity = 0;
    this.windowS = 30;
    this.zoom = null; // {x: [from, to], y: [from, to] or null} while the user has zoomed
    this.highlighted = null;
    this.columns = [];
    this.drawn = -1;
    this.plot = null;
    this.groups = []; // of many flows: {name, members: indices of columns}
    this.bands = new Bands(store);
    this.marks = new Marks(store);
  }

  highlight(column) {
    if (column === this.highlighted) return;
    this.highlighted = column;
    this.plot?.redraw(false, false);
  }

  reset() {
    this.zoom = null;
    this.draw();
  }

  draw() {
    const width = Math.max(240, this.place.clientWidth);
    if (this.drawn !== this.store.version || !this.plot) this.build(width);
    else if (width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
    const to = this.store.now;
    const from = Math.max(to - this.windowS, Math.min(this.store.rows[0]?.t ?? to, to - MIN_S));
    const [min, max] = this.zoom?.x ?? [from, to];
    const data = this.data(min, max, width);
    this.plot.batch(() => {
      this.plot.setData(data, false);
      this.plot.setScale("x", { min, max });
    });
  }

  data(min, max, width) {
    return this.groups.length ? this.bandData(min, max) : this.lineData(min, max, width);
  }

  // The times, then for each flow its mean (drawn only when highlighted), then the five lines of each group.
  bandData(min, max) {
    const { columns, groups } = this;
    const bins = this.bands.between(min, max, this.quantity, columns, groups);
    const lines = groups.flatMap((_, at) => [0, 1, 2, 3, 4].map((line) => bins.map((bin) => bin.groups[at][line])));
    this.measure(groups.map((_, at) => lines[5 * at + 4]));
    return [bins.map(({ t }) => t), ...columns.map((_, at) => bins.map((bin) => bin.flows[at])), ...lines];
  }

  // The visible rows, one list per series; with more rows than pixels, the extremes for each pixel.
  lineData(min, max, width) {
    const { store, quantity, columns } = this;
    const { scale } = store.quantities[quantity];
    const rows = store.rows.filter((row) => row.t >= min - 1 && row.t <= max + 1);
    const per = Math.ceil(rows.length / width);
    const times = [];
    for (let i = 0; i < rows.length; i += per) {
      times.push(rows[i].t);
      if (per > 1) times.push(rows[Math.min(i + per, rows.length) - 1].t);
    }
    const lines = columns.map((column) => {
      const line = [];
      if (per === 1) {
        for (const { width: wide, values } of rows) {
          const value = column < wide ? values[quantity * wide + column] : NaN;
          line.push(value === value ? value * scale : undefined); // uPlot bridges undefined values
        }
        return line;
      }
      for (let i = 0; i < rows.length; i += per) {
        let low = Infinity;
        let high = -Infinity;
        for (let at = i; at < i + per && at < rows.length; at++) {
          const value = store.at(rows[at], quantity, column);
          if (value < low) low = value;
          if (value > high) high = value;
        }
        line.push(low === Infinity ? undefined : low * scale);
        line.push(high === -Infinity ? undefined : high * scale);
      }
      return line;
    });
    this.measure(lines.filter((_, at) => !store.hidden.has(columns[at])));
    return [times, ...lines];
  }

  // Find the range of the axis. Outliers that would compress the curves are clipped; `peak` then shows the maximum.
  measure(lines) {
    const some = [];
    let high = 0;
    let seen = 0;
    for (const line of lines) {
      for (const value of line) {
        if (value === undefined) continue;
        if (value > high) high = value;
        if (seen++ % EVERY === 0) some.push(value);
      }
    }
    const usual = some.sort((a, b) => a - b)[Math.floor(0.995 * some.length)] ?? 0;
    const lonely = usual > 0 && high > LONELY * usual;
    this.top = lonely ? 1.5 * usual : high;
    this.peak = lonely ? high : null;
  }

  build(width) {
    const { store, colours } = this;
    this.plot?.destroy();
    this.drawn = store.version;
    this.columns = [...store.flows.keys()];
    const many = this.columns.length > FEW;
    this.bands.clear();
    this.groups = !many
      ? []
      : store.algorithms().map((name) => ({
          name,
          members: this.columns.flatMap((column, at) => (store.flows.get(column).algorithm === name ? [at] : [])),
        }));
    const first = 1 + this.columns.length; // series of the first group
    const axis = { stroke: colours.dim, grid: { stroke: colours.grid, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const { label, unit } = store.quantities[this.quantity];
    this.plot = new uPlot(
      {
        width,
        height: HEIGHT,
        legend: { show: false },
        padding: [12, 12, 0, 0],
        cursor: {
          points: { show: false },
          drag: { x: true, y: true, uni: 30, setScale: false },
          bind: { dblclick: () => () => (this.reset(), null) },
        },
        scales: {
          x: { time: false, auto: false },
          y: { range: () => this.zoom?.y ?? [0, this.top > 0 ? this.top * 1.06 : 1] },
        },
        axes: [
          { ...axis, size: 28, values: (_plot, splits) => splits.map((at) => (at < 0 ? "" : clock(at))) },
          { ...axis, label: unit ? `${label} [${unit}]` : label, labelFont: axis.font, labelSize: 18, size: 52 },
        ],
        series: [
          {},
          ...this.columns.map((column) => ({
            stroke: colours.ofFlow(store, column),
            width: 1.6,
            points: { show: false },
            show: !many && !store.hidden.has(column),
          })),
          ...this.groups.flatMap(({ name }) =>
            ["40", "00", "", "00", "40"].map((alpha) => ({
              stroke: colours.ofAlgorithm(name) + alpha,
              width: alpha ? 1 : 2.5,
              points: { show: false },
            })),
          ),
        ],
        bands: this.groups.flatMap(({ name }, at) => [
          { series: [first + 5 * at + 4, first + 5 * at], fill: `${colours.ofAlgorithm(name)}1c` },
          { series: [first + 5 * at + 3, first + 5 * at + 1], fill: `${colours.ofAlgorithm(name)}48` },
        ]),
        hooks: {
          setCursor: [(plot) => this.hovered(plot)],
          setSelect: [(plot) => this.selected(plot)],
          draw: [(plot) => this.overdraw(plot)],
        },
      },
      [[], ...this.columns.map(() => []), ...this.groups.flatMap(() => [[], [], [], [], []])],
      this.place,
    );
    this.plot.over.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
  }

  showColumn(column) {
    const at = this.columns.indexOf(column);
    this.bands.clear();
    if (at >= 0 && !this.groups.length) this.plot?.setSeries(at + 1, { show: !this.store.hidden.has(column) });
  }

  hovered(plot) {
    const { idx, left, top } = plot.cursor;
    let nearest = null;
    if (left >= 0 && idx !== null && idx !== undefined) {
      let minimum = NEAR_PX;
      this.columns.forEach((column, at) => {
        const value = plot.data[at + 1][idx];
        if (value === undefined || this.store.hidden.has(column)) return;
        const away = Math.abs(plot.valToPos(value, "y") - top);
        if (away < minimum) [minimum, nearest] = [away, column];
      });
    }
    if (nearest !== this.highlighted) {
      this.highlight(nearest);
      this.onHover(nearest);
    }
  }

  selected(plot) {
    const { left, top, width, height } = plot.select;
    if (width < 3 && height < 3) return;
    const { min, max } = plot.scales.x;
    const whole = { x: [min, max], y: this.zoom?.y ?? null };
    if (width >= 3) whole.x = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    if (height >= 3 && height < plot.over.clientHeight - 1) {
      whole.y = [plot.posToVal(top + height, "y"), plot.posToVal(top, "y")];
    }
    this.zoom = whole;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.draw();
  }

  wheeled(event) {
    event.preventDefault();
    const { min, max } = this.plot.scales.x;
    const factor = event.deltaY < 0 ? 0.8 : 1.25;
    const share = event.offsetX / this.plot.over.clientWidth;
    const at = min + share * (max - min);
    const span = Math.max(0.5, factor * (max - min));
    if (span >= KEPT_S) return this.reset();
    this.zoom = { x: [at - share * span, at + (1 - share) * span], y: this.zoom?.y ?? null };
    this.draw();
  }

  overdraw(plot) {
    this.marks.place(plot);
    const at = this.columns.indexOf(this.highlighted);
    if (at < 0 || this.store.hidden.has(this.highlighted)) return;
    const { ctx } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
    ctx.clip();
    ctx.beginPath();
    plot.data[at + 1].forEach((value, i) => {
      if (value !== undefined) ctx.lineTo(plot.valToPos(plot.data[0][i], "x", true), plot.valToPos(value, "y", true));
    });
    ctx.strokeStyle = this.colours.text;
    ctx.lineWidth = 2 * devicePixelRatio;
    ctx.stroke();
    ctx.restore();
  }

  destroy() {
    this.plot?.destroy();
  }
}
