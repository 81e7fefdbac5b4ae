// Interactive plots from the data of the static drawings (uPlot draws lines and axes).
const plots = new Map();
const dark = matchMedia("(prefers-color-scheme: dark)");
const CLIP = 6; // pixels by which markers may stand out of the plot
const ROOM = 12; // pixels right of the plot

const heightOf = (width) => Math.round(Math.min(330, Math.max(220, 0.62 * width)));
const drawnValue = (axis, value) => (axis.log && value <= 0 ? axis.low : value);

// Return the data of uPlot: all x, and for every series its y, or null where it has no point.
function aligned(told) {
  const xs = [...new Set(told.series.flatMap((one) => one.x))].sort((a, b) => a - b);
  const places = new Map(xs.map((x, place) => [x, place]));
  const rows = told.series.map((one) => {
    const row = new Array(xs.length).fill(null);
    one.x.forEach((x, place) => { row[places.get(x)] = drawnValue(told.y, one.y[place]); });
    return row;
  });
  return [xs, ...rows];
}

// Return labels of the x axis without those that would overlap the next one; the last is kept.
function spaced(u, labels, splits) {
  let next = Infinity;
  return splits.map((value, place) => [labels[place], u.valToPos(value, "x")]).reverse().map(([label, at]) => {
    const half = lengthOf(label) / 2;
    if (at + half + 6 > next) return null;
    next = at - half;
    return label;
  }).reverse();
}

function axisOf(plot, name) {
  const axis = plot.told[name];
  const across = name === "x";
  const line = { stroke: () => colour(across ? "strong-line" : "line"), width: 1 };
  const own = across
    ? { values: (u, splits) => spaced(u, splits.map((value) => valueText(axis, value, 3)), splits), size: 26,
        filter: (u, splits) => splits, label: axis.title, labelFont: fontOf(), labelSize: 20, labelGap: 0 }
    : { values: (u, splits) => splits.map((value) => valueText(axis, value, 3)),
        filter: (u, splits) => splits, size: (u, values) => 12 + Math.ceil(Math.max(20, ...(values ?? []).map(lengthOf))) };
  return {
    scale: name, stroke: () => colour("quiet"), font: fontOf(), gap: 4, grid: { ...line, show: !across },
    ticks: { ...line, size: across ? 4 : 0 }, border: { ...line, show: across }, splits: () => ticksOf(axis, plot.view[name]),
    ...own,
  };
}

function optionsOf(plot, width) {
  const { told, view } = plot;
  const scale = (name) => ({ time: false, distr: told[name].log ? 3 : 1, range: () => view[name] });
  const stepped = told.steps ? { paths: uPlot.paths.stepped({ align: 1 }) } : {};
  const series = told.series.map((one) => ({
    scale: "y", stroke: () => colourOf(one.style), width: widthOf(one.layer), dash: dashesOf(one.style),
    spanGaps: true, points: { show: false }, show: !plot.hidden.has(one.style), ...stepped,
  }));
  const names = ticksOf(told.x, view.x).map((value) => lengthOf(valueText(told.x, value, 3)));
  return {
    width, height: heightOf(width), legend: { show: false }, scales: { x: scale("x"), y: scale("y") },
    padding: [8, Math.max(ROOM, Math.ceil(names[names.length - 1] / 2) + 2), 0, 0],
    axes: [axisOf(plot, "x"), axisOf(plot, "y")], series: [{}, ...series],
    cursor: {
      points: { show: false }, y: false, drag: { x: true, y: true, uni: 24, dist: 6, setScale: false },
      bind: { dblclick: () => () => plot.reset() },
    },
    hooks: {
      drawSeries: [(u, place) => drawMarks(plot, u, told.series[place - 1])],
      setSelect: [(u) => zoom(plot, u)],
      setCursor: [(u) => show(plot, u.cursor.left < 0 ? null : nearest(plot, u.cursor.left, u.cursor.top))],
    },
  };
}

