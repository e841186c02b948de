// Okabe and Ito's colours, distinguishable with colour blindness, and a shape for each, for those who see no colours.

const ON_LIGHT = ["#0072b2", "#d55e00", "#009e73", "#aa3377", "#b58900", "#3399cc", "#666666", "#332288"];
const ON_DARK = ["#56b4e9", "#ff8c42", "#2fd0a0", "#e58fc0", "#f0c341", "#9fd8ff", "#b0b0b0", "#a99cf0"];
const SHAPES = ["circle", "square", "triangle", "diamond", "down", "cross"];

function theme() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    palette: of("dark") === "1" ? ON_DARK : ON_LIGHT,
    text: of("text"),
    dim: of("dim"),
    grid: of("grid"),
    good: of("good"),
    back: of("card"),
  };
}

// Draw the shape of a series; `r` in pixels of the canvas.
function shape(ctx, number, x, y, r) {
  const kind = SHAPES[number % SHAPES.length];
  ctx.beginPath();
  if (kind === "circle") ctx.arc(x, y, r, 0, 2 * Math.PI);
  else if (kind === "square") ctx.rect(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r);
  else if (kind === "cross") {
    ctx.rect(x - r, y - 0.35 * r, 2 * r, 0.7 * r);
    ctx.rect(x - 0.35 * r, y - r, 0.7 * r, 2 * r);
  } else {
    const corners = { triangle: [[0, -1.2], [1.1, 0.8], [-1.1, 0.8]], down: [[0, 1.2], [1.1, -0.8], [-1.1, -0.8]], diamond: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]] };
    corners[kind].forEach(([a, b]) => ctx.lineTo(x + a * r, y + b * r));
    ctx.closePath();
  }
  ctx.fill();
}

// The shape of a series as an image in a legend.
function swatch(number) {
  const canvas = make("canvas", { width: 28, height: 28, className: "swatch" });
  canvas.dataset.number = number;
  canvas.setAttribute("aria-hidden", "true");
  paint(canvas);
  return canvas;
}

function paint(canvas) {
  const number = Number(canvas.dataset.number);
  const ctx = canvas.getContext("2d");
  const { palette } = theme();
  ctx.clearRect(0, 0, canvas.width, canvas.height);
  ctx.fillStyle = palette[number % palette.length];
  shape(ctx, number, 14, 14, 9);
}
