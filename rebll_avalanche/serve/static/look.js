import { api, groups } from "./api.js";
import { byId, careful, element, many, percent, save, say, takesPictures } from "./dom.js";
import { Picture } from "./pictures.js";
import { known, refresh, state } from "./state.js";
import { addToTray, inTray, onTray } from "./teach.js";
import { above, onMove } from "./thresholds.js";

const AT_ONCE = 8; // pictures of one request, so that answers come one after the other
const HELPFUL = 20; // pictures that are taught next
const PAUSE = 150; // milliseconds that a pointer stays before a map is asked for
let pictures = [];
let answering = false;

export function start() {
  takesPictures(byId("look-drop"), [byId("look-files"), byId("look-folder")], (files) => {
    pictures.push(...files.map((file) => new Picture(file)));
    draw();
    return answerAll();
  });
  byId("look-clear").addEventListener("click", () => {
    for (const picture of pictures) if (!inTray(picture)) picture.close();
    pictures = [];
    draw();
  });
  byId("look-teach").addEventListener("click", () => addToTray(pictures));
  for (const id of ["look-suggest", "teach-next"]) byId(id).addEventListener("click", careful(suggest));
  byId("save-csv").addEventListener("click", () => save(new Blob([csv()], { type: "text/csv" }), "labels.csv"));
  byId("save-json").addEventListener("click", () =>
    save(new Blob([JSON.stringify(pictures.map(({ name, scores }) => ({ name, labels: above(scores), scores })), null, 1)],
      { type: "application/json" }), "labels.json"));
  onMove(() => pictures.forEach(update));
  onTray(() => { pictures.forEach(update); buttons(); });
  draw();
}

// Every picture that the learner has not looked at as it is now; those of a changed learner are looked at again.
export async function answerAll() {
  if (answering) return;
  answering = true;
  try {
    if (!state.version) await refresh(); // or the first answers would soon be of an unknown version
    while (!byId("look").hidden) {
      const waiting = pictures.filter((picture) => picture.answeredBy !== state.version);
      if (!waiting.length) break;
      say(`Looking at picture ${pictures.length - waiting.length + 1} of ${pictures.length} …`);
      await answer(waiting.slice(0, AT_ONCE));
      if (waiting.length <= AT_ONCE) say(`${many(pictures.length, "picture")} looked at.`);
    }
  } finally {
    answering = false;
  }
}

async function answer(some) {
  const { version } = state;
  let found;
  try {
    found = (await api.predict(some.map((picture) => picture.file))).pictures;
  } catch (error) {
    if (error.unreachable) throw error;
    if (some.length > 1) { // one file that is no picture must not hide the others
      for (const picture of some) await answer([picture]);
      return;
    }
    found = [{ scores: {}, problem: error.message }];
  }
  some.forEach((picture, place) => {
    forgetMaps(picture);
    Object.assign(picture, { scores: found[place].scores, problem: found[place].problem, answeredBy: version });
    update(picture);
  });
}

function draw() {
  byId("look-cards").replaceChildren(...pictures.map((picture) => picture.card ??= card(picture)));
  pictures.forEach(update);
  buttons();
}

function buttons() {
  for (const id of ["look-teach", "look-suggest", "save-csv", "save-json", "look-clear"]) byId(id).disabled = !pictures.length;
  byId("teach-next").disabled = !untaught().length;
}

function card(picture) {
  picture.image = element("img", { src: picture.url, alt: picture.name, decoding: "async" });
  picture.chips = element("div", { className: "chips" });
  picture.teach = element("button", { type: "button", onclick: () => addToTray([picture]) }, "Teach");
  return element("li", {}, picture.image, element("p", { className: "name" }, picture.name), picture.chips,
    element("p", { className: "row" }, picture.teach));
}

function update(picture) {
  if (!picture.card) return;
  const found = Object.entries(above(picture.scores)).map(([name, score]) => chip(picture, name, score));
  const nothing = picture.problem ?? (picture.answeredBy === null ? "…" : known().length
    ? "none of the labels that are known" : "nothing was taught yet");
  picture.chips.replaceChildren(...(found.length ? found : [element("span", { className: "hint" }, nothing)]));
  picture.teach.textContent = inTray(picture) ? "In the tray" : "Teach";
  picture.teach.setAttribute("aria-label", inTray(picture) ? `${picture.name} is in the tray` : `Teach ${picture.name}`);
  picture.teach.disabled = inTray(picture) || Boolean(picture.problem);
}

function chip(picture, name, score) {
  const show = careful(async () => {
    picture.pointedAt = name;
    await new Promise((go) => setTimeout(go, PAUSE));
    if (picture.pointedAt !== name) return;
    picture.maps ??= new Map();
    if (!picture.maps.has(name)) picture.maps.set(name, URL.createObjectURL(await api.map(picture.file, name)));
    if (picture.pointedAt === name) picture.image.src = picture.maps.get(name);
  });
  const hide = () => { picture.pointedAt = null; picture.image.src = picture.url; };
  return element("button", {
    type: "button", className: "chip", "data-state": "yes", "aria-label": `${name}, ${percent(score)} percent; show where`,
    onmouseenter: show, onfocus: show, onmouseleave: hide, onblur: hide,
  }, name, element("span", { className: "score" }, percent(score)));
}

function forgetMaps(picture) {
  for (const url of picture.maps?.values() ?? []) URL.revokeObjectURL(url);
  picture.maps = null;
  if (picture.image) picture.image.src = picture.url;
}

const untaught = () => pictures.filter((picture) => !picture.taught && !picture.problem && !inTray(picture));

// Those that the learner would ask for, with what it would like to know.
async function suggest() {
  const candidates = untaught();
  if (!known().length) { // it cannot tell yet
    addToTray(candidates.slice(0, HELPFUL));
    return;
  }
  say(`Choosing among ${many(candidates.length, "picture")} …`);
  const found = [];
  let first = 0;
  for (const files of await groups(candidates.map((picture) => picture.file))) {
    const some = candidates.slice(first, first + files.length);
    for (const each of await api.suggest(files, HELPFUL)) found.push({ ...each, picture: some[each.index] });
    first += files.length;
  }
  if (first > found.length) found.sort((a, b) => b.uncertainty - a.uncertainty);
  for (const { picture, classes } of found) picture.wanted = classes;
  addToTray(found.slice(0, HELPFUL).map((each) => each.picture));
}

// Quoted, and never a formula for a spreadsheet.
const cell = (text) => `"${String(text).replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;
const csv = () => ["file,labels", ...pictures.map(({ name, scores }) =>
  `${cell(name)},${cell(Object.keys(above(scores)).join(";"))}`)].join("\r\n") + "\r\n";
