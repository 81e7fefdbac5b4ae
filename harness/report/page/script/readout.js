// The values at a point of a plot, next to it, for the pointer and for the arrow keys.
function readoutOf(plot) {
  const box = element("div", "readout");
  const spot = element("i", "spot");
  box.setAttribute("role", "status");
  box.hidden = spot.hidden = true;
  plot.frame.append(box);
  return { box, spot, place: -1 };
}

// Return the visible point nearest to a position in the plot: its series and its place in it.
function nearest(plot, left, top) {
  let best = null;
  for (const one of plot.visible()) {
    one.x.forEach((x, place) => {
      if (!plot.inside(x, one.y[place])) return;
      const [across, up] = plot.position(x, one.y[place]);
      const distance = Math.hypot(across - left, up - top);
      if (best === null || distance < best.distance) best = { one, place, distance };
    });
  }
  return best;
}

// Show the values of all series at the x of a point, from the highest to the lowest.
function show(plot, found) {
  const { box, spot } = plot.readout;
  box.hidden = spot.hidden = found === null;
  if (found === null) return;
  const x = found.one.x[found.place];
  const rows = plot.visible().filter((one) => one.x.includes(x)).map((one) => [one, one.x.indexOf(x)]);
  rows.sort(([a, i], [b, j]) => b.y[j] - a.y[i]);
  const heading = element("b", "", `${plot.told.x.title} ${valueText(plot.told.x, x, EXACT)}`);
  box.replaceChildren(heading, ...rows.map(([one, place]) => rowOf(plot, one, place, one === found.one)));
  placeBox(plot, ...plot.position(x, found.one.y[found.place]));
}

function rowOf(plot, one, place, near) {
  const row = element("span", near ? "row near" : "row");
  const value = valueText(plot.told.y, one.y[place], EXACT);
  const interval = one.low && one.low[place] < one.high[place]
    ? ` ${intervalText(plot.told.y, one.low[place], one.high[place], one.y[place])}` : "";
  row.append(keyOf(one.style), element("span", "", one.label), element("span", "value", value + interval));
  return row;
}

// Put the box beside the point, inside the plot's frame, and the spot onto it.
function placeBox(plot, left, top) {
  const { box, spot } = plot.readout;
  spot.style.left = `${left}px`;
  spot.style.top = `${top}px`;
  const over = plot.u.over;
  const wide = plot.frame.clientWidth;
  const from = over.offsetLeft + left;
  const right = from + 14 + box.offsetWidth <= wide;
  box.style.left = `${Math.max(0, Math.min(wide - box.offsetWidth, right ? from + 14 : from - 14 - box.offsetWidth))}px`;
  box.style.top = `${Math.max(0, over.offsetTop + top - box.offsetHeight - 10)}px`;
}

// Arrow keys go from point to point and from series to series; Escape hides the values and shows the whole plot.
function steerByKeys(plot) {
  let series = 0;
  let place = -1;
  plot.frame.addEventListener("keydown", (event) => {
    const seen = plot.visible();
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.key === "Escape") plot.reset();
    if (event.key === "Escape" || !steps || seen.length === 0) return;
    event.preventDefault();
    series = (series + steps[0] + seen.length) % seen.length;
    const one = seen[series];
    place = Math.max(0, Math.min(one.x.length - 1, place + steps[1]));
    show(plot, { one, place });
  });
}
