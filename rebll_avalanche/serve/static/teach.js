import { api } from "./api.js";
import { byId, careful, element, percent, say, table, takesPictures } from "./dom.js";
import { changed, known } from "./main.js";
import { Picture, named } from "./pictures.js";

let tray = [];
const added = new Set(); // labels that do not exist yet
const NEXT = { yes: false, no: null, unknown: true };
const WORDS = { yes: "present", no: "absent", unknown: "not annotated" };

export function start() {
  takesPictures(byId("teach-drop"), [byId("teach-files")], (files) => addToTray(files.map((file) => new Picture(file))));
  takesPictures(null, [byId("audit-files")], (files) => { files.forEach((file) => new Picture(file)); showSuspect(); });
  byId("new-label").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = byId("new-label-name").value.trim();
    if (name) added.add(name);
    byId("new-label-name").value = "";
    draw();
  });
  byId("learn").addEventListener("click", careful(learn));
  byId("tray-clear").addEventListener("click", () => { tray = []; draw(); });
  byId("audit-start").addEventListener("click", careful(startAudit));
  byId("audit").addEventListener("keydown", careful((event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "y" || event.key === "n") return answerSuspect(event.key === "y");
  }));
  draw();
}

export function addToTray(pictures) {
  tray.push(...pictures.filter((picture) => !tray.includes(picture)));
  say(`${tray.length} pictures in the tray.`);
  draw();
}

const labels = () => [...new Set([...known(), ...added])];

// A label is part of the lesson as soon as somebody has said something about it in one picture.
const spokenOf = () => new Set(tray.flatMap((picture) => [...picture.labels].filter(([, said]) => said !== null).map(([name]) => name)));

function state(picture, name, spoken) {
  const said = picture.labels.get(name);
  if (said === undefined) return spoken.has(name) ? "no" : "unknown";
  return said === null ? "unknown" : said ? "yes" : "no";
}

export function draw() {
  const spoken = spokenOf(), names = labels();
  byId("tray").replaceChildren(...tray.map((picture, place) => card(picture, place, names, spoken)));
  byId("learn").disabled = !tray.length || !spoken.size;
  byId("tray-clear").disabled = !tray.length;
  const onlyPresent = [...spoken].filter((name) => !known().includes(name)
    && tray.every((picture) => state(picture, name, spoken) !== "no"));
  byId("advice").textContent = onlyPresent.length
    ? `Add some pictures without ${onlyPresent.join(", ")}: from pictures that all have it, nobody learns what it is.` : "";
}

function card(picture, place, names, spoken) {
  const chips = names.map((name) => {
    const now = state(picture, name, spoken);
    return element("button", {
      type: "button", className: "chip", "data-state": now, "aria-label": `${name}: ${WORDS[now]}`,
      onclick: () => {
        // What was only assumed to be absent is not worth a click of its own.
        picture.labels.set(name, picture.labels.has(name) ? NEXT[now] : true);
        draw();
        const row = byId("tray").children[place]; // the button was drawn anew; stay on it
        row.querySelectorAll(".chip")[names.indexOf(name)].focus();
      },
    }, name);
  });
  const remove = element("button", {
    type: "button", "aria-label": `Take ${picture.name} out of the tray`,
    onclick: () => { tray = tray.filter((each) => each !== picture); draw(); },
  }, "Take out");
  return element("li", {}, element("img", { src: picture.url, alt: picture.name }),
    element("p", { className: "name" }, picture.name),
    element("div", { className: "chips" }, ...(chips.length ? chips : [element("span", { className: "hint" }, "add a label first")])),
    element("p", { className: "row" }, remove));
}

async function learn() {
  const spoken = spokenOf();
  const said = tray.map((picture) => Object.fromEntries(
    [...spoken].map((name) => [name, { yes: true, no: false, unknown: null }[state(picture, name, spoken)]])));
  const progress = byId("progress");
  byId("learn").disabled = true;
  progress.hidden = false;
  progress.value = 0;
  say("Learning …");
  try {
    let job = await api.learn(tray.map((picture) => picture.file), said);
    while (job.state === "waiting" || job.state === "running") {
      progress.value = job.progress;
      say(job.state === "waiting" ? "Waiting for another lesson …" : "Learning …");
      await new Promise((go) => setTimeout(go, 300));
      job = await api.job(job.number);
    }
    if (job.state === "failed") throw new Error(job.error);
    tray = [];
    added.clear();
    await changed();
    showLesson(job.result);
    say(`Learned lesson ${job.result.lesson.number} in ${job.result.lesson.seconds.toFixed(1)} s.`);
  } finally {
    progress.hidden = true;
    draw();
  }
}

function showLesson({ lesson, before }) {
  const was = Object.fromEntries(before.map((quality) => [quality.name, quality]));
  const rows = lesson.qualities.map((now) => [now.name, now.positives, now.negatives,
    percent(was[now.name]?.average_precision), percent(now.average_precision), percent(now.precision), percent(now.recall)]);
  byId("lesson-result").replaceChildren(
    element("h3", {}, `Lesson ${lesson.number}: ${lesson.pictures.length} pictures`),
    element("div", { className: "wide" }, table(["class", "with", "without", "AP before", "AP after", "precision", "recall"], rows)),
    element("p", { className: "hint" }, "In percent, on the pictures of this lesson; each was scored by a model that had not learned from it."));
}

let suspects = [];

async function startAudit() {
  suspects = await api.audit();
  showSuspect();
  byId("audit").focus();
}

function showSuspect() {
  const place = byId("audit");
  if (!suspects.length) {
    place.replaceChildren(element("p", {}, "No label is doubtful."));
    return;
  }
  const { picture, name, present, probability } = suspects[0];
  const image = named(picture) ? [element("img", { src: named(picture).url, alt: picture })] : [];
  place.replaceChildren(...image, element("p", { className: "name" }, picture),
    element("p", {}, `Does it show ${name}? The label says ${present ? "yes" : "no"}, the learner ${percent(probability)} %. ${suspects.length} left.`),
    element("p", { className: "row" },
      element("button", { type: "button", onclick: careful(() => answerSuspect(true)) }, "Yes (y)"),
      element("button", { type: "button", onclick: careful(() => answerSuspect(false)) }, "No (n)")));
}

async function answerSuspect(shows) {
  const suspect = suspects.shift();
  if (!suspect) return;
  showSuspect();
  byId("audit").focus();
  if (shows === suspect.present) return; // the label was right
  await api.correct([{ picture: suspect.picture, name: suspect.name, present: shows }]);
  say(`${suspect.picture}: ${suspect.name} is ${shows ? "present" : "absent"} now.`);
  await changed();
}
