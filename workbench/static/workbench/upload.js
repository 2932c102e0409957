// Uploads a model directory by the REST API: chunk by chunk, hashed on the way, taken up again where it stopped.
import { sha256 } from "../vendor/noble-hashes/sha2.js";

const CHUNK = 8 * 2 ** 20;
const PATIENCE = 6;
const form = document.getElementById("upload");
const part = (name) => document.getElementById(`upload-${name}`);
const state = { files: [], folder: "", upload: null, stopped: false, request: null };

// The sentence, and what is wrong where (the API's problem document).
class Refused extends Error {
  constructor(sentence, reasons = [], status = 0) {
    super(sentence);
    this.reasons = reasons;
    this.status = status;
  }
}
class Stopped extends Error {}

// Choosing files

// A folder's hidden files (.git and the like) are no part of the model.
const isHidden = (path) => path.split("/").some((name) => name.startsWith("."));

function choose(found) {
  const files = found.filter(({ path }) => !isHidden(path)).sort((a, b) => (a.path < b.path ? -1 : 1));
  const tops = new Set(files.map(({ path }) => path.split("/")[0]));
  const inFolder = tops.size === 1 && files.every(({ path }) => path.includes("/"));
  state.folder = inFolder ? [...tops][0] : "";
  state.files = files.map(({ path, file }) => ({ path: inFolder ? path.slice(state.folder.length + 1) : path, file }));
  state.upload = null;
  say("");
  draw();
}

function entryFiles(entry, path) {
  if (entry.isFile) return new Promise((done, fail) => entry.file((file) => done([{ path: path + file.name, file }]), fail));
  const reader = entry.createReader();
  const more = () => new Promise((done, fail) => reader.readEntries(done, fail));
  return (async () => {
    const found = [];
    for (let batch = await more(); batch.length; batch = await more()) {
      for (const child of batch) found.push(...(await entryFiles(child, `${path}${entry.name}/`)));
    }
    return found;
  })();
}

const plain = (file) => (file ? [{ path: file.name, file }] : []);

async function drop(event) {
  const dropped = Array.from(event.dataTransfer.items, (item) => [item.webkitGetAsEntry(), item.getAsFile()]);
  const found = await Promise.all(dropped.map(([entry, file]) => (entry ? entryFiles(entry, "") : plain(file))));
  choose(found.flat());
}

// Showing

const units = (bytes) => {
  const power = bytes ? Math.min(3, Math.floor(Math.log2(bytes) / 10)) : 0;
  return `${(bytes / 1024 ** power).toFixed(power ? 1 : 0)} ${["B", "KiB", "MiB", "GiB"][power]}`;
};

function draw() {
  const body = part("list").querySelector("tbody");
  body.replaceChildren(...state.files.map(row));
  part("list").hidden = state.files.length === 0;
  part("start").disabled = state.files.length === 0;
  fail("");
  progress();
}

function row(entry) {
  const line = document.createElement("tr");
  const head = document.createElement("th");
  head.scope = "row";
  head.textContent = entry.path;
  const size = document.createElement("td");
  size.className = "number";
  size.textContent = units(entry.file.size);
  const cell = document.createElement("td");
  entry.bar = document.createElement("progress");
  entry.bar.max = entry.file.size || 1;
  entry.bar.value = 0;
  entry.bar.setAttribute("aria-label", entry.path);
  cell.append(entry.bar);
  line.append(head, size, cell);
  return line;
}

// What is wrong with a file, beside it.
function mark(entry, reason) {
  const line = document.createElement("p");
  line.className = "error";
  line.textContent = reason;
  entry.bar.closest("tr").cells[0].append(line);
}

function progress() {
  const total = state.files.reduce((sum, { file }) => sum + file.size, 0);
  const sent = state.files.reduce((sum, { bar }) => sum + (bar.value || 0), 0);
  part("total").max = total || 1;
  part("total").value = Math.min(sent, total);
}

function say(text) {
  part("status").textContent = text;
}

function fail(text) {
  part("error").textContent = text;
  part("error").hidden = !text;
}

function working(on) {
  part("start").hidden = on;
  part("stop").hidden = !on;
  part("discard").hidden = on || !state.upload;
  for (const name of ["files", "folder", "name"]) part(name).disabled = on;
}

// Talking to the API

async function call(method, path, body) {
  const options = { method, headers: { "X-CSRFToken": form.dataset.csrf, "Content-Type": "application/json" } };
  if (body) options.body = JSON.stringify(body);
  const response = await fetch(form.dataset.api + path, options);
  if (response.status === 204) return null;
  const document = await response.json();
  if (!response.ok) throw new Refused(document.detail, document.errors, response.status);
  return document;
}

// One PATCH; resolves to the offset the server is at, or null when the connection broke.
function patch(url, offset, bytes, moved) {
  return new Promise((done, stop) => {
    const request = new XMLHttpRequest();
    state.request = request;
    request.open("PATCH", url);
    request.setRequestHeader("X-CSRFToken", form.dataset.csrf);
    request.setRequestHeader("Upload-Offset", String(offset));
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = (event) => moved(offset + event.loaded);
    request.onerror = () => done(null);
    request.onabort = () => stop(new Stopped());
    request.onload = () => {
      const at = request.getResponseHeader("Upload-Offset");
      if (at !== null) done(Number(at));
      else if (request.status === 429 || (request.status >= 500 && request.status !== 507)) done(null);
      else stop(refusal(request));
    };
    request.send(bytes);
  });
}

