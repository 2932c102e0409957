"use strict";

// The command palette (Ctrl K, ⌘ K or /) and the shortcuts, which ? and the palette list. A box there turns those of
// single keys off, for who dictates or types elsewhere (WCAG 2.1.4).
{
  const OFF = "shortcuts-off";
  const link = (name) => document.querySelector(`.nav a[href="${name}"], a.inbox[href="${name}"]`);
  const pages = { w: ["/workloads/", "Workloads"], m: ["/models/", "Models"], r: ["/reports/", "Reports"], a: ["/activity/", "Activity"], i: ["/inbox/", "Inbox"], p: ["/prices/", "Prices"], t: ["/tokens/", "Tokens"] };
  const commands = [
    ...Object.values(pages).filter(([address]) => link(address)).map(([address, name]) => ({ kind: "page", name, address })),
    { kind: "page", name: "New workload", address: "/workloads/new/" }, { kind: "page", name: "Upload a model", address: "/models/upload/" },
    { kind: "page", name: "Compare runs", address: "/compare/" }, { kind: "page", name: "Example from an H200", address: "/example/" },
    { kind: "help", name: "Shortcuts", open: () => help.showModal() },
    { kind: "page", name: "Notifications", address: "/notifications/" }, { kind: "page", name: "Members", address: "/members/" },
    { kind: "page", name: "Method", address: "/method/" }, { kind: "page", name: "Kernels", address: "/kernels/" }, { kind: "page", name: "REST API", address: "/api/v1/docs" },
  ];

  function element(tag, properties = {}, ...children) {
    const { attributes = {}, ...own } = properties;
    const made = Object.assign(document.createElement(tag), own);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  let shown = [], chosen = 0, searches = 0;
  const list = element("ul", { id: "palette-found", attributes: { role: "listbox", "aria-label": "Found" } });
  const input = element("input", { type: "search", autocomplete: "off", placeholder: "A page, workload, model, report or run id", attributes: { role: "combobox", "aria-label": "Search and commands", "aria-expanded": "true", "aria-controls": "palette-found" } });
  const palette = element("dialog", { className: "palette", ariaLabel: "Search and commands" }, input, list);

  function go(entry) {
    palette.close();
    if (entry.open) entry.open();
    else location.assign(entry.address);
  }

  function paint() {
    list.replaceChildren(...shown.map((entry, at) => element("li", { id: `found-${at}`, onclick: () => go(entry), attributes: { role: "option", "aria-selected": String(at === chosen) } }, element("span", { textContent: entry.name }), element("span", { className: "muted small", textContent: entry.kind }))));
    if (!shown.length) list.append(element("li", { className: "muted", textContent: "Nothing found.", attributes: { role: "option", "aria-selected": "false" } }));
    input.setAttribute("aria-activedescendant", shown.length ? `found-${chosen}` : "");
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  }

  async function search() {
    const words = input.value.trim().toLowerCase(), mine = ++searches;
    const own = commands.filter(({ name }) => name.toLowerCase().includes(words));
    [shown, chosen] = [own, 0];
    paint();
    if (!words) return;
    const answer = await fetch(`/palette/?q=${encodeURIComponent(words)}`).then((reply) => (reply.ok ? reply.json() : { matches: [] }), () => ({ matches: [] }));
    if (mine !== searches) return;
    shown = [...own, ...answer.matches];
    paint();
  }

  function open() {
    input.value = "";
    palette.showModal();
    search();
  }

  input.addEventListener("input", search);
  input.addEventListener("keydown", (event) => {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" && shown[chosen]) go(shown[chosen]);
    if (!way || !shown.length) return;
    event.preventDefault();
    chosen = (chosen + way + shown.length) % shown.length;
    paint();
  });

  const box = element("input", { type: "checkbox", checked: localStorage.getItem(OFF) !== "yes", onchange: () => localStorage.setItem(OFF, box.checked ? "" : "yes") });
  const keys = [["Ctrl K or /", "search and commands"], ["?", "this list"], ...Object.entries(pages).map(([key, [, name]]) => [`g ${key}`, name]), ["n", "New workload"]];
  const help = element("dialog", { ariaLabel: "Shortcuts" }, element("h2", { textContent: "Shortcuts" }),
    element("dl", { className: "facts" }, ...keys.flatMap(([key, name]) => [element("dt", {}, element("kbd", { textContent: key })), element("dd", { textContent: name })])),
    element("p", {}, element("label", {}, box, "Shortcuts of single keys")),
    element("form", { method: "dialog" }, element("button", { className: "button", textContent: "Close" })));
  for (const dialog of [palette, help]) {
    document.body.append(dialog);
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  }
  const button = document.getElementById("open-palette");
  button.hidden = false;
  button.addEventListener("click", open);

  let before = "";
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      return palette.open ? palette.close() : open();
    }
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest("input, textarea, select, [contenteditable], canvas")) return;
    if (!box.checked) return;
    if (event.key === "?") return help.showModal();
    const address = before === "g" ? pages[event.key]?.[0] : event.key === "n" ? "/workloads/new/" : "";
    before = event.key;
    setTimeout(() => { before = ""; }, 1500);
    if (address) location.assign(address);
    if (event.key === "/") {
      event.preventDefault();
      open();
    }
  });
}
