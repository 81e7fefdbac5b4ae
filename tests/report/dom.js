// As much of a document as the script of a page needs, for tests without a browser. `found` has what queries return.
class Fake {
  constructor(given = {}) {
    Object.assign(this, {
      text: "", className: "", childNodes: [], dataset: {}, attributes: {}, style: {}, listeners: {}, found: {},
      hidden: false, value: "", classList: { contains: () => false, add: () => {} },
    }, given);
  }
  get textContent() { return this.text + this.childNodes.map((one) => one.textContent ?? one).join(""); }
  set textContent(text) { this.text = text; }
  append(...given) {
    this.childNodes = this.childNodes.filter((one) => !given.includes(one)).concat(given);
    given.forEach((one) => { one.parentElement = this; });
  }
  replaceChildren(...given) { this.childNodes = given; }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  getAttribute(name) { return this.attributes[name] ?? null; }
  addEventListener(name, call) { (this.listeners[name] ??= []).push(call); }
  fire(name, event = {}) { (this.listeners[name] ?? []).forEach((call) => call({ preventDefault: () => {}, ...event })); }
  querySelector(query) { return this.found[query] ?? null; }
  querySelectorAll(query) { return this.found[query] ?? []; }
  closest(query) { return this.found[query] ?? null; }
  cloneNode(deep) { return new Fake({ text: this.text, childNodes: deep ? [...this.childNodes] : [] }); }
  after(...given) { this.followers = [...given, ...(this.followers ?? [])]; }
}
const letters = { measureText: (text) => ({ width: 6 * text.length }) };
const document = new Fake({
  body: new Fake({ dataset: { strokes: JSON.stringify({ colours: 8, dashes: [[], [8, 4]], markers: ["a", "b"] }) } }),
  createElement: () => new Fake({ getContext: () => letters }),
  createElementNS: () => new Fake(),
  getElementById(name) { return this.found[`#${name}`]; },
});
const matchMedia = () => new Fake();
class Path2D { constructor(path) { this.path = path; } }
let devicePixelRatio = 1;
const getComputedStyle = () => ({ fontFamily: "sans", getPropertyValue: (name) => name });

// Return a plot of two series as the script keeps it; positions are ten pixels a unit, upwards from 100.
function plotted(told, hidden = []) {
  for (const { style } of told.series) document.found[`.legend [data-style="${style}"] .key`] = new Fake();
  const plot = {
    told, hidden: new Set(hidden), calls: [], view: { x: [0, 10], y: [0, 10] }, frame: new Fake({ clientWidth: 400 }),
    reset: () => plot.calls.push("reset"), refresh: () => plot.calls.push("refresh"),
  };
  plot.visible = () => told.series.filter((one) => !plot.hidden.has(one.style));
  plot.position = (x, y) => [10 * x, 100 - 10 * y];
  plot.inside = (x, y) => [x, y].every((value) => value >= 0 && value <= 10);
  plot.u = {
    over: { offsetLeft: 0, offsetTop: 0 }, setSelect: () => plot.calls.push("selected"),
    posToVal: (at, axis) => (axis === "x" ? at / 10 : (100 - at) / 10),
    setSeries: (place, { show }) => plot.calls.push([place, show]),
  };
  plot.readout = readoutOf(plot);
  Object.assign(plot.readout.box, { offsetWidth: 50, offsetHeight: 20 });
  return plot;
}
const readOut = (plot) => plot.readout.box.childNodes.map((one) => [one.className, one.childNodes.length ? one.childNodes.map((part) => part.textContent) : one.textContent]);
