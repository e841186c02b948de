// A table of the report: filters, figure, sortable rows, CSV.

const MAX_CHOICES = 30;

class TableView {
  constructor(details) {
    this.data = Data.of(details.dataset.table);
    this.marked = JSON.parse(details.dataset.marked);
    this.filters = new Map();
    this.words = "";
    this.onlyMarked = false;
    this.order = null; // [column, 1 or -1]
    this.place = details.querySelector(".place");
    const { data } = this;
    const tools = make("div", { className: "tools" });
    for (const column of data.keys) {
      const values = data.distinct(column);
      if (values.length > 1 && values.length <= MAX_CHOICES && values.length < data.rows.length) tools.append(this.filter(column, values));
    }
    if (data.rows.length > 8) tools.append(this.search());
    if (data.rows.some((row) => this.isMarked(row)) && !data.rows.every((row) => this.isMarked(row))) tools.append(this.marks());
    this.count = make("output", { className: "dim small" });
    const csv = make("button", { type: "button", textContent: "CSV", title: `Download ${data.file}.csv`, className: "csv" });
    csv.addEventListener("click", () => download(`${data.file}.csv`, data.text));
    tools.append(make("span", { className: "end-of-tools" }, this.count, csv));
    this.body = make("tbody");
    const table = make("table", { className: "plain sortable" }, this.head(), this.body);
    const parts = [tools];
    if (data.drawable && data.values.length && data.rows.length > 1 && data.keys.some((one) => data.distinct(one).length > 1)) {
      const drawing = make("div", { className: "drawing" });
      this.explorer = new Explorer(drawing, data, details.dataset.value, (row) => this.isMarked(row));
      parts.push(this.explorer.controls(), drawing);
    }
    parts.push(make("div", { className: "scroll", tabIndex: 0 }, table));
    if (data.note) parts.push(make("p", { className: "dim small", textContent: data.note }));
    this.place.replaceChildren(...parts);
    this.update();
  }

  isMarked(row) {
    return this.marked.some((conditions) =>
      Object.entries(conditions).every(([name, value]) => {
        const column = this.data.columns.find((one) => one.name === name);
        const cell = row.cells[name];
        return column?.numeric ? Math.abs(cell - value * column.scale) <= 1e-9 * Math.abs(cell) : cell === String(value);
      }),
    );
  }

  filter(column, values) {
    const select = make(
      "select",
      {},
      make("option", { value: "", textContent: "all" }),
      ...values.map((one, at) => make("option", { value: String(at), textContent: written(one) || "unknown" })),
    );
    select.addEventListener("change", () => {
      if (select.value === "") this.filters.delete(column.name);
      else this.filters.set(column.name, values[Number(select.value)]);
      this.update();
    });
    return make("label", {}, `${headingOf(column)} `, select);
  }

  search() {
    const input = make("input", { type: "search", placeholder: "Filter rows" });
    input.setAttribute("aria-label", "Filter rows");
    input.addEventListener("input", () => {
      this.words = input.value.toLowerCase();
      this.update();
    });
    return input;
  }

  marks() {
    this.onlyMarked = !this.data.drawable; // a figure shows the marked rows among the others
    const box = make("input", { type: "checkbox", checked: this.onlyMarked });
    box.addEventListener("change", () => {
      this.onlyMarked = box.checked;
      this.update();
    });
    return make("label", {}, box, " only marked rows");
  }

  head() {
    this.sorters = this.data.columns.map((column) => {
      const button = make("button", { type: "button", textContent: column.label });
      if (column.unit) button.append(make("span", { className: "dim", textContent: ` ${column.unit}` }));
      const cell = make("th", { scope: "col", className: column.numeric ? "right" : "" }, button);
      button.addEventListener("click", () => {
        const down = this.order?.[0] === column && this.order[1] === 1;
        this.order = [column, down ? -1 : 1];
        this.sorters.forEach((one) => one.removeAttribute("aria-sort"));
        cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        this.update(false);
      });
      return cell;
    });
    return make("thead", {}, make("tr", {}, ...this.sorters));
  }

  rows() {
    const found = this.data.rows.filter(
      (row) =>
        [...this.filters].every(([name, value]) => row.cells[name] === value) &&
        (!this.onlyMarked || this.isMarked(row)) &&
        (!this.words || this.data.columns.some((one) => written(row.cells[one.name]).toLowerCase().includes(this.words))),
    );
    if (!this.order) return found;
    const [column, sign] = this.order;
    const known = (row) => row.cells[column.name] !== null && row.cells[column.name] !== "";
    return found.sort((a, b) => {
      if (known(a) !== known(b)) return known(a) ? -1 : 1; // unknown values are last in both directions
      const [one, other] = [a.cells[column.name], b.cells[column.name]];
      return sign * (column.numeric ? one - other : String(one).localeCompare(String(other), "en", { numeric: true })) || a.number - b.number;
    });
  }

  update(redraw = true) {
    const rows = this.rows();
    this.body.replaceChildren(
      ...rows.map((row) => {
        const line = make("tr", { className: this.isMarked(row) ? "marked" : "" });
        for (const column of this.data.columns) {
          const cell = make("td", { className: column.numeric ? "right" : "", textContent: written(row.cells[column.name]) });
          const ends = intervalOf(row, column);
          if (ends && ends[0] !== ends[1]) cell.append(make("span", { className: "dim ends", textContent: ` [${written(ends[0])}, ${written(ends[1])}]` }));
          line.append(cell);
        }
        return line;
      }),
    );
    const all = this.data.rows.length;
    this.count.textContent = rows.length === all ? "" : `${rows.length} of ${all} rows`;
    if (redraw) this.explorer?.draw(rows);
  }
}

// Tables and charts are made when they come near the screen, or before the page is printed.
const waiting = new IntersectionObserver((found) => found.filter((one) => one.isIntersecting).forEach(({ target }) => show(target)), { rootMargin: "600px" });

function show(target) {
  if (!target.offsetParent || (target.matches("details") && !target.open)) return;
  waiting.unobserve(target);
  if (target.classList.contains("made")) return;
  target.classList.add("made");
  if (target.matches("details")) new TableView(target);
  else {
    const chart = JSON.parse(target.dataset.chart);
    chart.series.forEach((one, at) => (one.number = at));
    const drawing = make("div");
    let made = null;
    target.querySelector(".place").append(legend(chart.series, (label, on) => made.show(label, on)), drawing);
    made = new Chart(drawing, chart);
  }
}

const WANTED = "details.table:not(.made), figure.chart:not(.made)";

function fill(inside) {
  for (const target of inside.querySelectorAll(WANTED)) {
    if (target.matches("details")) target.addEventListener("toggle", () => show(target));
    waiting.observe(target);
  }
}
