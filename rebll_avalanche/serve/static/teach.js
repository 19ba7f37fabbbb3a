import { api, groups } from "./api.js";
import { byId, careful, element, many, percent, say, table, takesPictures } from "./dom.js";
import { Picture } from "./pictures.js";
import { known, onChange, refresh } from "./state.js";
import { above } from "./thresholds.js";

const FEW = 12; // labels that fit on a card; of more, only those that matter are shown
const NEXT = { yes: false, no: null, unknown: true };
const WORDS = { yes: "present", no: "absent", unknown: "not annotated" };
let tray = [];
let learning = false;
const added = new Set(); // labels that somebody has asked for, new ones and known ones
const listeners = [];

export const onTray = (listener) => listeners.push(listener);
export const inTray = (picture) => tray.includes(picture);

export function start() {
  takesPictures(byId("teach-drop"), [byId("teach-files"), byId("teach-folder")],
    (files) => addToTray(files.map((file) => new Picture(file))));
  byId("new-label").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = byId("new-label-name").value.trim();
    if (name) added.add(name);
    byId("new-label-name").value = "";
    draw();
  });
  byId("learn").addEventListener("click", careful(learn));
  byId("tray-clear").addEventListener("click", () => putInTray([]));
  onChange(draw);
  draw();
}

export function addToTray(pictures) {
  putInTray([...tray, ...pictures.filter((picture) => !inTray(picture))]);
  say(`${many(tray.length, "picture")} in the tray.`);
}

function putInTray(pictures) {
  tray = pictures;
  draw();
  listeners.forEach((listener) => listener());
}

// A label is part of the lesson as soon as somebody has said something about it in one picture.
const spokenOf = () => new Set(tray.flatMap((picture) => [...picture.labels].filter(([, said]) => said !== null).map(([name]) => name)));

function labelsToShow(spoken) {
  const all = [...new Set([...known(), ...added])];
  if (all.length <= FEW) return all;
  const matter = new Set([...added, ...spoken, ...tray.flatMap((picture) => [...picture.wanted, ...Object.keys(above(picture.scores))])]);
  return all.filter((name) => matter.has(name));
}

function state(picture, name, spoken) {
  const said = picture.labels.get(name);
  if (said === undefined) return spoken.has(name) ? "no" : "unknown";
  return said === null ? "unknown" : said ? "yes" : "no";
}

function draw() {
  const spoken = spokenOf(), names = labelsToShow(spoken);
  byId("tray").replaceChildren(...tray.map((picture, place) => card(picture, place, names, spoken)));
  byId("known-labels").replaceChildren(...known().map((name) => element("option", { value: name })));
  const count = byId("tray-count");
  count.textContent = tray.length || "";
  count.hidden = !tray.length;
  byId("learn").disabled = learning || !tray.length || !spoken.size;
  byId("tray-clear").disabled = learning || !tray.length;
  byId("advice").textContent = advice(spoken, names);
}

function advice(spoken, names) {
  if (!tray.length) return "";
  if (!names.length) return "Add a label: what shall be learned from these pictures?";
  if (!spoken.size) return "Say in at least one picture which labels are present.";
  const onlyPresent = [...spoken].filter((name) => !known().includes(name)
    && tray.every((picture) => state(picture, name, spoken) !== "no"));
  return onlyPresent.length
    ? `Add some pictures without ${onlyPresent.join(", ")}: from pictures that all have it, nobody learns what it is.` : "";
}

function card(picture, place, names, spoken) {
  const chips = names.map((name, which) => {
    const now = state(picture, name, spoken), score = picture.scores[name];
    const guess = score === undefined ? "" : `; the learner says ${percent(score)} percent`;
    return element("button", {
      type: "button", className: "chip", "data-state": now, "aria-label": `${name}: ${WORDS[now]}${guess}`,
      onclick: () => {
        // What was only assumed to be absent is not worth a click of its own.
        picture.labels.set(name, picture.labels.has(name) ? NEXT[now] : true);
        draw();
        // The button was drawn anew; stay on it.
        byId("tray").children[place].querySelectorAll(".chip")[which].focus();
      },
    }, name, ...(guess && above(picture.scores)[name] ? [element("span", { className: "score" }, percent(score))] : []));
  });
  const remove = element("button", {
    type: "button", "aria-label": `Take ${picture.name} out of the tray`,
    onclick: () => putInTray(tray.filter((each) => each !== picture)),
  }, "Take out");
  const wanted = picture.wanted.length
    ? [element("p", { className: "hint" }, `Look for ${picture.wanted.slice(0, 5).join(", ")}.`)] : [];
  return element("li", {}, element("img", { src: picture.url, alt: picture.name, decoding: "async" }),
    element("p", { className: "name" }, picture.name), ...wanted,
    element("div", { className: "chips" }, ...(chips.length ? chips : [element("span", { className: "hint" }, "add a label first")])),
    element("p", { className: "row" }, remove));
}

async function learn() {
  const spoken = spokenOf(), lesson = tray;
  if ((await groups(lesson.map((picture) => picture.file))).length > 1) {
    throw new Error("These pictures are too large together for one lesson: take some out and teach them in the next.");
  }
  const said = lesson.map((picture) => Object.fromEntries(
    [...spoken].map((name) => [name, { yes: true, no: false, unknown: null }[state(picture, name, spoken)]])));
  const progress = byId("progress");
  learning = true;
  draw();
  progress.hidden = false;
  progress.value = 0;
  say("Learning …");
  try {
    let job = await api.learn(lesson.map((picture) => picture.file), said);
    while (job.state === "waiting" || job.state === "running") {
      progress.value = job.progress;
      say(job.state === "waiting" ? "Waiting for another lesson …" : `Learning … ${Math.round(100 * job.progress)} %`);
      await new Promise((go) => setTimeout(go, 300));
      job = await api.job(job.number);
    }
    if (job.state === "failed") throw new Error(job.error);
    for (const picture of lesson) {
      picture.labels.clear();
      picture.wanted = [];
      picture.taught = true;
    }
    added.clear();
    await refresh();
    if (job.result) {
      showLesson(job.result);
      say(`Learned lesson ${job.result.lesson.number} in ${job.result.lesson.seconds.toFixed(1)} s.`);
    } else say("Learned, and something was forgotten since.");
    putInTray(tray.filter((picture) => !lesson.includes(picture)));
  } finally {
    learning = false;
    progress.hidden = true;
    draw();
  }
}

function showLesson({ lesson, before, known_pictures: again }) {
  const was = Object.fromEntries(before.map((quality) => [quality.name, quality]));
  const rows = lesson.qualities.map((now) => [now.name, now.positives, now.negatives,
    percent(was[now.name]?.average_precision), percent(now.average_precision),
    percent(was[now.name]?.precision), percent(now.precision), percent(was[now.name]?.recall), percent(now.recall)]);
  const header = ["class", "with", "without", "AP before", "AP after", "precision before", "after", "recall before", "after"];
  const note = lesson.qualities.length
    ? "In percent, on the pictures of this lesson; each was scored by a model that had not learned from it."
      + (again ? ` Before the lesson, ${again} of them had been learned already: these were easy then.` : "")
    : "This method cannot score what it has learned from: keep some pictures aside and look at them.";
  byId("lesson-result").replaceChildren(
    element("h3", {}, `Lesson ${lesson.number}: ${many(lesson.pictures.length, "picture")}`),
    ...(rows.length ? [element("div", { className: "wide", tabIndex: 0, role: "region", "aria-label": "Quality of the lesson" }, table(header, rows))] : []),
    element("p", { className: "hint" }, note));
}
