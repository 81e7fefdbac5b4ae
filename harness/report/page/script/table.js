// Sort and filter the table of cells. The page is complete without this script.
const table = document.querySelector(".cells");
const body = table.tBodies[0];
const rows = [...body.rows];
const words = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
const buttons = [...table.querySelectorAll("thead button")];
const sortBy = document.getElementById("sort");
const find = document.getElementById("find");
const narrow = [...document.querySelectorAll("[data-narrow]")];
const ENGINE = 3, OUTCOME = 4;

// Compare numbers by value and texts by locale; rows without a value come last in either direction.
function compare(column, direction) {
  const numeric = buttons[column].parentElement.classList.contains("number");
  const key = (row) => {
    const cell = row.cells[column];
    if (!numeric) return cell.textContent;
    return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
  };
  return (a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    return direction * (numeric ? x - y : x.localeCompare(y));
  };
}

function sort(column, direction) {
  const order = direction ? [...rows].sort(compare(column, direction)) : rows;
  body.append(...order);
  buttons.forEach((button, place) => {
    const name = place === column && direction ? (direction > 0 ? "ascending" : "descending") : "none";
    button.parentElement.setAttribute("aria-sort", name);
  });
  sortBy.value = direction ? String(column) : "";
}

// Clicking a heading sorts in ascending order, then descending, then restores the order of the sweep.
buttons.forEach((button, column) => button.addEventListener("click", () => {
  const now = button.parentElement.getAttribute("aria-sort");
  sort(column, now === "ascending" ? -1 : now === "descending" ? 0 : 1);
}));
sortBy.addEventListener("change", () => sort(Number(sortBy.value), sortBy.value === "" ? 0 : 1));

function fits(row, wanted) {
  if (!wanted.every((word) => words.get(row).includes(word))) return false;
  const own = {
    graph: row.dataset.graph,
    algorithm: row.dataset.algorithm,
    engine: row.cells[ENGINE].textContent,
    outcome: row.cells[OUTCOME].textContent,
  };
  return narrow.every((select) => !select.value || own[select.dataset.narrow] === select.value);
}

function filter() {
  const wanted = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    row.hidden = !fits(row, wanted);
    shown += !row.hidden;
  }
  document.getElementById("shown").textContent = `${shown} of ${rows.length}`;
  document.getElementById("nothing").hidden = shown > 0;
}
find.addEventListener("input", filter);
narrow.forEach((select) => select.addEventListener("change", filter));
document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
filter();
