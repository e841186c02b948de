// An interactive figure: points with intervals, lines, bounds, and the name of the point under the pointer.
//
// A series is {label, number, x, y, low, high, names, line}: `number` gives colour and shape; `low`, `high` and `names`
// may be missing. A chart is {x_label, y_label, x_log, y_log, categories, y_range, at_least, at_most, low, high,
// diagonal_ratio, series}; with `categories`, x is a place among them.

const NEAR_PX = 24;
const charts = new Set();

class Chart {
  constructor(place, chart, height = chart.diagonal_ratio ? 440 : 300) {
    Object.assign(this, { place, chart, height, hidden: new Set(), near: null });
    this.note = make("div", { className: "note", hidden: true });
    this.collect();
    this.build();
    charts.add(this);
  }

  // uPlot wants one ascending x for all series: each point has a place of its own.
  collect() {
    this.points = this.chart.series
      .flatMap((one, at) =>
        one.y.map((y, i) => ({
          at, x: one.x[i], y, low: one.low?.[i] ?? null, high: one.high?.[i] ?? null, name: one.names?.[i] ?? "",
        })),
      )
      .filter(({ x, y }) => x !== null && y !== null && !(this.chart.x_log && x <= 0) && !(this.chart.y_log && y <= 0))
      .sort((a, b) => a.x - b.x);
    this.data = [
      this.points.map(({ x }) => x),
      ...this.chart.series.map((_one, at) => this.points.map((point) => (point.at === at ? point.y : undefined))),
    ];
  }

  range(of, log, include, toZero) {
    const found = [...this.points.flatMap(of), ...include].filter((one) => one !== null && one !== undefined && !(log && one <= 0));
    if (!found.length) return [0, 1];
    let [low, high] = [Math.min(...found), Math.max(...found)];
    if (log) return low === high ? [low / 2, high * 2] : [low / 1.25, high * 1.25];
    return spaced(low, high, toZero);
  }

  build() {
    const { chart } = this;
    const colours = theme();
    this.colours = colours;
    const font = "12px system-ui, sans-serif";
    const axis = { stroke: colours.dim, grid: { stroke: colours.grid, width: 1 }, ticks: { show: false }, font, labelFont: font };
    const { categories } = chart;
    const xs = categories ? [-0.5, categories.length - 0.5] : this.range(({ x }) => [x], chart.x_log, [], false);
    const ys = chart.y_range ?? this.range(({ y, low, high }) => [y, low, high], chart.y_log, [chart.at_least, chart.at_most, chart.low, chart.high], true);
    const both = [Math.min(xs[0], ys[0]), Math.max(xs[1], ys[1])];
    const [xRange, yRange] = chart.diagonal_ratio ? [both, both] : [xs, ys];
    const decades = (range) => Math.log10(range[1] / range[0]);
    const logTicks = (range) => (_plot, splits) => splits.map((one) => (one === null || (decades(range) > 1.6 && Math.abs(Math.log10(one) - Math.round(Math.log10(one))) > 1e-6) ? null : written(one)));
    this.plot?.destroy();
    this.plot = new uPlot(
      {
        width: this.width(),
        height: this.height,
        legend: { show: false },
        padding: [10, 14, 0, 0],
        cursor: { points: { show: false }, drag: { x: false, y: false }, y: false, x: false },
        scales: {
          x: { time: false, distr: chart.x_log ? 3 : 1, range: () => xRange },
          y: { distr: chart.y_log ? 3 : 1, range: () => yRange },
        },
        axes: [
          {
            ...axis, label: chart.x_label, labelSize: 20, size: 30, grid: { ...axis.grid, show: !categories },
            ...(categories
              ? {
                  splits: categories.map((_one, at) => at),
                  values: (plot, splits) => {
                    const each = plot.bbox.width / devicePixelRatio / categories.length;
                    const fits = Math.max(3, Math.floor(each / 6.6));
                    return splits.map((at) => shortened(categories[at] ?? "", fits));
                  },
                }
              : { space: 60, values: chart.x_log ? logTicks(xRange) : (_plot, splits) => splits.map(written) }),
          },
          { ...axis, label: chart.y_label, labelSize: 20, size: 54, values: chart.y_log ? logTicks(yRange) : (_plot, splits) => splits.map(written) },
        ],
        series: [
          {},
          ...chart.series.map((one) => ({
            stroke: colours.palette[one.number % colours.palette.length],
            width: one.line ? 1.4 : 0,
            spanGaps: true,
            points: { show: false },
            ...(one.line ? {} : { paths: () => null }),
          })),
        ],
        hooks: {
          drawClear: [(plot) => this.under(plot)],
          draw: [(plot) => this.over(plot)],
          setCursor: [(plot) => this.hovered(plot)],
        },
      },
      this.data,
      this.place,
    );
    this.plot.over.append(this.note);
    this.plot.root.setAttribute("role", "img");
    this.plot.root.setAttribute("aria-label", `${chart.y_label} by ${chart.x_label}: ${chart.series.map((one) => one.label).join(", ")}`);
  }

  width() {
    const width = Math.max(200, Math.floor(this.place.clientWidth));
    return this.chart.diagonal_ratio ? Math.min(width, 520) : width;
  }

