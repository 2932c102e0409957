// Uploads a model directory from its page.
import { Stopped, Uploads, sentence } from "./uploading.js";

const form = document.getElementById("upload");
const part = (name) => document.getElementById(`upload-${name}`);
const uploads = new Uploads(form.dataset.api, form.dataset.csrf);
const state = { files: [], folder: "", upload: null, chosen: [] };

// Choosing files

// The files that an index of shards names; null where there is none, or none that can be read.
async function shardsOf(files) {
  const index = files.find(({ path }) => path === "model.safetensors.index.json");
  try {
    return index ? [...new Set(Object.values(JSON.parse(await index.file.text()).weight_map))] : null;
  } catch {
    return null;
  }
}

// A hidden folder stands for all of its files: there may be very many.
const listed = (files) => [...new Set(files.map(({ path }) => path.replace(/^(\.[^/]*\/).*/, "$1")))];

async function choose(found) {
  const files = found.sort((a, b) => (a.path < b.path ? -1 : 1));
  const tops = new Set(files.map(({ path }) => path.split("/")[0]));
  const inFolder = tops.size === 1 && files.every(({ path }) => path.includes("/"));
  const folder = inFolder ? [...tops][0] : "";
  const chosen = files.map(({ path, file }) => ({ path: inFolder ? path.slice(folder.length + 1) : path, file }));
  Object.assign(state, { files: [], folder, upload: null, chosen });
  say("");
  leave([]);
  draw();
  if (!chosen.length) return;
  try {
    const selection = await uploads.select(listed(chosen), await shardsOf(chosen));
    if (state.chosen !== chosen) return;
    state.files = chosen.filter(({ path }) => selection.files.includes(path));
    leave(selection.left_out);
    draw();
  } catch (error) {
    if (state.chosen !== chosen) return;
    state.files = chosen;
    draw();
    part("start").disabled = true;
    refuse(error);
  }
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
  const seconds = (performance.now() - state.from?.at) / 1000;
  const rate = (sent - state.from?.sent) / seconds;
  const left = Math.round((total - sent) / rate);
  part("rate").textContent = seconds > 1 && rate > 0 && sent < total ? `${units(rate)}/s, about ${left < 60 ? `${left} s` : `${Math.round(left / 60)} min`} left` : "";
}

function say(text) {
  part("status").textContent = text;
}

function leave(names) {
  part("left-out").textContent = `Left out, as the model is read without them: ${names.join(", ")}.`;
  part("left-out").hidden = !names.length;
}

function fail(text) {
  part("error").textContent = text;
  part("error").hidden = !text;
}

// All that is wrong, above the form and beside each file.
function refuse(error) {
  const reasons = error.reasons ?? [];
  const lines = reasons.map(({ file, field, reason }) => [file, field, reason].filter(Boolean).join(": "));
  fail(lines.length > 1 ? `${lines.join(". ")}.` : sentence(error));
  for (const reason of reasons) {
    const entry = state.files.find(({ path }) => path === reason.file);
    if (entry) mark(entry, [reason.field, reason.reason].filter(Boolean).join(": "));
  }
}

function working(on) {
  part("start").hidden = on;
  part("stop").hidden = !on;
  part("discard").hidden = on || !state.upload;
  for (const name of ["files", "folder", "name"]) part(name).disabled = on;
}

// Sending

function begin() {
  const single = state.files.find(({ path }) => path.endsWith(".gguf"))?.path.slice(0, -".gguf".length);
  const name = part("name").value || state.folder || single || "Unnamed model";
  return uploads.begin(name, "model", state.files.map(({ path, file }) => ({ path, size: file.size })));
}

async function sendFile(entry, row) {
  const moved = (at) => {
    entry.bar.value = at;
    progress();
  };
  return { path: entry.path, sha256: await uploads.send(state.upload, row, entry.file, moved) };
}

// config.json goes first: the workbench checks it while the weights are sent.
async function sendFiles() {
  const rows = new Map(state.upload.files.map((row) => [row.path, row]));
  const pairs = state.files.map((entry) => [entry, rows.get(entry.path)]);
  const isConfig = ([{ path }]) => path === "config.json";
  const hashes = [];
  state.from = { at: performance.now(), sent: pairs.reduce((sum, [, { received }]) => sum + received, 0) };
  for (const [entry, row] of pairs.sort((a, b) => isConfig(b) - isConfig(a))) {
    say(`Sending ${entry.path}`);
    hashes.push(await sendFile(entry, row));
  }
  return hashes;
}

async function start() {
  uploads.start();
  working(true);
  fail("");
  part("list").querySelectorAll(".error").forEach((line) => line.remove());
  try {
    state.upload = await begin();
    const hashes = await sendFiles();
    part("stop").hidden = true; // the workbench checks them now, whether or not this page waits
    say("Checking the files");
    const { model, name } = await uploads.finish(state.upload, hashes);
    state.upload = null;
    say("Done.");
    window.location.assign(`/models/${model.id}/${model.name === name ? "" : "?known"}`);
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
  if (error.status === 422) state.upload = null; // a model that is refused leaves no upload behind
  say("");
  refuse(error);
}

async function discard() {
  await uploads.call("DELETE", `/${state.upload.id}`).catch(() => null);
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
// "Pause" stands where "Upload" was: the second click of a double click is meant for the latter.
part("stop").addEventListener("click", (event) => {
  if (event.detail < 2) uploads.stop();
});
part("discard").addEventListener("click", discard);
