// Tables of results: a click on a heading sorts by it, another one the other way round.
function makeSortable(table) {
  table.querySelectorAll("th").forEach((heading, column) => {
    const button = document.createElement("button");
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") !== "descending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const text = (row) => row.cells[column].textContent.trim();
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        const [x, y] = [text(a), text(b)];
        if (!x || !y) return !x - !y; // what is not known stays below
        const order = Number(x) - Number(y) || x.localeCompare(y);
        return down ? -order : order;
      });
      table.tBodies[0].append(...rows);
    });
  });
}
document.querySelectorAll("table.sortable").forEach(makeSortable);
