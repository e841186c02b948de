// Connects the page's controls.

for (const row of rows) {
  row.addEventListener("click", (event) => {
    if (event.target.closest("a, button:not(.open), input, select") || getSelection().toString()) return;
    toggle(row);
    if (isOpen(row)) history.replaceState(null, "", `#${row.id}`);
  });
}
for (const button of document.querySelectorAll(".share")) {
  button.addEventListener("click", () => {
    const { verdict } = button.dataset;
    chosen[chosen.has(verdict) ? "delete" : "add"](verdict);
    button.setAttribute("aria-pressed", String(chosen.has(verdict)));
    button.parentElement.classList.toggle("choosing", chosen.size > 0);
    select();
  });
}
for (const button of document.querySelectorAll("button.sort")) button.addEventListener("click", () => sortBy(button));
for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.dataset.text);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(button.previousElementSibling); // pages from a file may not write to the clipboard
      button.textContent = "selected";
    }
    setTimeout(() => (button.textContent = "copy"), 1500);
  });
}
document.getElementById("search").addEventListener("input", select);
document.getElementById("differing").addEventListener("change", select);
document.getElementById("open-all").addEventListener("click", () => rows.filter((row) => !row.hidden).forEach((row) => toggle(row, true)));
document.getElementById("close-all").addEventListener("click", () => rows.forEach((row) => toggle(row, false)));

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  const action = { j: () => move(1), k: () => move(-1), "/": () => document.getElementById("search").focus() }[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

const picker = document.getElementById("theme");
const redraw = () => {
  charts.forEach((one) => one.build());
  document.querySelectorAll(".swatch").forEach(paint);
};
picker.addEventListener("change", () => {
  document.documentElement.dataset.theme = picker.value;
  redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
addEventListener("resize", () => charts.forEach((one) => one.resized()));
addEventListener("hashchange", openAddress);

if (!document.querySelector(".rows:not(.sides-0):not(.sides-1)")) document.getElementById("differing").parentElement.hidden = true;
fill(document);
openAddress();

// Figures are printed on white.
addEventListener("beforeprint", () => {
  document.documentElement.dataset.theme = "light";
  document.querySelectorAll(WANTED).forEach(show);
  redraw();
});
addEventListener("afterprint", () => {
  document.documentElement.dataset.theme = picker.value;
  redraw();
});
