// The source of an algorithm: show, edit, check, and load it for the running flows.

const WORDS = new RegExp(
  String.raw`("""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)|(#[^\n]*)|` +
    String.raw`\b(False|None|True|and|as|assert|break|class|continue|def|del|elif|else|except|finally|for|from|if|import|in|is|` +
    String.raw`lambda|match|not|or|pass|raise|return|self|super|try|while|with|yield)\b|(@\w+|\b\d[\d_.]*(?:e-?\d+)?\b)`,
  "g",
);
const KINDS = ["string", "comment", "word", "other"];

class Editor {
  constructor(ask) {
    this.ask = ask;
    this.algorithm = "";
    this.saved = "";
    this.badLine = 0;
    this.choice = el("select", { ariaLabel: "algorithm", onchange: () => this.open(this.choice.value) });
    this.gutter = el("div", { className: "gutter" });
    this.colours = el("pre", { ariaHidden: "true" });
    this.text = el("textarea", {
      spellcheck: false,
      wrap: "off",
      ariaLabel: "source of the algorithm",
      oninput: () => ((this.badLine = 0), this.paint()),
      onscroll: () => this.follow(),
      onkeydown: (event) => this.key(event),
    });
    this.said = el("div", { className: "said" });
    this.edited = el("span", { className: "dim" });
    const button = (label, title, what) => el("button", { textContent: label, title, onclick: what });
    this.root = el(
      "section",
      { className: "editor" },
      el(
        "div",
        { className: "bar" },
        el("h3", { textContent: "Algorithm" }),
        this.choice,
        this.edited,
        el("span", { className: "space" }),
        button("check", "compile, verify and test it; flows are not affected (Ctrl+Enter)", () => this.send("check")),
        button("load", "switch running flows to this version (Ctrl+S)", () => this.send("load")),
        button("revert", "discard the edits and show the running version", () => this.open(this.algorithm)),
        button("switch all flows", "move all flows to this algorithm", () => this.send("switch")),
      ),
      el("div", { className: "code" }, this.gutter, el("div", { className: "sheet" }, this.colours, this.text)),
      this.said,
    );
  }

  setState({ algorithms }) {
    const options = algorithms.map((name) => el("option", { textContent: name, value: name }));
    this.choice.replaceChildren(...options);
    if (!algorithms.includes(this.algorithm)) this.algorithm = "";
    this.choice.value = this.algorithm || algorithms[0];
    if (!this.algorithm) this.open(algorithms[0]);
    else if (this.text.value === this.saved) this.open(this.algorithm, false);
  }

  async open(name, emit = true) {
    this.algorithm = name;
    const answer = await this.ask({ do: "source", algorithm: name });
    if (answer.errors) return this.emit(errorBox(answer.errors));
    if (emit || this.text.value === this.saved) this.text.value = this.saved = answer.ok.text;
    this.badLine = 0;
    if (emit) this.emit(answer.ok.text ? "" : "The source of this algorithm is not in a file.");
    this.paint();
  }

  async send(what) {
    const text = this.text.value;
    this.emit(el("span", { className: "dim", textContent: `${what} …` }));
    const answer = await this.ask({ do: what, text, algorithm: this.algorithm });
    this.badLine = 0;
    if (answer.errors) {
      this.badLine = Number(/:(\d+)(?::\d+)?(?:,|$)/.exec(answer.errors[0].where)?.[1] ?? 0);
      this.emit(errorBox(answer.errors));
      this.showBadLine();
    } else if (what === "switch") {
      this.emit(`${answer.ok} flows switched to ${this.algorithm}.`);
    } else {
      const programs = Object.entries(answer.ok.programs).map(([name, fate]) => `program ${name}: ${fate}`);
      const done = what === "check" ? "Check passed." : `Loaded: ${answer.ok.flows} flows switched in ${shortNumber(answer.ok.took_us / 1000)} ms.`;
      this.emit([done, ...programs, ...answer.ok.notes].join(" · "));
      if (what === "load") this.saved = text;
    }
    this.paint();
  }

  emit(what) {
    this.said.replaceChildren(what);
  }

  key(event) {
    if (event.key === "Tab" && !event.shiftKey) {
      event.preventDefault();
      this.text.setRangeText("    ", this.text.selectionStart, this.text.selectionEnd, "end");
      this.paint();
    } else if (event.ctrlKey && (event.key === "Enter" || event.key === "s")) {
      event.preventDefault();
      this.send(event.key === "s" ? "load" : "check");
    }
  }

  paint() {
    const text = this.text.value;
    const parts = [];
    let end = 0;
    for (const found of text.matchAll(WORDS)) {
      parts.push(text.slice(end, found.index));
      const kind = KINDS[found.slice(1).findIndex((group) => group !== undefined)];
      parts.push(el("span", { className: kind, textContent: found[0] }));
      end = found.index + found[0].length;
    }
    this.colours.replaceChildren(...parts, text.slice(end), "\n");
    const lines = text.split("\n").length;
    this.gutter.replaceChildren(
      ...Array.from({ length: lines }, (_, i) => el("div", { textContent: i + 1, className: i + 1 === this.badLine ? "bad" : "" })),
    );
    this.edited.textContent = text === this.saved ? "" : "edited";
    this.follow();
  }

  follow() {
    this.gutter.scrollTop = this.text.scrollTop;
    this.colours.style.transform = `translate(${-this.text.scrollLeft}px, ${-this.text.scrollTop}px)`;
  }

  showBadLine() {
    if (!this.badLine) return;
    const lineHeight = this.text.scrollHeight / this.text.value.split("\n").length;
    this.text.scrollTop = Math.max(0, (this.badLine - 4) * lineHeight);
  }
}
