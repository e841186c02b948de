// The rows of the report: open and close, filter, sort.

const RANKS = ["fails", "mixed", "undecided", "holds", "tuned", "stale", "not run", "not tested", ""];
const chosen = new Set(); // verdicts that are shown; empty: all
const rows = [...document.querySelectorAll("tr.row")];
const moreOf = (row) => document.getElementById(`${row.id}-more`);
const buttonOf = (row) => row.querySelector("button.open");
const isOpen = (row) => buttonOf(row).getAttribute("aria-expanded") === "true";

function toggle(row, open = !isOpen(row)) {
  buttonOf(row).setAttribute("aria-expanded", String(open));
  row.classList.toggle("is-open", open);
  const more = moreOf(row);
  more.hidden = !open;
}

function differs(row) {
  const found = [...row.querySelectorAll("td.side")].map((one) => one.dataset.verdict).filter(Boolean);
  return new Set(found).size > 1;
}

function select() {
  const words = document.getElementById("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const differing = document.getElementById("differing").checked;
  let shown = 0;
  for (const row of rows) {
    const text = `${row.textContent} ${row.id}`.toLowerCase();
    const fits = (!chosen.size || chosen.has(row.dataset.verdict)) && words.every((word) => text.includes(word)) && (!differing || differs(row));
    row.hidden = !fits;
    moreOf(row).hidden = !fits || !isOpen(row);
    shown += fits;
  }
  for (const section of document.querySelectorAll("section.part")) {
    const own = [...section.querySelectorAll("tr.row")];
    section.classList.toggle("empty", own.length > 0 && own.every((row) => row.hidden));
  }
  const all = shown === rows.length;
  document.getElementById("shown").textContent = all ? "" : `${shown} of ${rows.length} rows`;
}

function sortBy(button) {
  const table = button.closest("table");
  const heading = button.closest("th");
  const down = heading.getAttribute("aria-sort") === "ascending";
  for (const one of table.querySelectorAll("thead th[aria-sort]")) one.setAttribute("aria-sort", "none");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const of = (row) => (button.dataset.by === "verdict" ? 1000 * RANKS.indexOf(row.dataset.verdict) : 0) + Number(row.dataset.order);
  const body = table.tBodies[0];
  [...body.querySelectorAll("tr.row")]
    .sort((a, b) => (down ? of(b) - of(a) : of(a) - of(b)))
    .forEach((row) => body.append(row, moreOf(row)));
}

function move(by) {
  const visible = [...document.querySelectorAll("tr.row")].filter((row) => !row.hidden); // in the order shown
  const now = visible.indexOf(document.activeElement.closest("tr.row") ?? document.activeElement.closest("tr.more")?.previousElementSibling);
  const next = visible[now < 0 ? (by > 0 ? 0 : visible.length - 1) : Math.min(Math.max(now + by, 0), visible.length - 1)];
  if (next) buttonOf(next).focus();
}

function openAddress() {
  const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!row?.matches("tr.row")) return;
  toggle(row, true);
  row.scrollIntoView({ block: "start" });
}
