"use strict";

// The heads of a table of three rows or more sort it. A list in pages is sorted by the server, whose heads are links;
// rows that are parts of the row above them (.part), or that span others, stay in their order.
const UNITS = { ns: 1e-9, "µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };

// What a cell is sorted by: its number, in seconds or bytes where it has such a unit, or its text; "–" is nothing.
function sortKey(cell) {
  const text = cell?.textContent.trim() ?? "";
  if (text === "" || text === "–") return null;
  const number = text.match(/^[$≤≥<>]?\s*([+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)(?:\s*([a-zµA-Z]+))?/);
  if (!number || /^\d{4}-\d\d-/.test(text)) return text.toLowerCase();
  return Number(number[1].replaceAll(",", "")) * (UNITS[number[2]] ?? 1);
}

function order(left, right) {
  if (left === null || right === null) return (left === null) - (right === null);
  if (typeof left === typeof right) return left < right ? -1 : Number(left > right);
  return typeof left === "number" ? -1 : 1;
}

function sortBy(table, head) {
  const descending = head.ariaSort === "ascending", body = table.tBodies[0], at = head.cellIndex;
  const rows = [...body.rows].map((row) => [sortKey(row.cells[at]), row]);
  const [empty, known] = [rows.filter(([key]) => key === null), rows.filter(([key]) => key !== null)];
  known.sort((left, right) => (descending ? -1 : 1) * order(left[0], right[0]));
  body.append(...known.map(([, row]) => row), ...empty.map(([, row]) => row));
  for (const each of head.parentElement.cells) each.removeAttribute("aria-sort");
  head.ariaSort = descending ? "descending" : "ascending";
}

function makeSortable(table) {
  const [heads] = table.tHead?.rows ?? [], body = table.tBodies[0];
  if (!heads || !body || body.rows.length < 3 || table.tHead.rows.length > 1) return;
  if (table.querySelector("thead a[href*='sort='], .sort, .part, tbody [rowspan], tbody [colspan]")) return;
  if (table.closest("section, main")?.querySelector(".pagination")) return;
  for (const head of heads.cells) {
    const name = head.textContent.trim();
    if (!name || head.querySelector("input, button")) continue;
    const button = Object.assign(document.createElement("button"), { type: "button", className: "sort", title: `Sort by ${name}` });
    if (head.querySelector("a")) button.ariaLabel = `Sort by ${name}`;
    if (head.querySelector("a")) button.append(Object.assign(document.createElement("span"), { className: "on-screen", textContent: "↕" }));
    else button.append(...head.childNodes);
    button.addEventListener("click", () => sortBy(table, head));
    head.append(button);
  }
}

const makeAllSortable = () => document.querySelectorAll("table.table").forEach(makeSortable);
makeAllSortable();
document.addEventListener("htmx:afterSettle", makeAllSortable);
