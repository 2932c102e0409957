// Sends files to the REST API: chunk by chunk, hashed on the way, taken up again where it stopped.
import { sha256 } from "../vendor/noble-hashes/sha256.js";

const CHUNK = 8 * 2 ** 20;
const PATIENCE = 6;
const BUSY = [429, 503];

// The sentence, and what is wrong where (the API's problem document).
export class Refused extends Error {
  constructor(sentence, reasons = [], status = 0) {
    super(sentence);
    this.reasons = reasons;
    this.status = status;
  }
}
export class Stopped extends Error {}

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

// The sentence for people of whatever went wrong.
export const sentence = (error) =>
  error instanceof Refused ? error.message : "The workbench cannot be reached. Upload again to go on.";

function refusal(request) {
  try {
    const document = JSON.parse(request.responseText);
    return new Refused(document.detail, document.errors, request.status);
  } catch {
    return new Refused(`The workbench answered ${request.status}.`);
  }
}

/* global lastToken: of app.js, which every page loads first */
// The API's uploads. `stop` ends what is being sent with Stopped; `start` allows sending again.
export class Uploads {
  constructor(api, csrf) {
    Object.assign(this, { api, csrf, stopped: false, request: null });
  }

  start() {
    this.stopped = false;
  }

  stop() {
    this.stopped = true;
    this.request?.abort();
  }

  async call(method, path, body) {
    const options = { method, headers: { "X-CSRFToken": lastToken() ?? this.csrf, "Content-Type": "application/json" } };
    if (body) options.body = JSON.stringify(body);
    let response = await fetch(this.api + path, options);
    for (let tries = 0; BUSY.includes(response.status) && tries < PATIENCE; tries++) {
      await this.pause(1000 * (Number(response.headers.get("Retry-After")) || 1));
      response = await fetch(this.api + path, options);
    }
    if (response.status === 204) return null;
    const document = await response.json();
    if (!response.ok) throw new Refused(document.detail, document.errors, response.status);
    return document;
  }

  // Which files of a folder are read, and which are left out.
  select(paths, shards) {
    return this.call("POST", "/selection", { paths, shards });
  }

  // An upload of these very files that was interrupted, or a new one.
  async begin(name, holds, files) {
    const same = ({ files: rows }) =>
      rows.length === files.length && rows.every((row, i) => row.path === files[i].path && row.size === files[i].size);
    const open = await this.call("GET", "?limit=200");
    return open.items.find(same) ?? this.call("POST", "", { name: name.slice(0, 120), holds, files });
  }

  // Sends file `number` of the upload from byte `received` on; `moved` hears how far it is. Resolves to its SHA-256.
  async send(upload, { number, path, received }, file, moved) {
    const hash = sha256.create();
    const at = `/${upload.id}/files/${number}`;
    let hashed = 0;
    let offset = received;
    let failures = 0;
    moved(received);
    while (hashed < file.size) {
      if (this.stopped) throw new Stopped();
      const bytes = new Uint8Array(await file.slice(hashed, hashed + CHUNK).arrayBuffer());
      if (!bytes.length) throw new Refused(`${path}: became shorter while it was sent.`);
      hash.update(bytes);
      hashed += bytes.length;
      if (offset < hashed - bytes.length) throw new Refused(`${path}: the workbench lost bytes. Upload again.`);
      while (offset < hashed) {
        const next = await this.patch(at, offset, bytes.subarray(bytes.length - (hashed - offset)), moved);
        failures = next !== null && next > offset ? 0 : failures + 1;
        if (failures > PATIENCE) throw new Refused(`${path}: the connection keeps breaking. Upload again to go on.`);
        if (failures) await this.pause(250 * 2 ** failures);
        offset = next ?? (await this.call("GET", at).catch(() => ({ received: offset }))).received;
      }
      await this.pause(0);
    }
    moved(file.size);
    return hex(hash.digest());
  }

  // Has the workbench check the files; resolves to the upload with the model or the recording that came of it.
  async finish({ id }, files) {
    let found = await this.call("POST", `/${id}/finish`, { files });
    for (let wait = 250; found.state === "checking"; wait = Math.min(2 * wait, 2000)) {
      await this.pause(wait);
      found = await this.call("GET", `/${id}`);
    }
    if (found.state === "finished") return found;
    throw new Refused(found.problem.detail, found.problem.errors, found.problem.status);
  }

  // One PATCH; resolves to the offset the server is at, or null when the connection broke.
  patch(path, offset, bytes, moved) {
    return new Promise((done, stop) => {
      const request = new XMLHttpRequest();
      this.request = request;
      request.open("PATCH", this.api + path);
      request.setRequestHeader("X-CSRFToken", lastToken() ?? this.csrf);
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

  async pause(milliseconds) {
    await new Promise((done) => setTimeout(done, milliseconds));
    if (this.stopped) throw new Stopped();
  }
}
