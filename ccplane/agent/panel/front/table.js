// The table of flows, also the legend: a click hides or shows a flow's curve, hovering highlights it.

const SHOWN = ["cwnd_bytes", "rate_bytes_per_s", "delivery_bytes_per_s", "srtt_us", "retrans_pkts_per_s"];

class FlowTable {
  constructor(store, colours, { onHover, onHide }) {
    Object.assign(this, { store, colours, onHover, onHide });
    this.sort = { by: "", up: true };
    this.filter = "";
    this.rows = new Map();
    this.version = -1;
    this.head = el("tr");
    this.body = el("tbody");
    const all = (hide) => () => {
      for (const column of this.matching()) hide ? store.hidden.add(column) : store.hidden.delete(column);
      this.refresh();
      onHide([...this.rows.keys()]);
    };
    this.root = el(
      "section",
      { className: "flows" },
      el(
        "div",
        { className: "bar" },
        el("h3", { textContent: "Flows" }),
        el("input", {
          type: "search",
          placeholder: "address, port, algorithm",
          ariaLabel: "filter flows",
          oninput: ({ target }) => ((this.filter = target.value.toLowerCase()), this.arrange()),
        }),
        el("button", { textContent: "show", title: "show all matching flows", onclick: all(false) }),
        el("button", { textContent: "hide", title: "hide all matching flows", onclick: all(true) }),
      ),
      el("div", { className: "scroll" }, el("table", {}, el("thead", {}, this.head), this.body)),
    );
  }

  matching() {
    return [...this.store.flows]
      .filter(([, flow]) => `${flow.src} ${flow.dst} ${flow.algorithm} ${flow.id}`.toLowerCase().includes(this.filter))
      .map(([column]) => column);
  }

  // Called twice a second.
  refresh() {
    const { store, colours } = this;
    if (!store.quantities.length) return;
    if (this.version !== store.version) this.build();
    for (const [column, { row, swatch, cells }] of this.rows) {
      const flow = store.flows.get(column);
      row.classList.toggle("hidden", store.hidden.has(column));
      row.classList.toggle("gone", flow.gone || flow.failed);
      swatch.style.background = colours.ofFlow(store, column);
      cells.forEach(([quantity, cell]) => {
        cell.textContent = flow.gone ? "" : shortNumber(store.last(quantity, column) * store.quantities[quantity].scale);
      });
    }
    this.arrange();
  }

  build() {
    const { store } = this;
    this.version = store.version;
    const quantities = SHOWN.map((name) => store.quantities.findIndex((one) => one.name === name));
    const heads = [
      ["src", "flow", ""],
      ["algorithm", "algorithm", ""],
      ...quantities.map((index) => [index, store.quantities[index].label, store.quantities[index].unit]),
    ];
    this.head.replaceChildren(
      ...heads.map(([by, label, unit]) =>
        el(
          "th",
          { title: "sort", className: typeof by === "number" ? "number" : "", onclick: () => this.sortBy(by) },
          label,
          el("small", { textContent: unit }),
        ),
      ),
    );
    this.rows.clear();
    for (const [column, flow] of store.flows) {
      const swatch = el("span", { className: "swatch" });
      const cells = quantities.map((quantity) => [quantity, el("td", { className: "number" })]);
      const row = el(
        "tr",
        {
          title: `flow ${flow.id}: click to hide or show`,
          onmouseenter: () => this.onHover(column),
          onmouseleave: () => this.onHover(null),
          onclick: () => this.toggle(column),
        },
        el("td", {}, swatch, `${flow.src} → ${flow.dst}`),
        el("td", { textContent: flow.failed ? `${flow.algorithm} (failed)` : flow.algorithm }),
        ...cells.map(([, cell]) => cell),
      );
      this.rows.set(column, { row, swatch, cells });
    }
    this.body.replaceChildren(...[...this.rows.values()].map(({ row }) => row));
  }

  toggle(column) {
    const { hidden } = this.store;
    hidden.has(column) ? hidden.delete(column) : hidden.add(column);
    this.refresh();
    this.onHide([column]);
  }

  sortBy(by) {
    this.sort = { by, up: this.sort.by === by ? !this.sort.up : typeof by !== "number" };
    this.arrange();
  }

  arrange() {
    const { by, up } = this.sort;
    const { store } = this;
    const seen = new Set(this.matching());
    for (const [column, { row }] of this.rows) row.hidden = !seen.has(column);
    if (by === "") return;
    const key = ([column]) => (typeof by === "number" ? store.last(by, column) || 0 : store.flows.get(column)[by]);
    const sorted = [...this.rows].sort((a, b) => ((key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (up ? 1 : -1)));
    sorted.forEach(([, { row }], i) => {
      if (this.body.children[i] !== row) this.body.insertBefore(row, this.body.children[i]);
    });
  }

  highlight(column) {
    for (const [at, { row }] of this.rows) row.classList.toggle("highlighted", at === column);
  }
}
