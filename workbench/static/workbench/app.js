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

// A notice over the page, with what can be done about it.
function tell(sentence, ...remedies) {
  document.getElementById("told")?.remove();
  const told = document.createElement("p");
  Object.assign(told, { id: "told", className: "notice notice-warning told" });
  told.setAttribute("role", "alert");
  told.append(sentence, ...remedies);
  document.body.append(told);
}

function loginLink() {
  return Object.assign(document.createElement("a"), { href: "/login/", target: "_blank", textContent: "Log in in a new tab" });
}

// The token of the last login, which may have been in another tab; the page's own is then refused.
const lastToken = () => document.cookie.match(/(?:^|; )csrftoken=([^;]+)/)?.[1];

function switchBack(organisation) {
  const button = Object.assign(document.createElement("button"), { className: "button button-small", textContent: "Switch back" });
  button.addEventListener("click", async () => {
    const headers = { "X-CSRFToken": lastToken() ?? "" };
    const body = new URLSearchParams({ organisation, next: "/session/" });
    await fetch("/organisation/", { method: "POST", headers, body, redirect: "manual" });
    document.getElementById("told").remove();
  });
  return button;
}

const ANSWER_MS = 20_000;

// Whether a form may be sent; else a notice says why not. An answer to whom the session no longer speaks for would take
// the place of what was typed.
async function maySend() {
  const { organisation, organisationName } = document.body.dataset;
  let status = 0;
  try {
    status = (await fetch(`/session/?organisation=${organisation}`, { signal: AbortSignal.timeout(ANSWER_MS) })).status;
  } catch { /* status 0 is no answer */ }
  if (status === 401) tell("You are logged out. What you typed is still here: log in, then send it again. ", loginLink());
  else if (status === 409) tell(`Another tab has switched to another organisation; this page is of ${organisationName}. `, switchBack(organisation));
  else if (!status) tell("The workbench does not answer. What you typed is still here: send it again in a moment.");
  else document.getElementById("told")?.remove();
  return status !== 401 && status !== 409 && status !== 0;
}

// Forms that destroy or stop something ask first: <form data-confirm="Cancel this run?">. A form that is on its way is
// not sent again: two clicks would start two runs. It may be sent again when its page is shown again, or after a while.
function sending(form) {
  const token = form.elements.csrfmiddlewaretoken;
  if (token) token.value = lastToken() ?? token.value;
  form.dataset.sent = "yes";
  setTimeout(() => form.removeAttribute("data-sent"), ANSWER_MS);
}

async function ask(form, button) {
  form.dataset.sent = "asked";
  if (!(await maySend())) return form.removeAttribute("data-sent");
  form.dataset.sent = "allowed";
  form.requestSubmit(button);
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || event.defaultPrevented) return;
  if (form.dataset.sent === "allowed") return sending(form);
  const question = form.dataset.confirm;
  if (form.dataset.sent || (question && !window.confirm(question))) return event.preventDefault();
  if (document.body.dataset.organisation === undefined || form.hasAttribute("data-unchecked")) return sending(form);
  event.preventDefault();
  ask(form, event.submitter);
});

document.addEventListener("htmx:configRequest", (event) => {
  if (lastToken()) event.detail.headers["X-CSRFToken"] = lastToken();
});

document.addEventListener("htmx:responseError", (event) => {
  if (event.detail.xhr.status === 401) tell("You are logged out, and this page is no longer kept up to date. ", loginLink());
  if (event.detail.xhr.status === 404) tell("This is no longer here, or another tab has switched to another organisation. Load the page again.");
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

// A term says what it means on hover and on focus, in the words of the page about the method that it leads to.
const meaning = Object.assign(document.createElement("div"), { id: "meaning", className: "meaning", popover: "manual" });
meaning.setAttribute("role", "tooltip");
document.body.append(meaning);
let meanings = null;
let explained = null;
let leaving = 0;

function hideMeaning() {
  meaning.hidePopover();
  explained?.removeAttribute("aria-describedby");
  explained = null;
}

async function explain(term) {
  clearTimeout(leaving);
  if (term === explained) return;
  if (explained) hideMeaning();
  explained = term;
  meanings ??= fetch("/method/meanings/").then((answer) => (answer.ok ? answer.json() : {}), () => ({}));
  const words = (await meanings)[term.hash.slice(1)];
  if (!words || term !== explained) return;
  meaning.textContent = words;
  meaning.showPopover();
  const { left, top, bottom } = term.getBoundingClientRect();
  const { width, height } = meaning.getBoundingClientRect();
  meaning.style.left = `${Math.max(8, Math.min(left, document.documentElement.clientWidth - width - 8))}px`;
  meaning.style.top = `${bottom + height > window.innerHeight ? Math.max(8, top - height) : bottom}px`;
  term.setAttribute("aria-describedby", "meaning");
}

for (const [enter, leave] of [["mouseover", "mouseout"], ["focusin", "focusout"]]) {
  document.addEventListener(enter, (event) => {
    const term = event.target.closest("a.term");
    if (term) explain(term);
    else if (event.target === meaning) clearTimeout(leaving);
  });
  document.addEventListener(leave, (event) => {
    if (!event.target.closest("a.term, .meaning")) return;
    clearTimeout(leaving);
    leaving = setTimeout(hideMeaning, 200);
  });
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && explained) hideMeaning();
});
document.addEventListener("scroll", () => explained && hideMeaning(), { capture: true, passive: true });