function refusal(request) {
  try {
    const document = JSON.parse(request.responseText);
    return new Refused(document.detail, document.errors);
  } catch {
    return new Refused(`The workbench answered ${request.status}.`);
  }
}

async function pause(milliseconds) {
  await new Promise((done) => setTimeout(done, milliseconds));
  if (state.stopped) throw new Stopped();
}

// Sending

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

const same = (rows, files) =>
  rows.length === files.length && rows.every((row, i) => row.path === files[i].path && row.size === files[i].file.size);

async function begin() {
  const open = await call("GET", "?limit=200");
  const known = open.items.find((each) => same(each.files, state.files));
  if (known) return known;
  const name = part("name").value.trim() || state.folder || "Unnamed model";
  const files = state.files.map(({ path, file }) => ({ path, size: file.size }));
  return call("POST", "", { name: name.slice(0, 120), files });
}

async function sendFile(entry, received) {
  const hash = sha256.create();
  const { file } = entry;
  const url = `${form.dataset.api}/${state.upload.id}/files/${entry.number}`;
  const moved = (at) => {
    entry.bar.value = at;
    progress();
  };
  let hashed = 0;
  let offset = received;
  let failures = 0;
  moved(received);
  while (hashed < file.size) {
    if (state.stopped) throw new Stopped();
    const bytes = new Uint8Array(await file.slice(hashed, hashed + CHUNK).arrayBuffer());
    if (!bytes.length) throw new Refused(`${entry.path}: became shorter while it was sent.`);
    hash.update(bytes);
    hashed += bytes.length;
    if (offset < hashed - bytes.length) throw new Refused(`${entry.path}: the workbench lost bytes. Upload again.`);
    while (offset < hashed) {
      const at = await patch(url, offset, bytes.subarray(bytes.length - (hashed - offset)), moved);
      failures = at !== null && at > offset ? 0 : failures + 1;
      if (failures > PATIENCE) throw new Refused(`${entry.path}: the connection keeps breaking. Upload again to go on.`);
      if (failures) await pause(250 * 2 ** failures);
      offset = at ?? (await call("GET", `/${state.upload.id}/files/${entry.number}`).catch(() => ({ received: offset }))).received;
    }
    await pause(0);
  }
  moved(file.size);
  return { path: entry.path, sha256: hex(hash.digest()) };
}

// A model that is refused leaves no upload behind.
async function finish(hashes) {
  try {
    const model = await call("POST", `/${state.upload.id}/finish`, { files: hashes });
    state.upload = null;
    return model;
  } catch (error) {
    if (error.status === 422) state.upload = null;
    throw error;
  }
}

async function start() {
  state.stopped = false;
  working(true);
  fail("");
  part("list").querySelectorAll(".error").forEach((line) => line.remove());
  try {
    state.upload = await begin();
    const hashes = [];
    for (const [index, entry] of state.files.entries()) {
      const row = state.upload.files[index];
      entry.number = row.number;
      say(`Sending ${entry.path}`);
      hashes.push(await sendFile(entry, row.received));
    }
    say("Checking the files");
    const model = await finish(hashes);
    say("Done.");
    window.location.assign(`/models/${model.id}/`);
  } catch (error) {
    ended(error);
  } finally {
    working(false);
  }
}

function ended(error) {
  if (error instanceof Stopped) {
    say("Paused. Upload again to go on.");
    return;
  }
  say("");
  fail(error instanceof Refused ? error.message : "The workbench cannot be reached. Upload again to go on.");
  for (const reason of error.reasons ?? []) {
    const entry = state.files.find(({ path }) => path === reason.file);
    if (entry) mark(entry, [reason.field, reason.reason].filter(Boolean).join(": "));
  }
}

async function discard() {
  await call("DELETE", `/${state.upload.id}`).catch(() => null);
  choose([]);
  working(false);
}

// Wiring

part("files").addEventListener("change", (event) => choose(Array.from(event.target.files, (file) => ({ path: file.name, file }))));
part("folder").addEventListener("change", (event) =>
  choose(Array.from(event.target.files, (file) => ({ path: file.webkitRelativePath, file }))),
);
part("zone").addEventListener("dragover", (event) => {
  event.preventDefault();
  part("zone").classList.add("over");
});
part("zone").addEventListener("dragleave", () => part("zone").classList.remove("over"));
part("zone").addEventListener("drop", (event) => {
  event.preventDefault();
  part("zone").classList.remove("over");
  if (part("start").hidden) return;
  drop(event).catch(() => fail("These files cannot be read."));
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (state.files.length && !part("start").hidden) start();
});
part("stop").addEventListener("click", () => {
  state.stopped = true;
  state.request?.abort();
});
part("discard").addEventListener("click", discard);
