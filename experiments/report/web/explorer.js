// The figure of a table: a value against one of its key columns, coloured by another, in a panel for each combination of the rest.

const COLOURED = ["algorithm", "variant", "cca", "detector", "mode", "probes"];
const MAX_PANELS = 9;
const FEW_PANELS = 6; // of more than that
const MAX_SERIES = 12;
const NOTHING = "";

class Explorer {
  constructor(place, data, value, isMarked) {
    this.place = place;
    this.data = data;
    this.isMarked = isMarked;
    this.charts = [];
    this.keys = data.keys.filter((one) => data.distinct(one).length > 1);
    this.value = data.values.find((one) => one.name === value) ?? data.values[0];
    const words = this.keys.filter((one) => !one.numeric);
    this.colour =
      words.find((one) => COLOURED.includes(one.name)) ?? words.at(-1) ?? (this.keys.length > 1 ? this.fewest(this.keys) : undefined);
    const rest = this.keys.filter((one) => one !== this.colour);
    this.across = this.most(rest.filter((one) => one.numeric)) ?? this.most(rest) ?? this.colour;
    if (this.across === this.colour) this.colour = undefined;
  }

  most(columns) {
    return [...columns].sort((a, b) => this.data.distinct(b).length - this.data.distinct(a).length)[0];
  }

  fewest(columns) {
    return [...columns].sort((a, b) => this.data.distinct(a).length - this.data.distinct(b).length)[0];
  }

  controls() {
    const select = (label, columns, current, changed) => {
      const found = make("select", {}, ...columns.map((one) => make("option", { value: one?.name ?? NOTHING, textContent: one ? headingOf(one) : "nothing" })));
      found.value = current?.name ?? NOTHING;
      found.addEventListener("change", () => {
        changed(columns.find((one) => (one?.name ?? NOTHING) === found.value));
        this.draw(this.rows);
      });
      return make("label", {}, `${label} `, found);
    };
    const found = make("div", { className: "choices" }, select("figure of", this.data.values, this.value, (one) => (this.value = one)));
    if (this.keys.length > 1) {
      found.append(
        select("across", this.keys, this.across, (one) => (this.across = one)),
        select("coloured by", [undefined, ...this.keys], this.colour, (one) => (this.colour = one)),
      );
    }
    return found;
  }

  draw(rows) {
    this.rows = rows;
    this.charts.forEach((one) => one.destroy());
    this.charts = [];
    this.place.replaceChildren();
    const known = rows.filter((row) => row.cells[this.value.name] !== null && row.cells[this.value.name] !== "");
    if (!known.length) {
      this.place.append(make("p", { className: "dim", textContent: "No row has this value." }));
      return;
    }
    const { across, colour } = this;
    const apart = this.keys.filter((one) => one !== across && one !== colour);
    const panels = new Map();
    for (const row of known) {
      const name = apart.map((one) => `${one.label} ${written(row.cells[one.name])}${one.unit ? ` ${one.unit}` : ""}`).join(" · ");
      panels.set(name, [...(panels.get(name) ?? []), row]);
    }
    const numeric = across.numeric && this.data.distinct(across).length > 2;
    const categories = numeric ? null : [...new Set(known.map((row) => row.cells[across.name]))].map(written);
    const colours = colour ? this.data.distinct(colour).map(written) : [this.value.label];
    // With many panels, those that the report's row is about come first.
    const rank = ([, own]) => (own.some(this.isMarked) ? 0 : 1);
    const shown = [...panels].sort((a, b) => rank(a) - rank(b)).slice(0, panels.size > MAX_PANELS ? FEW_PANELS : MAX_PANELS);
    const columns = shown.length;
    const charts = shown.map(([name, own]) => ({ name, chart: this.chart(own, colours, categories) }));
    const range = this.range(known);
    const grid = make("div", { className: `panels ${columns > 1 ? "several" : ""}` });
    this.place.append(legend(charts.flatMap(({ chart }) => chart.series), (label, on) => this.charts.forEach((one) => one.show(label, on))), grid);
    for (const { name, chart } of charts) {
      const place = make("div", { className: "panel" }, ...(name ? [make("h5", { textContent: name })] : []));
      grid.append(place);
      this.charts.push(new Chart(place, { ...chart, y_range: range }, columns > 1 ? 220 : 300));
    }
    if (panels.size > shown.length) {
      this.place.append(make("p", { className: "dim small", textContent: `${panels.size - shown.length} more panels: filter the table, or choose other columns.` }));
    }
  }

  // All panels have one scale.
  range(rows) {
    const all = rows.flatMap((row) => [row.cells[this.value.name], ...(intervalOf(row, this.value) ?? [])]).filter((one) => one !== null && one !== "");
    return spaced(Math.min(...all), Math.max(...all), true);
  }

  chart(rows, colours, categories) {
    const { across, colour, value } = this;
    const series = new Map();
    for (const row of rows) {
      const label = colour ? written(row.cells[colour.name]) : value.label;
      const number = colours.indexOf(label);
      if (number >= MAX_SERIES && !series.has(label) && series.size >= MAX_SERIES) continue;
      if (!series.has(label)) series.set(label, { label, number, x: [], y: [], low: [], high: [], names: [], line: !categories });
      const one = series.get(label);
      const place = categories ? categories.indexOf(written(row.cells[across.name])) : row.cells[across.name];
      const ends = intervalOf(row, value) ?? [null, null];
      one.x.push(place);
      one.y.push(row.cells[value.name]);
      one.low.push(ends[0]);
      one.high.push(ends[1]);
      one.names.push(`${headingOf(across)}: ${written(row.cells[across.name])}${row.cells.n ? `, ${row.cells.n} runs` : ""}`);
    }
    const found = [...series.values()].sort((a, b) => a.number - b.number);
    // Next to each other, not on top of each other.
    if (categories) found.forEach((one, at) => (one.x = one.x.map((x) => x + (0.7 * (at + 0.5)) / found.length - 0.35)));
    const xs = rows.map((row) => row.cells[across.name]);
    const log = !categories && Math.min(...xs) > 0 && Math.max(...xs) / Math.min(...xs) >= 16;
    return { x_label: headingOf(across), y_label: headingOf(value), x_log: log, categories, series: found };
  }
}
