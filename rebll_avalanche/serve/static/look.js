import { api } from "./api.js";
import { byId, careful, element, percent, save, say, takesPictures } from "./dom.js";
import { Picture } from "./pictures.js";
import { addToTray } from "./teach.js";

const AT_ONCE = 8; // pictures of one request, so that answers come one after the other
let pictures = [];
let thresholds = {};
const moved = {}; // thresholds that were changed with a slider; they hold on this page only

export function start() {
  takesPictures(byId("look-drop"), [byId("look-files"), byId("look-folder")], look);
  byId("look-clear").addEventListener("click", () => { pictures = []; draw(); });
  byId("look-teach").addEventListener("click", () => addToTray(pictures));
  byId("look-suggest").addEventListener("click", careful(suggest));
  byId("save-csv").addEventListener("click", () => save(new Blob([csv()], { type: "text/csv" }), "labels.csv"));
  byId("save-json").addEventListener("click", () =>
    save(new Blob([JSON.stringify(pictures.map(({ name, scores }) => ({ name, labels: above(scores), scores })), null, 1)],
      { type: "application/json" }), "labels.json"));
  draw();
}

async function look(files) {
  const fresh = files.map((file) => new Picture(file));
  pictures.push(...fresh);
  draw();
  await ask(fresh);
}

// After a change of the learner, the same pictures are looked at again.
export const lookAgain = () => ask(pictures);

async function ask(some) {
  for (let first = 0; first < some.length; first += AT_ONCE) {
    const batch = some.slice(first, first + AT_ONCE);
    say(`Looking at picture ${first + 1} of ${some.length} …`);
    try {
      const answer = await api.predict(batch.map((picture) => picture.file));
      thresholds = answer.thresholds;
      batch.forEach((picture, place) => answered(picture, answer.pictures[place].scores));
    } catch (error) { // one file that is no picture must not hide the others
      if (batch.length > 1) await Promise.all(batch.map((picture) => askOne(picture)));
      else batch[0].problem = error.message;
    }
    draw();
  }
  say(some.length ? `${some.length} pictures looked at.` : "");
}

async function askOne(picture) {
  try {
    const answer = await api.predict([picture.file]);
    thresholds = answer.thresholds;
    answered(picture, answer.pictures[0].scores);
  } catch (error) {
    picture.instead = error.message;
  }
}

function answered(picture, scores) {
  picture.scores = scores;
  picture.instead = "none of the labels that are known";
}

const threshold = (name) => moved[name] ?? thresholds[name] ?? 0.5;

const above = (scores) => Object.fromEntries(
  Object.entries(scores).filter(([name, score]) => score > threshold(name)).sort((a, b) => b[1] - a[1]));

function draw() {
  byId("look-cards").replaceChildren(...pictures.map(card));
  for (const id of ["look-teach", "look-suggest", "save-csv", "save-json", "look-clear"]) byId(id).disabled = !pictures.length;
  const names = Object.keys(thresholds);
  byId("thresholds").hidden = !names.length;
  const sliders = byId("thresholds").querySelector(".sliders");
  if (sliders.dataset.names !== JSON.stringify(names)) {
    sliders.dataset.names = JSON.stringify(names);
    sliders.replaceChildren(...names.map(slider));
  }
}

function slider(name) {
  const shown = element("output", {}, threshold(name).toFixed(2));
  return element("label", {}, element("span", {}, name), element("input", {
    type: "range", min: "0", max: "1", step: "0.01", value: String(threshold(name)),
    oninput: (event) => {
      moved[name] = Number(event.target.value);
      shown.textContent = moved[name].toFixed(2);
      byId("look-cards").replaceChildren(...pictures.map(card));
    },
  }), shown);
}

function card(picture) {
  const image = element("img", { src: picture.url, alt: picture.name });
  const found = Object.entries(above(picture.scores));
  const chips = found.map(([name, score]) => {
    const show = careful(async () => {
      picture.wanted = name;
      const map = await api.map(picture.file, name);
      if (picture.wanted !== name) return;
      const url = URL.createObjectURL(map);
      image.onload = () => { URL.revokeObjectURL(url); image.onload = null; };
      image.src = url;
    });
    const hide = () => { picture.wanted = null; image.src = picture.url; };
    return element("button", {
      type: "button", className: "chip", "data-state": "yes", "aria-label": `${name}, ${percent(score)} percent; show where`,
      onmouseenter: show, onfocus: show, onmouseleave: hide, onblur: hide,
    }, name, element("span", { className: "score" }, percent(score)));
  });
  const nothing = element("span", { className: "hint" },
    picture.instead ?? "…");
  return element("li", {}, image, element("p", { className: "name" }, picture.name),
    element("div", { className: "chips" }, ...(chips.length ? chips : [nothing])),
    element("p", { className: "row" }, element("button", { type: "button", onclick: () => addToTray([picture]) }, "Teach")));
}

async function suggest() {
  const found = await api.suggest(pictures.map((picture) => picture.file), 20);
  addToTray(found.map((each) => pictures[each.index]));
}

// Quoted, and never a formula for a spreadsheet.
const cell = (text) => `"${String(text).replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;
const csv = () => ["file,labels", ...pictures.map(({ name, scores }) =>
  `${cell(name)},${cell(Object.keys(above(scores)).join(";"))}`)].join("\r\n") + "\r\n";
