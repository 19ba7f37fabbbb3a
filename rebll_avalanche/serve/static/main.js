import { api } from "./api.js";
import * as back from "./back.js";
import { byId, careful } from "./dom.js";
import * as look from "./look.js";
import * as teach from "./teach.js";

const SECTIONS = ["look", "teach", "back", "know"];
let classes = [];

export const known = () => classes.map((each) => each.name);

// Whatever has changed the learner, everything that shows it is drawn again.
export async function changed() {
  await refresh();
  await look.lookAgain();
}

async function refresh() {
  let lessons;
  [classes, lessons] = await Promise.all([api.classes(), api.lessons()]);
  back.draw(classes, lessons);
  teach.draw();
}

function show(section) {
  for (const id of SECTIONS) byId(id).hidden = id !== section;
  for (const button of document.querySelectorAll("nav button")) {
    if (button.dataset.section === section) button.setAttribute("aria-current", "page");
    else button.removeAttribute("aria-current");
  }
}

for (const button of document.querySelectorAll("nav button")) {
  button.addEventListener("click", careful(async () => { show(button.dataset.section); await refresh(); }));
}
look.start();
teach.start();
back.start();
show("look");
careful(refresh)();
