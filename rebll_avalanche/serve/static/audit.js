// Labels that are probably wrong, one question after the other.
import { api } from "./api.js";
import { byId, careful, element, percent, say } from "./dom.js";
import { learnedImage } from "./pictures.js";
import { made } from "./state.js";

let doubts = [];
let answered = []; // newest last
const confirmed = new Set(); // labels that somebody has called right on this page

const nameOf = ({ picture, name, present }) => JSON.stringify([picture.id, name, present]);

export function start() {
  byId("audit-start").addEventListener("click", careful(async () => goThrough(await api.audit())));
  document.addEventListener("keydown", careful((event) => {
    if (byId("teach").hidden || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select, textarea")) return;
    if (event.key === "y" || event.key === "n") return answer(event.key === "y");
    if (event.key === "b") back();
  }));
}

export function goThrough(some) {
  doubts = some.filter((each) => !confirmed.has(nameOf(each)));
  answered = [];
  show();
  byId("audit").focus();
}

function show() {
  const place = byId("audit");
  const again = answered.length ? [element("button", { type: "button", onclick: back }, "Back (b)")] : [];
  if (!doubts.length) {
    place.replaceChildren(element("p", {}, "No label is doubtful."), element("p", { className: "row" }, ...again));
    return;
  }
  const { picture, name, present, probability } = doubts[0];
  place.replaceChildren(learnedImage(picture), element("p", { className: "name" }, picture.name),
    element("p", {}, `Does it show ${name}? The label says ${present ? "yes" : "no"}, the learner ${percent(probability)} %. ${doubts.length} left.`),
    element("p", { className: "row" },
      element("button", { type: "button", onclick: careful(() => answer(true)) }, "Yes (y)"),
      element("button", { type: "button", onclick: careful(() => answer(false)) }, "No (n)"), ...again));
}

// A slip of the finger: the last question again, about the label as it is now.
function back() {
  if (!answered.length) return;
  const doubt = answered.pop();
  confirmed.delete(nameOf(doubt));
  doubts.unshift(doubt);
  show();
  byId("audit").focus();
}

async function answer(shows) {
  const doubt = doubts.shift();
  if (!doubt) return;
  const { picture, name, present } = doubt;
  answered.push(doubt);
  show();
  byId("audit").focus();
  if (shows === present) {
    confirmed.add(nameOf(doubt));
    say(`${picture.name}: the label was right.`);
    return;
  }
  doubt.present = shows;
  try {
    await made(api.correct([{ picture: picture.id, name, present: shows }]));
  } catch (error) {
    doubt.present = present;
    throw error;
  }
  say(`${picture.name}: ${name} is ${shows ? "present" : "absent"} now.`);
}