// Draw the intervals and the markers of a series.
function drawMarks(plot, u, one) {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio;
  const marker = markerOf(one.style);
  const marked = new Set(one.marked);
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - CLIP * ratio, bbox.top - CLIP * ratio, bbox.width + 2 * CLIP * ratio, bbox.height + 2 * CLIP * ratio);
  ctx.clip();
  ctx.setLineDash([]);
  one.x.forEach((x, place) => {
    const [left, top] = [u.valToPos(x, "x", true), u.valToPos(drawnValue(plot.told.y, one.y[place]), "y", true)];
    ctx.strokeStyle = ctx.fillStyle = colourOf(one.style);
    if (one.low && one.low[place] < one.high[place]) {
      ctx.lineWidth = 1.5 * ratio;
      ctx.beginPath();
      ctx.moveTo(left, u.valToPos(one.low[place], "y", true));
      ctx.lineTo(left, u.valToPos(one.high[place], "y", true));
      ctx.stroke();
    }
    if (!marked.has(place)) return;
    ctx.setTransform(ratio, 0, 0, ratio, left, top);
    ctx.fill(marker);
    ctx.strokeStyle = colour("paper");
    ctx.lineWidth = 0.8;
    ctx.stroke(marker);
    ctx.setTransform(1, 0, 0, 1, 0, 0);
  });
  ctx.restore();
}

// Show the range that was drawn with the pointer.
function zoom(plot, u) {
  const { left, top, width, height } = u.select;
  if (width <= 0 || height <= 0) return;
  plot.view.x = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
  plot.view.y = [u.posToVal(top + height, "y"), u.posToVal(top, "y")];
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  plot.refresh();
}

// Return the data of a figure; the labels of its series are those of the legend of its group.
function toldBy(figure) {
  const told = JSON.parse(figure.dataset.plot);
  const group = figure.closest("[data-plots]");
  for (const one of told.series) {
    one.x ??= told.common[0];
    one.label = group.querySelector(`.legend [data-style="${one.style}"]`).textContent.trim();
  }
  return told;
}

// Make the interactive plot of a figure, which takes the place of its static drawing on screens.
function enhance(figure) {
  if (plots.has(figure) || figure.closest("details:not([open])")) return;
  const told = toldBy(figure);
  const full = () => ({ x: [told.x.low, told.x.high], y: [told.y.low, told.y.high] });
  const frame = element("div", "plot");
  const back = element("button", "back", "whole plot");
  const plot = { told, frame, view: full(), hidden: hiddenBy(figure) };
  plots.set(figure, plot);
  plot.visible = () => told.series.filter((one) => !plot.hidden.has(one.style));
  plot.position = (x, y) => [plot.u.valToPos(x, "x"), plot.u.valToPos(drawnValue(told.y, y), "y")];
  plot.inside = (x, y) => [[x, plot.view.x], [drawnValue(told.y, y), plot.view.y]]
    .every(([value, [low, high]]) => value >= low && value <= high);
  plot.refresh = () => {
    back.hidden = JSON.stringify(plot.view) === JSON.stringify(full());
    show(plot, null);
    plot.u.batch(() => ["x", "y"].forEach((name) => plot.u.setScale(name, { min: plot.view[name][0], max: plot.view[name][1] })));
  };
  plot.reset = () => { Object.assign(plot.view, full()); plot.refresh(); };
  frame.tabIndex = 0;
  frame.setAttribute("role", "group");
  frame.setAttribute("aria-label", `${told.title}; arrow keys read its values`);
  back.type = "button";
  back.hidden = true;
  back.addEventListener("click", plot.reset);
  figure.classList.add("live");
  figure.querySelector(".chart").after(frame);
  plot.readout = readoutOf(plot);
  plot.u = new uPlot(optionsOf(plot, frame.clientWidth), aligned(told), frame);
  plot.u.over.append(plot.readout.spot);
  frame.append(back);
  steerByKeys(plot);
  new ResizeObserver(() => {
    const width = frame.clientWidth;
    if (width > 0 && width !== plot.u.width) plot.u.setSize({ width, height: heightOf(width) });
  }).observe(frame);
}

const enhanceAll = () => document.querySelectorAll("figure[data-plot]").forEach(enhance);
