// Hands a recording of traffic in from the workload's form, and chooses it there.
import { Uploads, sentence } from "./uploading.js";

const part = (name) => document.getElementById(`recording-${name}`);
const field = (name) => document.querySelector(`#workload-form [name="${name}"]`);
const uploads = new Uploads("/api/v1/uploads", document.querySelector("#workload-form [name=csrfmiddlewaretoken]").value);

function say(text, wrong = "") {
  part("status").textContent = text;
  part("error").textContent = wrong;
  part("error").hidden = !wrong;
}

// Lengths and arrivals become recorded ones; whoever wants others chooses them again.
function choose(recording) {
  const list = field("traffic.recording");
  const known = Array.from(list.options).some((option) => option.value === recording.sha256);
  if (!known) list.add(new Option(recording.name, recording.sha256));
  list.value = recording.sha256;
  for (const name of ["traffic.prompt_lengths.kind", "traffic.output_lengths.kind", "traffic.arrivals.kind"]) {
    field(name).value = "recorded";
    field(name).dispatchEvent(new Event("change", { bubbles: true }));
  }
}

async function handIn(file) {
  const bar = part("progress");
  bar.max = file.size || 1;
  bar.hidden = false;
  try {
    say(`Sending ${file.name}`);
    const upload = await uploads.begin(file.name, "recording", [{ path: file.name, size: file.size }]);
    const sha256 = await uploads.send(upload, upload.files[0], file, (at) => (bar.value = at));
    say("Checking every line");
    const { recording } = await uploads.finish(upload, [{ path: file.name, sha256 }]);
    choose(recording);
    const requests = recording.requests.toLocaleString("en");
    const facts = `${requests} request${recording.requests === 1 ? "" : "s"} over ${Math.round(recording.seconds).toLocaleString("en")} s.`;
    say([`${recording.name} is handed in: ${facts}`, ...recording.notes].join(" "));
  } catch (error) {
    say("", sentence(error));
  } finally {
    bar.hidden = true;
    part("file").disabled = false;
    part("file").value = ""; // so that the same file, corrected, may be chosen again
  }
}

part("file").addEventListener("change", () => {
  const [file] = part("file").files;
  if (!file) return;
  part("file").disabled = true;
  handIn(file);
});
