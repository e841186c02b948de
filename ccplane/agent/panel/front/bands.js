// Many flows as bands: for each algorithm the median, the quartiles and the extremes of its flows over short intervals.

const BINS = 100; // minimum intervals of the visible time
const BIN_S = [0.1, 0.2, 0.5, 1, 2];
const OPEN_S = 1; // rows may still come for intervals that ended more recently

class Bands {
  constructor(store) {
    this.store = store;
    this.bins = new Map(); // number of the interval -> its values
    this.key = "";
  }

  // Forget all, after a change of the flows that are shown.
  clear() {
    this.bins.clear();
  }

  // The intervals from min to max, in order: {t, flows: mean per column, groups: [low, quarter, median, quarter, high]}.
  between(min, max, quantity, columns, groups) {
    const binS = BIN_S.find((one) => one >= (max - min) / BINS) ?? BIN_S.at(-1);
    const key = `${quantity} ${binS}`;
    if (key !== this.key) this.clear();
    this.key = key;
    const rows = new Map();
    for (const row of this.store.rows) {
      const number = Math.floor(row.t / binS);
      if (row.t < min - binS || row.t > max + binS || this.bins.get(number)?.done) continue;
      if (!rows.has(number)) rows.set(number, []);
      rows.get(number).push(row);
    }
    for (const [number, some] of rows) {
      const bin = this.bin(some, quantity, columns, groups);
      bin.t = (number + 0.5) * binS;
      bin.done = this.store.now > (number + 1) * binS + OPEN_S;
      this.bins.set(number, bin);
    }
    for (const number of this.bins.keys()) if ((number + 1) * binS < this.store.now - KEPT_S) this.bins.delete(number);
    return [...this.bins.keys()]
      .sort((a, b) => a - b)
      .map((number) => this.bins.get(number))
      .filter(({ t }) => t >= min - binS && t <= max + binS);
  }

  bin(rows, quantity, columns, groups) {
    const { store } = this;
    const { scale } = store.quantities[quantity];
    const seen = columns.map((column) =>
      rows.map((row) => store.at(row, quantity, column) * scale).filter((value) => value === value),
    );
    return {
      flows: seen.map((values) => (values.length ? values.reduce((sum, one) => sum + one, 0) / values.length : undefined)),
      groups: groups.map(({ members }) => {
        const shown = members.filter((at) => !store.hidden.has(columns[at]));
        const all = Float64Array.from(shown.flatMap((at) => seen[at])).sort();
        return [0, 0.25, 0.5, 0.75, 1].map((share) => all[Math.round(share * (all.length - 1))]);
      }),
    };
  }
}
