"use strict";

// "N" belongs to TTF-N alone: without it the input is switched off, so that it is not sent.
function matchN(select) {
  const n = document.getElementById(select.id.replace(/metric$/, "n"));
  if (!n) return;
  n.disabled = select.value !== "ttf_n";
  n.closest(".field").hidden = n.disabled;
}

function matchAll() {
  document.querySelectorAll("select[name$='.metric']").forEach(matchN);
}

document.addEventListener("change", (event) => {
  if (event.target.matches("select[name$='.metric']")) matchN(event.target);
});
document.addEventListener("htmx:afterSettle", matchAll);
document.addEventListener("DOMContentLoaded", () => {
  matchAll();
  const wrong = document.getElementById("form-errors") || document.getElementById("sla-error");
  if (wrong) (document.querySelector("[aria-invalid='true']") || wrong).focus();
});
