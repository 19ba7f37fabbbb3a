// Sliders: they hold on this page until they are kept in the learner's file.
import { api } from "./api.js";
import { byId, careful, element, say } from "./dom.js";
import { made, onChange, state } from "./state.js";

const moved = new Map();
const listeners = [];

export const onMove = (listener) => listeners.push(listener);

const stored = (name) => state.classes.find((each) => each.name === name)?.threshold ?? 0.5;
export const threshold = (name) => moved.get(name) ?? stored(name);

// The classes of a picture that are above their thresholds, most probable first.
export const above = (scores) => Object.fromEntries(
  Object.entries(scores).filter(([name, score]) => score > threshold(name)).sort((a, b) => b[1] - a[1]));

export function start() {
  onChange(draw);
  byId("keep-thresholds").addEventListener("click", careful(() => store(api.keepThresholds(Object.fromEntries(moved)))));
  byId("reset-thresholds").addEventListener("click", () => { moved.clear(); draw(); tell(); });
  byId("best-f1").addEventListener("click", careful(() => store(api.chooseThresholds(null))));
  byId("precision-form").addEventListener("submit", careful((event) => {
    event.preventDefault();
    return store(api.chooseThresholds(Number(byId("precision").value) / 100));
  }));
}

async function store(change) {
  const message = await made(change);
  moved.clear();
  draw();
  tell();
  say(`Done: ${message}.`);
}

const tell = () => listeners.forEach((listener) => listener());

function draw() {
  for (const name of moved.keys()) if (!state.classes.some((each) => each.name === name)) moved.delete(name);
  byId("thresholds").hidden = !state.classes.length;
  byId("sliders").replaceChildren(...state.classes.map(slider));
  byId("choosing").hidden = !state.about.exact;
  const { precision } = state.about;
  byId("threshold-rule").textContent = !state.about.exact ? ""
    : `Those that nobody has set are chosen for ${precision === null ? "the best F1" : `a precision of ${(100 * precision).toFixed(0)} %`}.`;
  buttons();
}

function buttons() {
  byId("keep-thresholds").disabled = byId("reset-thresholds").disabled = !moved.size;
}

function slider({ name, kept }) {
  const shown = element("output", {}, words(name, kept));
  return element("label", {}, element("span", {}, name), element("input", {
    type: "range", min: "0", max: "1", step: "0.01", value: String(threshold(name)),
    oninput: (event) => {
      moved.set(name, Number(event.target.value));
      shown.textContent = words(name, kept);
      buttons();
      tell();
    },
  }), shown);
}

const words = (name, kept) => threshold(name).toFixed(2) + (moved.has(name) ? " moved" : kept ? " kept" : "");
