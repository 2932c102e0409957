"use strict";

// "N" belongs to TTF-N alone: without it the input is switched off, so that it is not sent.
function matchN(select) {
  const n = document.getElementById(select.id.replace(/metric$/, "n"));
  if (!n) return;
  n.disabled = select.value !== "ttf_n";
  n.closest(".field").hidden = n.disabled;
}

// The limit's unit is the metric's.
function matchUnit(select) {
  const hint = document.getElementById(select.id.replace(/metric$/, "limit-hint"));
  if (hint) hint.textContent = select.selectedOptions[0].dataset.about;
}

// What describes one kind of arrivals or lengths is switched off for the others.
const ARRIVALS = { rate: ["poisson", "gamma"], cv: ["gamma"], speed: ["recorded"], think_s: ["closed"] };
const LENGTHS = {
  tokens: ["fixed"], low: ["uniform"], high: ["uniform"],
  median: ["log-normal"], sigma: ["log-normal"], most: ["log-normal"],
};
const OF_KIND = {
  "traffic.arrivals": ARRIVALS, "traffic.prompt_lengths": LENGTHS, "traffic.output_lengths": LENGTHS,
};

function matchKinds() {
  for (const [part, fields] of Object.entries(OF_KIND)) {
    const kind = document.querySelector(`select[name='${part}.kind']`).value;
    for (const [name, kinds] of Object.entries(fields)) {
      const input = document.querySelector(`[name='${part}.${name}']`);
      input.disabled = !kinds.includes(kind);
      input.closest(".field").hidden = input.disabled;
    }
  }
}

// A file that no text of the form may be as long as is not sent: the server would refuse the whole form with it.
function refuseTooLarge(input) {
  const [file] = input.files, most = Number(input.dataset.mostBytes);
  const error = document.getElementById(`${input.id}-error`);
  error.hidden = !file || file.size <= most;
  if (error.hidden) return;
  const size = file.size.toLocaleString("en");
  error.textContent = `${file.name} was not taken: it has ${size} bytes, and at most ${most.toLocaleString("en")} are read here`;
  input.value = "";
}

// A limit and a factor stand in place of each other: the one that is typed empties the other.
function emptyOther(input) {
  const name = input.name.endsWith(".limit") ? "at_least_faster" : "limit";
  if (input.value) document.getElementsByName(input.name.replace(/[a-z_]+$/, name))[0].value = "";
}

function matchAll() {
  document.querySelectorAll("select[name$='.metric']").forEach(matchN);
  document.querySelectorAll("select[name$='.metric']").forEach(matchUnit);
  matchKinds();
}

document.addEventListener("change", (event) => {
  if (event.target.matches("select[name$='.metric']")) {
    matchN(event.target);
    matchUnit(event.target);
  }
  if (event.target.matches("select[name$='.kind']")) matchKinds();
  if (event.target.matches("input[data-most-bytes]")) refuseTooLarge(event.target);
});
document.addEventListener("input", (event) => {
  if (event.target.matches("[name$='.limit'], [name$='.at_least_faster']")) emptyOther(event.target);
});
document.addEventListener("htmx:afterSettle", matchAll);
document.addEventListener("DOMContentLoaded", () => {
  matchAll();
  const wrong = document.getElementById("form-errors") || document.getElementById("sla-error");
  if (wrong) (document.querySelector("[aria-invalid='true']") || wrong).focus();
});

// What a browser fills in again after "back" is in none of the checks yet.
window.addEventListener("pageshow", () => {
  matchAll();
  const texts = [...document.querySelectorAll("#workload-form input[type=text]")];
  const model = document.querySelector("#workload-form select[name=model]");
  const chosen = model.querySelector("option[selected]")?.value ?? "";
  if (model.value !== chosen || texts.some((each) => each.value !== each.defaultValue)) {
    model.dispatchEvent(new Event("change", { bubbles: true }));
  }
});
