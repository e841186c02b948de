// Marks at changes of parameters, versions and paths, and at errors: a vertical line, with its text on hover.

class Marks {
  constructor(store) {
    this.store = store;
    this.layer = el("div", { className: "marks" });
    this.shown = "";
    this.open = null;
  }

  // Open the text of the mark under the mouse. It stays open while the mark moves on, until the mouse moves away.
  hover(mark) {
    if (mark === this.open) return;
    this.open?.classList.remove("open");
    this.open = mark;
    mark?.classList.add("open");
  }

  // Show the marks in the area of a plot.
  place(plot) {
    if (this.layer.parentNode !== plot.over) {
      plot.over.append(this.layer);
      plot.over.addEventListener("mousemove", ({ target }) => this.hover(target.closest(".mark")));
      plot.over.addEventListener("mouseleave", () => this.hover(null));
    }
    const { min, max } = plot.scales.x;
    const there = this.store.marks.filter(({ t }) => t >= min && t <= max);
    const key = there.map(({ t, text }) => `${t} ${text}`).join("\n");
    if (key !== this.shown) {
      this.shown = key;
      this.hover(null);
      this.layer.replaceChildren(
        ...there.map(({ kind, text, t }) =>
          el("i", { className: `mark ${kind}` }, el("span", {}, el("b", { textContent: clock(t) }), ` ${text}`)),
        ),
      );
    }
    const width = plot.over.clientWidth;
    there.forEach(({ t }, i) => {
      const left = plot.valToPos(t, "x");
      this.layer.children[i].style.left = `${left}px`;
      this.layer.children[i].classList.toggle("late", left > width / 2); // its text stands left of it
    });
  }
}
