"use strict";
// Tables: their CSV text, and its cells.

const METADATA = JSON.parse(document.getElementById("tables").textContent);

function parseCsv(text) {
  const rows = [];
  let row = [];
  let cell = "";
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const one = text[at];
    if (quoted) {
      if (one !== '"') cell += one;
      else if (text[at + 1] === '"') cell += text[++at];
      else quoted = false;
    } else if (one === '"') quoted = true;
    else if (one === ",") {
      row.push(cell);
      cell = "";
    } else if (one === "\n") {
      rows.push([...row, cell]);
      row = [];
      cell = "";
    } else cell += one;
  }
  return rows;
}

// A table of the report: `columns` as in the report's model, `rows` as objects by name of a column; numbers are numbers.
class Data {
  constructor(name) {
    Object.assign(this, METADATA[name]);
    this.text = document.getElementById(name).textContent;
    const [names, ...lines] = parseCsv(this.text);
    this.rows = lines.map((line, number) => ({ number, cells: Object.fromEntries(names.map((one, at) => [one, line[at]])) }));
    for (const column of this.columns) {
      const ends = column.has_interval ? [".low", ".high"] : [];
      const known = this.rows.map((row) => row.cells[column.name]).filter((one) => one !== "");
      column.numeric = known.length > 0 && known.every((one) => Number.isFinite(Number(one)));
      if (!column.numeric) continue;
      for (const row of this.rows) {
        for (const end of ["", ...ends]) {
          const one = row.cells[column.name + end];
          row.cells[column.name + end] = one === "" ? null : Number(one) * column.scale;
        }
      }
    }
    this.keys = this.columns.filter((one) => !one.is_value);
    this.values = this.columns.filter((one) => one.is_value && one.numeric);
  }

  static of(name) {
    Data.made ??= new Map();
    if (!Data.made.has(name)) Data.made.set(name, new Data(name));
    return Data.made.get(name);
  }

  distinct(column) {
    const found = [...new Set(this.rows.map((row) => row.cells[column.name]))];
    return column.numeric ? found.sort((a, b) => a - b) : found;
  }
}

const headingOf = (column) => (column.unit ? `${column.label} [${column.unit}]` : column.label);

// A number as people write it, with three digits.
function written(value) {
  if (value === null || value === undefined || value === "") return "";
  if (typeof value !== "number") return value;
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size < 1e-3) return value.toPrecision(2).replace("-", "−");
  const digits = Math.max(0, 2 - Math.floor(Math.log10(size)));
  return value.toLocaleString("en", { maximumFractionDigits: digits }).replace("-", "−");
}

function intervalOf(row, column) {
  const low = row.cells[`${column.name}.low`];
  const high = row.cells[`${column.name}.high`];
  if (!column.has_interval || low === null || low === undefined || low === "") return null;
  return [low, high];
}

function make(tag, properties = {}, ...children) {
  const found = Object.assign(document.createElement(tag), properties);
  found.append(...children);
  return found;
}

function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
