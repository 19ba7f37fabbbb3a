import { api } from "./api.js";
import { byId, careful, element, percent, save, say, table } from "./dom.js";
import { changed } from "./main.js";

export function start() {
  byId("undo").addEventListener("click", careful(() => make(api.undo())));
  byId("download").addEventListener("click", careful(async () => save(await api.file(), "learner.rebll")));
}

async function make(change) {
  const job = await change;
  await changed();
  say(`Done: ${job.result.message}.`);
}

export function draw(classes, lessons) {
  byId("undo").disabled = !lessons.length;
  byId("lessons").replaceChildren(...lessons.toReversed().map(lesson));
  byId("class-list").replaceChildren(...classes.map(one));
  const pictures = lessons.reduce((sum, each) => sum + each.pictures.length, 0);
  byId("summary").textContent = `${classes.length} classes from ${pictures} pictures in ${lessons.length} lessons.`;
  byId("class-table").replaceChildren(table(
    ["class", "with", "without", "AP", "precision", "recall", "threshold", "lessons"],
    classes.map(({ name, threshold, lessons: numbers, quality }) => [name, quality?.positives ?? "–", quality?.negatives ?? "–",
      percent(quality?.average_precision), percent(quality?.precision), percent(quality?.recall), threshold.toFixed(2), numbers.join(", ")])));
}

function lesson({ number, taught_at: when, pictures, new_classes: fresh, known_classes: old }) {
  const what = `Lesson ${number}, ${new Date(when).toLocaleString()}: ${pictures.length} pictures` +
    (fresh.length ? `; new: ${fresh.join(", ")}` : "") + (old.length ? `; more of: ${old.join(", ")}` : "");
  const list = element("details", { className: "what" }, element("summary", {}, what),
    element("ul", {}, ...pictures.map((name) => element("li", {}, element("span", { className: "what" }, name),
      element("button", { type: "button", "aria-label": `Forget ${name}`, onclick: careful(() => ask(`Forget ${name}?`, { pictures: [name] })) }, "Forget")))));
  return element("li", {}, list, element("button", {
    type: "button", "aria-label": `Forget lesson ${number}`, onclick: careful(() => ask(`Forget lesson ${number}?`, { lesson: number })),
  }, "Forget"));
}

function one({ name }) {
  const input = element("input", { value: name, maxLength: 100, required: true, "aria-label": `Name of ${name}` });
  const form = element("form", {
    className: "row what",
    onsubmit: careful(async (event) => { event.preventDefault(); if (input.value !== name) await make(api.rename(name, input.value.trim())); }),
  }, input, element("button", { type: "submit", "aria-label": `Rename ${name}` }, "Rename"));
  return element("li", {}, form, element("button", {
    type: "button", "aria-label": `Forget ${name}`, onclick: careful(() => ask(`Forget ${name}?`, { classes: [name] })),
  }, "Forget"));
}

async function ask(question, what) {
  if (confirm(question)) await make(api.forget(what));
}
