// The geometry of a page: what is cut off, overflows or overlaps, and where its landmarks are.

// Record the labels that plots write on their canvases, until the next drawing.
function recordLabels() {
  const context = CanvasRenderingContext2D.prototype;
  const { clearRect, fillText } = context;
  context.clearRect = function (...box) {
    this.canvas.labels = [];
    return clearRect.call(this, ...box);
  };
  context.fillText = function (text, x, y) {
    const { e, f } = this.getTransform();
    const size = this.measureText(text);
    const [left, right] = [x + e - size.actualBoundingBoxLeft, x + e + size.actualBoundingBoxRight];
    const [top, bottom] = [y + f - size.actualBoundingBoxAscent, y + f + size.actualBoundingBoxDescent];
    (this.canvas.labels ??= []).push({ text: String(text), left, right, top, bottom });
    return fillText.call(this, text, x, y);
  };
}

// Open all comparisons, and wait for two more frames, in which their plots are made.
function settle() {
  document.querySelectorAll("details").forEach((one) => { one.open = true; });
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  return frame().then(frame).then(frame);
}

const named = (one) => `${one.tagName.toLowerCase()}.${one.getAttribute("class") ?? ""} ${one.textContent.trim().slice(0, 30)}`;
const scrolls = (one) => one.matches(".scroll, pre") && ["auto", "scroll"].includes(getComputedStyle(one).overflowX);
const scroller = (one) => [one.closest(".scroll, pre")].find((found) => found && scrolls(found));
const over = (one, other, wide, high) => Math.min(one.right, other.right) - Math.max(one.left, other.left) > wide
  && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > high;

// Return a sentence for each fault.
function faults() {
  const found = [];
  const all = [...document.body.querySelectorAll("*")].filter((one) => one.checkVisibility() && !one.closest("script"));
  beyondTheWindow(all, found);
  cutOff(all, found);
  outsideDrawings(all, found);
  overlappingTexts(found);
  labelsOfPlots(all, found);
  return found;
}

function beyondTheWindow(all, found) {
  const width = document.documentElement.clientWidth;
  for (const one of all) {
    const box = one.getBoundingClientRect();
    if (!box.width || scroller(one.parentElement) || one.parentElement.closest(".u-over")) continue;
    if (box.left < -0.5 || box.right > width + 0.5) found.push(`beyond the window: ${named(one)}`);
  }
  if (document.documentElement.scrollWidth > width) found.push("the page scrolls sideways");
}

function cutOff(all, found) {
  for (const one of all) {
    if (one.matches("input, select, option, svg, svg *, .u-under, .u-over, canvas")) continue;
    const style = getComputedStyle(one);
    if (style.textOverflow === "ellipsis" || style.webkitLineClamp !== "none") found.push(`shortened: ${named(one)}`);
    for (const [overflow, inner, outer] of [
      [style.overflowX, one.scrollWidth, one.clientWidth], [style.overflowY, one.scrollHeight, one.clientHeight],
    ]) {
      if (overflow !== "visible" && inner > outer + 1 && !scrolls(one)) found.push(`cut off: ${named(one)}`);
    }
  }
}

function outsideDrawings(all, found) {
  for (const drawing of all.filter((one) => one.matches(".chart"))) {
    const frame = drawing.getBoundingClientRect();
    for (const text of drawing.querySelectorAll("text")) {
      const box = text.getBoundingClientRect();
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 3) found.push(`outside its drawing: ${named(text)}`);
    }
  }
}

function overlappingTexts(found) {
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const holder = node.parentElement;
    if (!node.textContent.trim() || !holder.checkVisibility() || holder.closest("script, title, option")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const frame = scroller(holder)?.getBoundingClientRect();
    for (const box of range.getClientRects()) {
      // what is scrolled out of its frame is not visible
      if (frame && (box.bottom > frame.bottom || box.top < frame.top || box.left > frame.right)) continue;
      boxes.push({ text: node.textContent.trim().slice(0, 30), box });
    }
  }
  boxes.sort((one, other) => one.box.top - other.box.top);
  boxes.forEach((one, place) => {
    for (let next = place + 1; next < boxes.length && boxes[next].box.top < one.box.bottom; next++) {
      if (over(one.box, boxes[next].box, 1, 5)) found.push(`overlap: ${one.text} / ${boxes[next].text}`);
    }
  });
}

function labelsOfPlots(all, found) {
  for (const canvas of all.filter((one) => one.matches("canvas"))) {
    const labels = canvas.labels ?? [];
    if (labels.length < 3) found.push(`a plot with ${labels.length} labels`);
    labels.forEach((one, place) => {
      if (one.left < -0.5 || one.top < -0.5 || one.right > canvas.width + 0.5 || one.bottom > canvas.height + 0.5) {
        found.push(`outside its plot: ${one.text}`);
      }
      labels.slice(place + 1).forEach((other) => {
        if (over(one, other, 0, 0)) found.push(`overlap in a plot: ${one.text} / ${other.text}`);
      });
    });
  }
}

// Return the boxes of the landmarks in CSS pixels, in the order of the page.
function landmarks() {
  return [...document.querySelectorAll(
    "header, h1, .byline, .tally, .caution, nav, section, h2, h3, .scroll, table, .legend, .panels, figure, .plot, .bars, .bar, "
    + ".filters, summary, article, pre, dl"
  )].filter((one) => one.checkVisibility()).map((one) => {
    const box = one.getBoundingClientRect();
    const name = [one.tagName.toLowerCase(), one.id || one.classList[0] || ""].filter(Boolean).join(".");
    return { name, left: Math.round(box.left), right: Math.round(box.right), height: Math.round(box.height) };
  });
}
