import { api } from "./api.js";
import { byId, careful, element, many, say } from "./dom.js";
import { learnedImage } from "./pictures.js";
import { made, onChange, state } from "./state.js";

const MANY = 60; // pictures of a lesson that are drawn at once

export function start() {
  byId("undo").addEventListener("click", careful(() => make(api.undo())));
  onChange(draw);
}

async function make(change) {
  say(`Done: ${await made(change)}.`);
}

async function ask(question, what) {
  if (confirm(question)) await make(api.forget(what));
}

function draw() {
  byId("undo").disabled = !state.lessons.length;
  byId("lessons").replaceChildren(...(state.lessons.length ? state.lessons.toReversed().map(lesson)
    : [element("li", { className: "hint" }, "Nothing was taught yet.")]));
  byId("class-list").replaceChildren(...state.classes.map(one));
}

export const sentence = ({ number, taught_at: when, pictures, new_classes: fresh, known_classes: old }) =>
  `Lesson ${number}${when ? `, ${new Date(when).toLocaleString()}` : ""}: ${many(pictures.length, "picture")}` +
  (fresh.length ? `; new: ${fresh.join(", ")}` : "") + (old.length ? `; more of: ${old.join(", ")}` : "");

function lesson(each) {
  const list = element("ul", { className: "cards tiny" });
  const more = element("button", { type: "button" }, "Show more");
  const drawSome = () => {
    const first = list.children.length;
    list.append(...each.pictures.slice(first, first + MANY).map(picture));
    more.hidden = list.children.length === each.pictures.length;
  };
  more.addEventListener("click", drawSome);
  const details = element("details", {
    className: "what", ontoggle: () => { if (details.open && !list.children.length) drawSome(); },
  }, element("summary", {}, sentence(each)), list, more);
  return element("li", {}, details, element("button", {
    type: "button", "aria-label": `Forget lesson ${each.number}`, disabled: !state.about.exact,
    onclick: careful(() => ask(`Forget lesson ${each.number}?`, { lesson: each.number })),
  }, "Forget"));
}

function picture(each) {
  return element("li", {}, learnedImage(each), element("p", { className: "name" }, each.name), element("button", {
    type: "button", "aria-label": `Forget ${each.name}`, disabled: !state.about.exact,
    onclick: careful(() => ask(`Forget ${each.name}?`, { pictures: [each.id] })),
  }, "Forget"));
}

function one({ name }) {
  const input = element("input", { type: "text", value: name, maxLength: 100, required: true, "aria-label": `Name of ${name}` });
  const form = element("form", {
    className: "row what",
    onsubmit: careful(async (event) => {
      event.preventDefault();
      const wanted = input.value.trim();
      if (wanted && wanted !== name) await make(api.rename(name, wanted));
    }),
  }, input, element("button", { type: "submit", "aria-label": `Rename ${name}` }, "Rename"));
  return element("li", {}, form, element("button", {
    type: "button", "aria-label": `Forget ${name}`, disabled: !state.about.exact,
    onclick: careful(() => ask(`Forget ${name}?`, { classes: [name] })),
  }, "Forget"));
}
