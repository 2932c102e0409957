"use strict";

// "N" belongs to TTF-N alone: without it the input is switched off, so that it is not sent.
function matchN(select) {
  const n = document.getElementById(select.id.replace(/metric$/, "n"));
  if (!n) return;
  n.disabled = select.value !== "ttf_n";
  n.closest(".field").hidden = n.disabled;
}

// What describes one kind of arrivals is switched off for the others.
const OF_ARRIVALS = { rate: ["poisson", "gamma"], cv: ["gamma"], speed: ["recorded"] };

function matchArrivals() {
  const kind = document.querySelector("select[name='traffic.arrivals.kind']").value;
  for (const [name, kinds] of Object.entries(OF_ARRIVALS)) {
    const input = document.querySelector(`[name='traffic.arrivals.${name}']`);
    input.disabled = !kinds.includes(kind);
    input.closest(".field").hidden = input.disabled;
  }
}

function matchAll() {
  document.querySelectorAll("select[name$='.metric']").forEach(matchN);
  matchArrivals();
}

document.addEventListener("change", (event) => {
  if (event.target.matches("select[name$='.metric']")) matchN(event.target);
  if (event.target.matches("select[name='traffic.arrivals.kind']")) matchArrivals();
});
document.addEventListener("htmx:afterSettle", matchAll);
document.addEventListener("DOMContentLoaded", () => {
  matchAll();
  const wrong = document.getElementById("form-errors") || document.getElementById("sla-error");
  if (wrong) (document.querySelector("[aria-invalid='true']") || wrong).focus();
});
