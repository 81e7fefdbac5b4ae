// Colours of the style sheet, and the looks of series: those of the static drawings.
const STROKES = JSON.parse(document.body.dataset.strokes);
const known = new Map();
const LETTERS = document.createElement("canvas").getContext("2d");

// Return the value of a colour of the style sheet, in the light or the dark scheme.
function colour(name) {
  if (!known.has(name)) known.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return known.get(name);
}
const colourOf = (style) => colour(`c${style % STROKES.colours}`);
const dashesOf = (style) => STROKES.dashes[style % STROKES.dashes.length];
const markerOf = (style) => new Path2D(`M0,0${STROKES.markers[style % STROKES.markers.length]}`);
const widthOf = (layer) => 2 + 2 * layer; // a series is wider than those that are drawn over it

const fontOf = () => `12px ${getComputedStyle(document.body).fontFamily}`;
function lengthOf(text) {
  LETTERS.font = fontOf();
  return LETTERS.measureText(text).width;
}

function element(name, className, text = "") {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

// Return the sign of a series in legends: its line and its marker.
function keyOf(style) {
  return document.querySelector(`.legend [data-style="${style}"] .key`).cloneNode(true);
}
