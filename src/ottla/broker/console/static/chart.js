// Line charts on a canvas: a few series over time, a grid, a line where the mouse is. Nothing is animated.
//
//   const chart = lineChart("Records in", [{ name: "in", key: "k1" }], rate);
//   chart.draw(times, [values]);          // as often as there is news; nothing is kept but what is drawn

import { h } from "./dom.js";
import { clock } from "./format.js";

const HEIGHT = 190;
const LEFT = 64;
const BOTTOM = 22;
const TOP = 10;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A round number at or above the largest value, and the steps to it; powers of two for bytes. */
function ticks(largest, isBinary) {
  const rough = (largest > 0 ? Math.max(largest, isBinary ? 4 : 1e-9) : isBinary ? 4096 : 4) / 4; // nothing yet: 1, 2, 3, 4
  if (isBinary) return [0, 1, 2, 3, 4].map((at) => at * 2 ** Math.ceil(Math.log2(rough)));
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * size).find((each) => each >= rough);
  return [0, 1, 2, 3, 4].map((at) => at * step);
}

/** The widest pieces of a line that have values. */
function path(context, times, values, x, y) {
  context.beginPath();
  let isDown = false;
  times.forEach((at, index) => {
    const value = values[index];
    if (value === null || value === undefined) { isDown = false; return; }
    if (isDown) context.lineTo(x(at), y(value));
    else context.moveTo(x(at), y(value));
    isDown = true;
  });
  context.stroke();
}

export function lineChart(title, series, format, { fill = true, isBinary = false } = {}) {
  const canvas = h("canvas", { role: "img", "aria-label": title });
  const legend = series.map((each) => ({ ...each, text: h("span", { class: "num" }, "–") }));
  const element = h("div", { class: "chart" }, canvas,
    h("div", { class: "legend" }, legend.map((each) => h("span", { class: "key" }, h("i", { class: each.key }), each.name, " ", each.text))));
  let drawn = { times: [], columns: [] };
  let pointer = null;

  function paint() {
    const { times, columns } = drawn;
    const width = canvas.clientWidth || 600;
    const scale = window.devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = HEIGHT * scale;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    context.font = `11px ${getComputedStyle(document.documentElement).fontFamily}`;
    const marks = ticks(Math.max(0, ...columns.flat().filter((each) => each !== null && each !== undefined)), isBinary);
    const top = marks[marks.length - 1];
    const [first, last] = [times[0] ?? 0, times[times.length - 1] ?? 1];
    const x = (at) => LEFT + ((at - first) / Math.max(1, last - first)) * (width - LEFT - 8);
    const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
    grid(context, marks, width, y);
    if (times.length < 2) return say(context, width);
    for (const [at, text] of [[first, "left"], [last, "right"]]) {
      context.textAlign = text;
      context.fillText(clock(at), x(at), HEIGHT - 6);
    }
    columns.forEach((values, index) => line(context, times, values, series[index].key, x, y, index === 0 && fill));
    crosshair(context, times, columns, x, y);
  }

  function grid(context, marks, width, y) {
    context.strokeStyle = colour("--grid");
    context.fillStyle = colour("--muted");
    context.textAlign = "right";
    context.lineWidth = 1;
    for (const mark of marks) {
      context.beginPath();
      context.moveTo(LEFT, Math.round(y(mark)) + 0.5);
      context.lineTo(width - 8, Math.round(y(mark)) + 0.5);
      context.stroke();
      context.fillText(format(mark), LEFT - 8, y(mark) + 4);
    }
  }

  function say(context, width) {
    context.textAlign = "center";
    context.fillText("collecting…", LEFT + (width - LEFT) / 2, HEIGHT / 2);
  }

  function line(context, times, values, key, x, y, isFilled) {
    context.strokeStyle = colour(`--c${key.slice(1)}`);
    context.lineWidth = 1.8;
    context.lineJoin = "round";
    path(context, times, values, x, y);
    if (!isFilled) return;
    context.lineTo(x(times[times.length - 1]), y(0));
    context.lineTo(x(times[0]), y(0));
    context.globalAlpha = 0.1;
    context.fillStyle = colour(`--c${key.slice(1)}`);
    context.fill();
    context.globalAlpha = 1;
  }

  function crosshair(context, times, columns, x, y) {
    let at = times.length - 1;
    if (pointer !== null) {
      at = times.reduce((best, each, index) => (Math.abs(x(each) - pointer) < Math.abs(x(times[best]) - pointer) ? index : best), 0);
      context.strokeStyle = colour("--muted");
      context.beginPath();
      context.moveTo(x(times[at]), TOP);
      context.lineTo(x(times[at]), HEIGHT - BOTTOM);
      context.stroke();
      context.fillStyle = colour("--muted");
      context.textAlign = "center";
      context.fillText(clock(times[at]), x(times[at]), HEIGHT - 6);
    }
    legend.forEach((each, index) => {
      const value = columns[index][at];
      each.text.textContent = value === null || value === undefined ? "–" : format(value);
      if (pointer === null || value === null || value === undefined) return;
      context.fillStyle = colour(`--c${each.key.slice(1)}`);
      context.beginPath();
      context.arc(x(times[at]), y(value), 3.5, 0, 7);
      context.fill();
    });
    canvas.setAttribute("aria-label", `${title}: ${legend.map((each) => `${each.name} ${each.text.textContent}`).join(", ")}`);
  }

  canvas.addEventListener("mousemove", (event) => { pointer = event.offsetX; paint(); });
  canvas.addEventListener("mouseleave", () => { pointer = null; paint(); });
  new ResizeObserver(() => paint()).observe(canvas);
  window.addEventListener("ottla-theme", paint);
  return { element, draw(times, columns) { drawn = { times, columns }; paint(); } };
}
