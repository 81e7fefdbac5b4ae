// Numbers as people read them, in the format of the tables, and round values on an axis.
const TIMES = [[1, "s"], [1e-3, "ms"], [1e-6, "us"]];
const EXACT = 4; // significant digits of a value that is read from a plot; ticks have 3
const MOST_TICKS = 6;
const FEW_DECADES = 300; // a logarithmic axis of a smaller factor also has ticks at 2 and 5 times powers of ten

const digitsOf = (value, digits) => String(Number(value.toPrecision(digits)));
const rounded = (value) => Number(value.toPrecision(3)); // determines the unit: 999.6 ms is written as 1 s
const timeUnit = (value) => TIMES.find(([scale]) => rounded(value) >= scale) ?? TIMES[TIMES.length - 1];

// Return a value with its unit.
function valueText(axis, value, digits) {
  if (axis.unit === "name") return axis.names[Math.round(value)] ?? "";
  if (axis.unit === "count") return digits === EXACT ? Math.round(value).toLocaleString("en") : countText(value);
  if (axis.unit === "percent") return `${digitsOf(100 * value, digits)} %`;
  if (axis.unit === "number" || value === 0) return digitsOf(value, digits) + (axis.unit === "seconds" ? " s" : "");
  const [scale, unit] = timeUnit(value);
  return `${digitsOf(value / scale, digits)} ${unit}`;
}

// Return an interval in the unit of the value, which is written next to it.
function intervalText(axis, low, high, value) {
  const scale = axis.unit === "seconds" ? timeUnit(value)[0] : 1;
  return `[${digitsOf(low / scale, EXACT)}, ${digitsOf(high / scale, EXACT)}]`;
}

function countText(value) {
  if (value < 10_000) return Math.round(value).toLocaleString("en");
  const [scale, letter] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([least]) => rounded(value) >= least);
  return `${digitsOf(value / scale, 3)} ${letter}`;
}

// Return the ticks of an axis in a range: its own ones, or round values.
function ticksOf(axis, [low, high]) {
  if (axis.ticks) {
    const own = axis.ticks.filter((value) => value >= low && value <= high);
    if (own.length > 0) return own;
  }
  const decades = axis.log ? decadesOf(low, high, axis.unit === "count") : [];
  return decades.length > 1 ? decades : stepsOf(low, high, axis.unit === "count" || axis.unit === "name");
}

function decadesOf(low, high, whole) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const digit of high / low < FEW_DECADES ? [1, 2, 5] : [1]) {
      const value = Number(`${digit}e${power}`);
      if (value >= low && value <= high && (value >= 1 || !whole)) found.push(value);
    }
  }
  return found;
}

function stepsOf(low, high, whole) {
  const least = (high - low) / MOST_TICKS;
  const power = 10 ** Math.floor(Math.log10(least));
  const round = [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= least * (1 - 1e-9));
  const step = whole ? Math.max(1, round) : round;
  const found = [];
  for (let place = Math.ceil(low / step - 1e-9); place <= Math.floor(high / step + 1e-9); place++) {
    found.push(Number((place * step).toPrecision(12)));
  }
  return found;
}
