// Legends whose entries hide and show series in all plots of their group, and phases in all bars.
const hiddenStyles = new WeakMap();

// Return the numbers of the series that are hidden in the group of plots of an element.
function hiddenBy(inside) {
  const group = inside.closest("[data-plots]");
  if (!hiddenStyles.has(group)) hiddenStyles.set(group, new Set());
  return hiddenStyles.get(group);
}

// Make an entry of a legend a button that calls `change` with whether its series is shown now.
function toggling(entry, change) {
  const button = element("button", "toggle");
  button.type = "button";
  button.setAttribute("aria-pressed", "true");
  button.title = "Hide or show";
  button.append(...entry.childNodes);
  entry.append(button);
  button.addEventListener("click", () => {
    const pressed = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(pressed));
    change(pressed);
  });
}

function toggleSeries(entry, pressed) {
  const style = Number(entry.dataset.style);
  const hidden = hiddenBy(entry);
  hidden[pressed ? "delete" : "add"](style);
  const group = entry.closest("[data-plots]");
  for (const [figure, plot] of plots) {
    if (figure.closest("[data-plots]") !== group) continue;
    show(plot, null);
    plot.told.series.forEach((one, place) => {
      if (one.style === style) plot.u.setSeries(place + 1, { show: pressed });
    });
  }
}

// Draw the visible phases of all bars of a chart; the longest bar fills the width.
function drawBars(chart, styles, hidden) {
  const bars = [...chart.querySelectorAll(".bar")].map((bar) => {
    const parts = JSON.parse(bar.dataset.parts).filter(([name]) => !hidden.has(name));
    return { bar, parts, total: parts.reduce((sum, [, spent]) => sum + spent, 0) };
  });
  const longest = Math.max(1e-9, ...bars.map((one) => one.total));
  for (const { bar, parts } of bars) {
    const scale = bar.viewBox.baseVal.width / longest;
    let spent = 0;
    bar.replaceChildren(...parts.map(([name, part]) => {
      const rect = document.createElementNS(bar.namespaceURI, "rect");
      const title = document.createElementNS(bar.namespaceURI, "title");
      title.textContent = `${name}: ${valueText({ unit: "seconds" }, part, EXACT)}`;
      rect.setAttribute("class", `phase ${styles.get(name)}`);
      Object.entries({ x: spent * scale, y: 0, width: part * scale, height: bar.viewBox.baseVal.height })
        .forEach(([key, value]) => rect.setAttribute(key, value));
      rect.append(title);
      spent += part;
      return rect;
    }));
  }
}

const HINT = "Point at a plot to read its values, drag in it to zoom, and select a name to hide or show it.";

function makeLegends() {
  for (const section of document.querySelectorAll("section")) {
    section.querySelector(".legend:last-of-type")?.after(element("p", "note hint", HINT));
  }
  document.querySelectorAll(".legend [data-style]").forEach((entry) => toggling(entry, (on) => toggleSeries(entry, on)));
  const phases = [...document.querySelectorAll(".legend [data-phase]")];
  const styles = new Map(phases.map((entry) => [entry.dataset.phase, entry.dataset.shade]));
  const hidden = new Set();
  phases.forEach((entry) => toggling(entry, (on) => {
    hidden[on ? "delete" : "add"](entry.dataset.phase);
    document.querySelectorAll(".bars").forEach((chart) => drawBars(chart, styles, hidden));
  }));
}
