"use strict";

// On a phone the navigation scrolls sideways: the page that is open comes into its sight.
const opened = document.querySelector(".nav [aria-current]");
if (opened) opened.parentElement.scrollLeft = opened.offsetLeft - opened.parentElement.offsetLeft - 40;

// A table that is wider than its place says so, and its first column stays in sight (app.css).
const widths = new ResizeObserver((changed) => {
  for (const { target } of changed) target.classList.toggle("wide", target.scrollWidth > target.clientWidth + 1);
});

function watchTables() {
  document.querySelectorAll(".table-wrap").forEach((wrap) => widths.observe(wrap));
}

watchTables();
document.addEventListener("htmx:afterSettle", watchTables);

// Forms that destroy or stop something ask first: <form data-confirm="Cancel this run?">. A form that is on its way is
// not sent again: two clicks would start two runs. It may be sent again when its page is shown again, or after a while.
const ANSWER_MS = 20_000;

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method === "post" && form.dataset.sent) return event.preventDefault();
  const question = form.dataset.confirm;
  if (question && !window.confirm(question)) event.preventDefault();
  if (form.method !== "post" || event.defaultPrevented) return;
  form.dataset.sent = "yes";
  setTimeout(() => form.removeAttribute("data-sent"), ANSWER_MS);
});

window.addEventListener("pageshow", () => {
  document.querySelectorAll("form[data-sent]").forEach((form) => form.removeAttribute("data-sent"));
});

// An error beside a field is about what stood there: it goes when the field is changed, before other scripts judge anew.
for (const kind of ["input", "change"]) {
  document.addEventListener(kind, (event) => {
    const field = event.target.closest(".field");
    if (!field) return;
    for (const wrong of [field, ...field.querySelectorAll("[aria-invalid]")]) wrong.removeAttribute("aria-invalid");
    for (const error of field.querySelectorAll(":scope > .error")) {
      error.hidden = true;
      error.textContent = "";
    }
  }, { capture: true });
}

// Tables with many rows: <input data-filters="table-id"> hides the rows that do not contain what is typed.
function filterRows(input) {
  const table = document.getElementById(input.dataset.filters);
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    if (!row.hidden) shown += 1;
  }
  const count = document.getElementById(input.dataset.filters + "-count");
  if (count) count.textContent = `${shown} of ${table.tBodies[0].rows.length} rows`;
}

document.addEventListener("input", (event) => {
  if (event.target.matches("[data-filters]")) filterRows(event.target);
});

// A command or an identifier gets a button that copies it: <code data-copy>.
if (navigator.clipboard) {
  for (const source of document.querySelectorAll("[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button button-small copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy ${source.dataset.copy || "the text"}`);
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(source.textContent.trim());
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    source.after(" ", button);
  }
}

// The live part of a run is swapped every other second; only a change of its state is said aloud.
document.addEventListener("htmx:afterSettle", () => {
  const live = document.querySelector("[data-status]");
  const status = document.getElementById("run-status");
  if (live && status && status.textContent !== live.dataset.status) status.textContent = live.dataset.status;
});
