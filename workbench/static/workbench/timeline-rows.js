// The file of a timeline, whose form workers/traces/timeline.py describes, as rows of events; and times in words.

// Heights in pixels: of a row, of the name above a lane, of the axis on top.
export const ROW = 18, LABEL = 17, AXIS = 22;

export function time(ns) {
  if (ns < 1e3) return `${ns} ns`;
  return ns < 1e6 ? `${Number((ns / 1e3).toPrecision(4))} µs` : `${Number((ns / 1e6).toPrecision(4))} ms`;
}

// A mark on an axis whose marks are `step` ns apart: as many digits as tell neighbours apart.
export function tick(ns, step) {
  const [size, unit] = ns < 1e3 ? [1, "ns"] : ns < 1e6 ? [1e3, "µs"] : [1e6, "ms"];
  return `${(ns / size).toFixed(Math.max(0, Math.ceil(Math.log10(size / step))))} ${unit}`;
}

export function share(part, whole) {
  const percent = (100 * part) / whole;
  return percent > 0 && percent < 0.05 ? "<0.1 %" : `${percent.toFixed(1)} %`;
}

// Rows with the starts and ends of their events in ns, and the place of each row below the axis.
export function unpack(file) {
  const rows = [], labels = [], totals = file.names.map(() => ({ events: 0, ns: 0 }));
  let top = AXIS;
  for (const lane of file.lanes) {
    labels.push({ name: lane.name, top });
    top += LABEL;
    for (const { gaps, durations, events } of lane.rows) {
      const starts = new Float64Array(gaps.length), ends = new Float64Array(gaps.length);
      let at = 0;
      gaps.forEach((gap, index) => {
        at += gap;
        starts[index] = at;
        ends[index] = at + durations[index];
        totals[events[index]].events += 1;
        totals[events[index]].ns += durations[index];
      });
      rows.push({ lane: lane.name, top, starts, ends, events });
      top += ROW;
    }
    top += 6;
  }
  return { rows, labels, totals, names: file.names, whole: Math.max(file.duration_ns, 1), height: top };
}

// The first event of the row that ends after `ns`.
export function firstAfter(row, ns) {
  let low = 0, high = row.ends.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row.ends[middle] <= ns) low = middle + 1;
    else high = middle;
  }
  return low;
}
