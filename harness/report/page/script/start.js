// Replace the drawings that are visible; those of closed comparisons when they are opened.
makeLegends();
enhanceAll();
document.querySelectorAll("details").forEach((one) => one.addEventListener("toggle", enhanceAll));
dark.addEventListener("change", () => {
  known.clear();
  plots.forEach((plot) => plot.u.redraw());
});
