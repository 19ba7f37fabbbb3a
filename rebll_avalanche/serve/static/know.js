import { api } from "./api.js";
import { goThrough } from "./audit.js";
import { sentence } from "./back.js";
import { byId, careful, element, many, percent, save, table } from "./dom.js";
import { learnedImage } from "./pictures.js";
import { onChange, state } from "./state.js";

const WORST = 6; // pictures of a class

// What lies below the edge of the window is not asked for until somebody comes there.
const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    careful(() => showWorst(target))();
  }
});

export function start() {
  byId("download").addEventListener("click", careful(async () => save(await api.file(), "learner.rebll")));
  onChange(draw);
}

function draw() {
  const { classes, lessons, about } = state;
  byId("summary").textContent = `${many(about.classes, "class")} from ${many(about.pictures, "picture")} in `
    + `${many(about.lessons, "lesson")}, by ${about.method} on ${about.backbone}.`;
  byId("class-table").replaceChildren(table(
    ["class", "with", "without", "AP", "precision", "recall", "threshold", "lessons"],
    classes.map(({ name, threshold, kept, lessons: numbers, quality }) => [name, quality?.positives ?? "–", quality?.negatives ?? "–",
      percent(quality?.average_precision), percent(quality?.precision), percent(quality?.recall),
      threshold.toFixed(2) + (kept ? " kept" : ""), numbers.join(", ")])));
  byId("worst-part").hidden = !about.exact || !classes.length;
  seen.disconnect();
  byId("worst").replaceChildren(...(about.exact ? classes.map(({ name }) => {
    const row = element("section", { className: "worst", "data-name": name, "aria-label": `Worst pictures of ${name}` },
      element("h4", {}, name), element("p", { className: "hint" }, "…"));
    seen.observe(row);
    return row;
  }) : []));
  byId("taught").replaceChildren(...lessons.map((each) => element("li", {}, `${sentence(each)}. From ${each.source}, in ${each.seconds.toFixed(1)} s.`)));
  byId("download").disabled = !lessons.length;
}

async function showWorst(row) {
  const { name } = row.dataset;
  const found = await api.worst(name, WORST);
  const shown = found.map((doubt, place) => element("li", {}, element("button", {
    type: "button", className: "plain", "aria-label": `${doubt.picture.name}: ${words(doubt)}; ask about it`,
    onclick: () => {
      addEventListener("hashchange", () => goThrough([...found.slice(place), ...found.slice(0, place)]), { once: true });
      location.hash = "teach"; // where the questions are
    },
  }, learnedImage(doubt.picture), element("span", { className: "hint" }, words(doubt)))));
  row.replaceChildren(row.firstChild, shown.length ? element("ul", { className: "cards tiny" }, ...shown)
    : element("p", { className: "hint" }, "It agrees with all of its labels."));
}

const words = ({ present, probability }) => `labelled ${present ? "present" : "absent"}, ${percent(probability)}\u00a0%`;
