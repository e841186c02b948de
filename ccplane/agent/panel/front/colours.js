// Okabe and Ito's colours, distinguishable with colour blindness; lighter on dark pages.

const ON_LIGHT = ["#0072b2", "#d55e00", "#009e73", "#aa3377", "#b58900", "#3399cc", "#666666"];
const ON_DARK = ["#56b4e9", "#ff8c42", "#2fd0a0", "#e58fc0", "#f0c341", "#9fd8ff", "#b0b0b0"];
const FEW = 7; // up to this many flows each have a colour; beyond, each algorithm has one

class Colours {
  constructor(root) {
    this.root = root;
    this.order = []; // algorithms keep their colours
    this.read();
  }

  read() {
    const style = getComputedStyle(this.root);
    const [r, g, b] = (style.backgroundColor.match(/[\d.]+/g) ?? [255, 255, 255]).map(Number);
    this.dark = 0.3 * r + 0.6 * g + 0.1 * b < 128;
    this.palette = this.dark ? ON_DARK : ON_LIGHT;
    this.text = style.color;
    this.back = style.backgroundColor;
    this.grid = style.getPropertyValue("--ccp-grid").trim();
    this.dim = style.getPropertyValue("--ccp-dim").trim();
  }

  ofAlgorithm(name) {
    if (!this.order.includes(name)) this.order.push(name);
    return this.palette[this.order.indexOf(name) % this.palette.length];
  }

  ofFlow(store, column) {
    if (store.flows.size <= FEW) return this.palette[[...store.flows.keys()].indexOf(column) % this.palette.length];
    return this.ofAlgorithm(store.flows.get(column).algorithm);
  }
}
