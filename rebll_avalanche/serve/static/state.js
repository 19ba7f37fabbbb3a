// What the server says about the learner, and who wants to know when that is something else.
import { api } from "./api.js";

// version: counts the states that this page has seen, whoever has changed the learner.
export const state = { classes: [], lessons: [], about: {}, version: 0 };
const listeners = [];
let last = "";

export const onChange = (listener) => listeners.push(listener);
export const known = () => state.classes.map((each) => each.name);

// Ask again; everything that shows the learner is drawn again if it has changed.
export async function refresh() {
  const [classes, lessons, about] = await Promise.all([api.classes(), api.lessons(), api.about()]);
  const now = JSON.stringify([classes, lessons, about]);
  if (now === last) return;
  last = now;
  Object.assign(state, { classes, lessons, about, version: state.version + 1 });
  for (const listener of listeners) listener();
}

// Wait for a change that was asked for, show what came of it, and give its sentence.
export async function made(change) {
  const job = await change;
  await refresh();
  return job.result?.message ?? job.kind;
}