  clipped(plot, draw) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    draw(ctx, bbox, (x) => plot.valToPos(x, "x", true), (y) => plot.valToPos(y, "y", true));
    ctx.restore();
  }

  // Bounds, the interval of y, and the diagonal, below the points.
  under(plot) {
    const { at_least, at_most, low, high, diagonal_ratio } = this.chart;
    this.clipped(plot, (ctx, box, x, y) => {
      const known = (one) => one !== null && one !== undefined;
      const right = box.left + box.width;
      if (known(at_least) || known(at_most)) {
        const top = known(at_most) ? y(at_most) : box.top;
        const bottom = known(at_least) ? y(at_least) : box.top + box.height;
        ctx.fillStyle = this.colours.good;
        ctx.fillRect(box.left, top, box.width, bottom - top);
        ctx.strokeStyle = this.colours.dim;
        ctx.lineWidth = devicePixelRatio;
        ctx.setLineDash([5 * devicePixelRatio, 3 * devicePixelRatio]);
        for (const bound of [at_least, at_most].filter(known)) line(ctx, box.left, y(bound), right, y(bound));
        ctx.setLineDash([]);
      }
      if (known(low)) {
        ctx.fillStyle = `${this.colours.palette[0]}26`;
        ctx.fillRect(box.left, y(high), box.width, y(low) - y(high));
      }
      if (diagonal_ratio) {
        const { min, max } = plot.scales.x;
        const steps = Array.from({ length: 60 }, (_one, i) => (this.chart.x_log ? min * (max / min) ** (i / 59) : min + ((max - min) * i) / 59));
        ctx.fillStyle = this.colours.good;
        ctx.beginPath();
        steps.forEach((one) => ctx.lineTo(x(one), y(one * (1 + diagonal_ratio))));
        steps.reverse().forEach((one) => ctx.lineTo(x(one), y(one * (1 - diagonal_ratio))));
        ctx.fill();
        ctx.strokeStyle = this.colours.dim;
        ctx.lineWidth = devicePixelRatio;
        line(ctx, x(min), y(min), x(max), y(max));
      }
    });
  }

  over(plot) {
    this.clipped(plot, (ctx, _box, x, y) => {
      for (const point of this.points) {
        const series = this.chart.series[point.at];
        if (this.hidden.has(series.label)) continue;
        const colour = this.colours.palette[series.number % this.colours.palette.length];
        ctx.fillStyle = colour;
        ctx.strokeStyle = colour;
        if (point.low !== null && point.high !== null) {
          ctx.lineWidth = 1.4 * devicePixelRatio;
          line(ctx, x(point.x), y(point.low), x(point.x), y(point.high));
          const cap = 3 * devicePixelRatio;
          for (const end of [point.low, point.high]) line(ctx, x(point.x) - cap, y(end), x(point.x) + cap, y(end));
        }
        shape(ctx, series.number, x(point.x), y(point.y), (point === this.near ? 6 : 4) * devicePixelRatio);
        if (point === this.near) {
          ctx.strokeStyle = this.colours.text;
          ctx.lineWidth = devicePixelRatio;
          ctx.stroke();
        }
      }
    });
  }

  hovered(plot) {
    const { left, top } = plot.cursor;
    let [near, minimum] = [null, NEAR_PX];
    if (left >= 0) {
      for (const point of this.points) {
        if (this.hidden.has(this.chart.series[point.at].label)) continue;
        const away = Math.hypot(plot.valToPos(point.x, "x") - left, plot.valToPos(point.y, "y") - top);
        if (away < minimum) [near, minimum] = [point, away];
      }
    }
    if (near === this.near) return;
    this.near = near;
    plot.redraw(false, false);
    this.note.hidden = near === null;
    if (near === null) return;
    const interval = near.low === null ? "" : ` [${written(near.low)}, ${written(near.high)}]`;
    this.note.replaceChildren(
      make("b", { textContent: this.chart.series[near.at].label }), make("br"), `${written(near.y)}${interval}`,
      ...(near.name ? [make("br"), near.name] : []),
    );
    const [x, y] = [plot.valToPos(near.x, "x"), plot.valToPos(near.y, "y")];
    const toLeft = x > plot.over.clientWidth / 2;
    Object.assign(this.note.style, { left: toLeft ? "" : `${x + 12}px`, right: toLeft ? `${plot.over.clientWidth - x + 12}px` : "", top: `${Math.max(0, y - 20)}px` });
  }

  show(label, shown) {
    this.hidden[shown ? "delete" : "add"](label);
    this.chart.series.forEach((one, at) => one.label === label && this.plot.setSeries(at + 1, { show: shown }));
  }

  resized() {
    if (this.place.clientWidth && this.width() !== this.plot.width) this.plot.setSize({ width: this.width(), height: this.height });
  }

  destroy() {
    charts.delete(this);
    this.plot.destroy();
  }
}

// A range with space around it; with `toZero` it begins at 0 unless its lower end is far from there.
function spaced(low, high, toZero) {
  if (toZero && low >= 0 && low < 0.6 * high) low = 0;
  const space = 0.07 * (high - low || Math.abs(high) || 1);
  return [toZero && low === 0 ? 0 : low - space, high + space];
}

function shortened(text, length) {
  return text.length > length ? `${text.slice(0, Math.max(1, length - 1))}…` : text;
}

function line(ctx, fromX, fromY, toX, toY) {
  ctx.beginPath();
  ctx.moveTo(fromX, fromY);
  ctx.lineTo(toX, toY);
  ctx.stroke();
}

// The legend of charts that share their series; pressing a name hides or shows the series.
function legend(series, shown) {
  const named = [...new Map(series.map((one) => [one.label, one])).values()];
  if (named.length < 2) return make("div");
  return make(
    "div",
    { className: "legend" },
    ...named.map((one) => {
      const button = make("button", { type: "button" }, swatch(one.number), one.label);
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(on));
        shown(one.label, on);
      });
      return button;
    }),
  );
}
