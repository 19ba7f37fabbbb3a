import * as audit from "./audit.js";
import * as back from "./back.js";
import { byId, careful, say } from "./dom.js";
import * as know from "./know.js";
import * as look from "./look.js";
import { refresh } from "./state.js";
import * as teach from "./teach.js";
import * as thresholds from "./thresholds.js";

const SECTIONS = ["look", "teach", "back", "know"];

// The part of the address after the hash says which section is shown, so that the browser's back button works.
function show() {
  const asked = location.hash.slice(1);
  const section = SECTIONS.includes(asked) ? asked : "look";
  for (const id of SECTIONS) byId(id).hidden = id !== section;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${section}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${byId(`${section}-title`).textContent} – rebll`;
  return refresh().then(look.answerAll);
}

for (const part of [thresholds, look, teach, audit, back, know]) part.start();
addEventListener("hashchange", careful(() => {
  say(""); // what was said belongs to the section before
  return show();
}));
// Another tab, or somebody else, may have changed the learner meanwhile.
document.addEventListener("visibilitychange", careful(async () => { if (!document.hidden) await show(); }));
careful(show)();
